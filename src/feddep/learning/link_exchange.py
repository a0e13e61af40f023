"""What two silos tell each other under seal, and the links that both of them have.

The server carries sealed messages and learns their sizes, nothing else. Sizes are rounded up, to
:func:`roomy`, so that they show a count only roughly.

Two silos find out which links both have by exchanging *tags*, 8 bytes for each link: half of a
hash under the pair's key of the ids of both ends. The other half is the other silo's tag of the
same link. So a silo that only repeats what it received claims nothing, and without both ids nobody
can make a tag.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.errors import InputError
from feddep.learning.silo import Silo
from feddep.privacy.pair_keys import LinkKeys, PairKeys, SealError
from feddep.privacy.secret_stream import SecretStream

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Tags = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int32]

SMALLEST = 1024
"""Bytes in which even an empty message is sealed: 127 links, or none."""

MOST_CLAIMS = 8
"""How many times as many links as this silo has with a peer the peer may claim. Guesses must not
be free: whoever claims every pair of ids would match every link."""

_LENGTH = 8  # bytes in front of a message that say how long it is
_HALF = 8  # bytes of a tag
_DIGITS = 6
log = logging.getLogger("feddep")


@dataclass(frozen=True)
class Place:
    """Where in a run something is sealed. It is opened as from there, or not at all."""

    phase: str
    step: str
    round: int = 0


@dataclass(frozen=True, eq=False)
class Links:
    """A silo's links to one peer.

    Attributes:
        own: ``(L,)`` node numbers of this silo.
        own_ids: ``(L,)`` what this silo calls them, as text.
        ids: ``(L,)`` what the peer calls the other ends, as text.
    """

    own: Ints
    own_ids: Array
    ids: Array

    def __len__(self) -> int:
        return len(self.own)

    def among(self, chosen: Array) -> "Links":
        """Some of the links."""
        return Links(self.own[chosen], self.own_ids[chosen], self.ids[chosen])


@dataclass(frozen=True, eq=False)
class Matched:
    """The links that this silo and a peer both have.

    Attributes:
        own: ``(L,)`` the own node of each.
        shown: ``(k,)`` own nodes with such a link, each once, in the order of their ids: what the
            peer is answered for, in an order that both know.
        place: ``(L,)`` for each link, where the other end is in the peer's ``shown``.
    """

    own: Ints
    shown: Ints
    place: Ints


def sealed_for(silo: Silo, peer: int, payload: Array, place: Place) -> Bytes:
    """An array as bytes that only the peer can read; its size is that of :func:`roomy`."""
    content = np.ascontiguousarray(payload).tobytes()
    room = roomy(_LENGTH + len(content))
    whole = len(content).to_bytes(_LENGTH, "little") + content
    return _sealed(keys_of(silo), peer, whole.ljust(room, b"\0"), place)


def opened_from(
    silo: Silo, peer: int, sealed: Array, place: Place, dtype: npt.DTypeLike = np.uint8
) -> Array:
    """What the peer sealed for this silo there, as one row of numbers of a type.

    Raises:
        SealError: the peer did not seal it, for this silo, at this place of this run; or it does
            not hold such numbers.
    """
    keys = keys_of(silo)
    pair = keys.pair(peer)
    whole = pair.opened(np.asarray(sealed).tobytes(), _place(keys, peer, keys.client, place))
    length = int.from_bytes(whole[:_LENGTH], "little")
    if length > len(whole) - _LENGTH or length % np.dtype(dtype).itemsize:
        raise SealError(f"what {pair.peer} sealed for {pair.own} is no row of {np.dtype(dtype)}")
    return np.frombuffer(whole, dtype, length // np.dtype(dtype).itemsize, _LENGTH)


def opened_from_all(
    silo: Silo, sealed: Mapping[str, Array], place: Place, dtype: npt.DTypeLike = np.uint8
) -> dict[int, Array]:
    """What each peer sealed for this silo, by the peer's number.

    A message that cannot be opened counts as not sent, so that one hostile silo does not stop the
    others; the silo's owner is warned.

    Args:
        silo: the receiver.
        sealed: by the peer's number, as text: a group of a request.
        place: where they were sealed.
        dtype: of the numbers.
    """
    found: dict[int, Array] = {}
    for peer in keys_of(silo).peers:
        if str(peer) not in sealed:
            continue
        try:
            found[peer] = opened_from(silo, peer, sealed[str(peer)], place, dtype)
        except (SealError, InputError) as error:
            log.warning("%s; nothing of it is used", error)
    return found


def roomy(size: int) -> int:
    """The bytes in which a message of so many is sealed: rounded up to 6 binary digits.

    At most 3.2% more, and never less than :data:`SMALLEST`.
    """
    step = 1 << max(0, (size - 1).bit_length() - _DIGITS)
    return max(SMALLEST, -(-size // step) * step)


def links_to(silo: Silo, peer: int) -> Links:
    """The links of a silo to a peer, each once."""
    graph, name = silo.graph, keys_of(silo).names[peer]
    outside = graph.outside
    if outside is None or name not in outside.names:
        return Links(np.zeros(0, np.int32), np.zeros(0, "<U1"), np.zeros(0, "<U1"))
    there = np.flatnonzero(outside.silos == outside.names.index(name))
    own = outside.nodes[there]
    return Links(own, as_text(graph.node_ids[own]), as_text(outside.ids[there]))


def claims(silo: Silo, peer: int, place: Place) -> Bytes:
    """A silo's tags of its links to a peer."""
    outgoing, _, _ = _tagged(keys_of(silo).pair(peer), links_to(silo, peer))
    return sealed_tags(silo, peer, outgoing, place)


def sealed_tags(silo: Silo, peer: int, tags: Tags, place: Place) -> Bytes:
    """Tags in random order among others that mean nothing.

    These fill the message up, so that not even the peer sees how many are real.
    """
    room = (roomy(_LENGTH + _HALF * len(tags)) - _LENGTH) // _HALF
    step = f"{place.phase} {place.step} {place.round}".encode()
    key = blake2b(step, key=keys_of(silo).pair(peer).filler, digest_size=32).digest()
    filler = SecretStream(key).words(room - len(tags))
    return sealed_for(silo, peer, np.sort(np.concatenate([tags, filler])), place)


def matched(silo: Silo, peer: int, claimed: Tags) -> Matched:
    """The links that the silo has and the peer claims.

    Args:
        silo: the silo.
        peer: the peer's number.
        claimed: the peer's tags.
    """
    keys = keys_of(silo)
    outgoing, incoming, links = _tagged(keys.pair(peer), links_to(silo, peer))
    most = MOST_CLAIMS * roomy(_LENGTH + _HALF * len(outgoing)) // _HALF
    if len(claimed) > most:
        log.warning(
            "%s claims %d links to %s, which has %d to it; more than %d look like guesses, and "
            "none is accepted", keys.names[peer], len(claimed), keys.name, len(outgoing), most
        )  # fmt: skip
        return _placed(links.among(np.zeros(0, np.int64)))
    return _placed(links.among(np.isin(incoming, claimed)))


def _placed(links: Links) -> Matched:
    _, first = np.unique(links.own_ids, return_index=True)
    _, place = np.unique(links.ids, return_inverse=True)
    return Matched(links.own, links.own[first], place.astype(np.int32))


def _tagged(pair: PairKeys, links: Links) -> tuple[Tags, Tags, Links]:
    """The silo's own tag of each link, the peer's, and the links.

    Links that have the same tag as another one, by chance or because two of the ids are spelt
    alike, are left out.
    """
    first, second = (links.own_ids, links.ids) if pair.is_first else (links.ids, links.own_ids)
    ends = zip(first.tolist(), second.tolist(), strict=True)
    outgoing, incoming = tags_of(pair, (f"{len(one)}:{one}{other}" for one, other in ends))
    clear = _occur_once(outgoing) & _occur_once(incoming)
    return outgoing[clear], incoming[clear], links.among(clear)


def tags_of(pair: PairKeys, texts: Iterable[str]) -> tuple[Tags, Tags]:
    """For each text the silo's own tag and the peer's."""
    hashes = b"".join(
        blake2b(text.encode(), key=pair.tags, digest_size=2 * _HALF).digest() for text in texts
    )
    halves = np.frombuffer(hashes, "<u8").astype(np.uint64).reshape(-1, 2)
    outgoing, incoming = (halves if pair.is_first else halves[:, ::-1]).T
    return outgoing, incoming


def _occur_once(tags: Tags) -> npt.NDArray[np.bool_]:
    _, place, counts = np.unique(tags, return_inverse=True, return_counts=True)
    return np.asarray(counts[place] == 1)


def _sealed(keys: LinkKeys, peer: int, content: bytes, place: Place) -> Bytes:
    sealed = keys.pair(peer).sealed(content, _place(keys, keys.client, peer, place))
    return np.frombuffer(sealed, np.uint8)


def _place(keys: LinkKeys, sender: int, receiver: int, place: Place) -> list[str | int]:
    ends = [keys.names[sender], keys.names[receiver]]
    return [keys.run, place.phase, place.step, place.round, *ends]


def keys_of(silo: Silo) -> LinkKeys:
    """The silo's keys, without which it cannot take part."""
    if silo.links is None:
        raise InputError(
            f"client {silo.client} has no keys for linked silos; `feddep deploy link-keys` adds "
            "them to a kit"
        )
    return silo.links


def as_text(ids: Array) -> Array:
    """Ids as text: 7 in one silo's table and "7" in another's are the same."""
    return ids.astype(np.str_)
