"""Keys that two silos share and the server does not have.

Each silo has an X25519 key. Two of them agree on a secret by Diffie and Hellman's exchange, from
which HKDF-SHA256 derives one key for each purpose. A key depends on the run, both names and both
public keys: it opens nothing of another run, another pair or the other direction.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from feddep.errors import FeddepError, InputError
from feddep.seeding import Seeds

OVERHEAD = 16
"""Bytes that sealing adds: the synthetic nonce, which is also what detects a change."""

_SEALING = 64  # bytes of a key for AES-SIV with 256 bits
_TAGGING = 64  # of a key for BLAKE2b


class SealError(FeddepError):
    """A sealed message that its supposed sender did not seal for this place in this run."""


@dataclass(frozen=True)
class PairKeys:
    """What one silo shares with one other in one run.

    Attributes:
        own: this silo's name.
        peer: the other's.
        tags: the key of hashes that both can compute.
        outgoing: seals what this silo sends the other.
        incoming: opens what the other sends.
        filler: of this silo alone, for what only looks like a hash.
    """

    own: str
    peer: str
    tags: bytes = field(repr=False)
    outgoing: bytes = field(repr=False)
    incoming: bytes = field(repr=False)
    filler: bytes = field(repr=False)

    @property
    def is_first(self) -> bool:
        """Whether this silo's name comes before the other's, an order on which both agree."""
        return self.own < self.peer

    def sealed(self, content: bytes, place: Sequence[str | int]) -> bytes:
        """Encrypts content for the other silo, at a place in the run.

        AES-SIV (RFC 5297) takes its nonce from key, place and content. So the same content at the
        same place looks the same, as in a replay, and no nonce ever serves two contents.
        """
        return AESSIV(self.outgoing).encrypt(content, [_spelt(place)])

    def opened(self, sealed: bytes, place: Sequence[str | int]) -> bytes:
        """Decrypts what the other silo sealed at a place in the run.

        Raises:
            SealError: it did not, or somebody changed it on the way.
        """
        try:
            return AESSIV(self.incoming).decrypt(sealed, [_spelt(place)])
        except (InvalidTag, ValueError):
            raise SealError(
                f"{self.own} cannot open what is said to come from {self.peer}: it was changed on "
                "the way, or sealed for another silo, step or run"
            ) from None


@dataclass(frozen=True, eq=False)
class LinkKeys:
    """One silo's keys in one run.

    Attributes:
        run: names the run; no two runs may have the same.
        client: the silo's number.
        names: the names of all silos, in the clients' order.
        private: the silo's own X25519 key.
        public: tells the public key of a silo, 32 bytes, by its name; None if it is not known.
        one_sided: for how many nodes each other silo is answered without a link here; None, in
            simulations, sets no limit.
    """

    run: str
    client: int
    names: tuple[str, ...]
    private: X25519PrivateKey = field(repr=False)
    public: Callable[[str], bytes | None] = field(repr=False)
    one_sided: int | None = None

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names) or not 0 <= self.client < len(self.names):
            raise InputError(
                "linked silos need different names, this one among them "
                f"(got {', '.join(self.names) or 'none'})"
            )

    @classmethod
    def simulated(cls, seed: int, run: str, client: int, names: Sequence[str]) -> "LinkKeys":
        """Keys from the run's seed, which everybody knows: for simulations."""
        own = _from_seed(seed, names[client])
        return cls(run, client, tuple(names), own, partial(_public_from_seed, seed))

    @property
    def name(self) -> str:
        """The silo's name."""
        return self.names[self.client]

    @property
    def peers(self) -> list[int]:
        """The numbers of all other silos."""
        return [client for client in range(len(self.names)) if client != self.client]

    def pair(self, peer: int) -> PairKeys:
        """The keys shared with another silo.

        Raises:
            InputError: there is no such silo, or its key is not known or unusable.
        """
        if peer not in self.peers:
            raise InputError(f"{self.name} shares keys with clients {self.peers} (got {peer})")
        return _pair(self, peer)


@dataclass(frozen=True, eq=False)
class Keyring:
    """A real silo's own link key, and those that the authority vouches for.

    Attributes:
        private: its X25519 key.
        public: the keys of all silos, 32 bytes each, by name.
    """

    private: X25519PrivateKey = field(repr=False)
    public: Mapping[str, bytes]

    def for_run(
        self, run: str, client: int, names: tuple[str, ...], one_sided: int = 0
    ) -> LinkKeys:
        """The keys in a run of these silos.

        Raises:
            InputError: one of them has no key that the authority vouches for, or this silo's is
                another one than the list says.
        """
        strangers = [name for name in names if name not in self.public]
        if strangers:
            raise _unknown(names[client], ", ".join(strangers))
        if self.public[names[client]] != self.private.public_key().public_bytes_raw():
            raise InputError(
                f"the list of link keys has another key of {names[client]} than this silo's own; "
                "get the list again, or give the operator the own public key"
            )
        return LinkKeys(run, client, names, self.private, self.public.get, one_sided)


@lru_cache(maxsize=4096)
def _pair(keys: LinkKeys, peer: int) -> PairKeys:
    own, other = keys.name, keys.names[peer]
    public = keys.public(other)
    if public is None:
        raise _unknown(own, other)
    own_public = keys.private.public_key().public_bytes_raw()
    try:
        there = X25519PublicKey.from_public_bytes(public)
        shared = keys.private.exchange(there)
    except ValueError:  # not 32 bytes, or a point that gives everybody the same secret
        raise InputError(f"the link key of {other} is no X25519 key") from None
    ends = sorted([(own, own_public.hex()), (other, public.hex())])

    def key(secret: bytes, length: int, *purpose: str) -> bytes:
        info = _spelt(["feddep links", keys.run, *map(list, ends), *purpose])
        return HKDF(SHA256(), length, None, info).derive(secret)

    return PairKeys(
        own=own,
        peer=other,
        tags=key(shared, _TAGGING, "tags"),
        outgoing=key(shared, _SEALING, "sealed", own, other),
        incoming=key(shared, _SEALING, "sealed", other, own),
        filler=key(keys.private.private_bytes_raw(), 32, "filler", own),
    )


def _unknown(own: str, others: str) -> InputError:
    return InputError(
        f"{own} has no link key of {others}; whoever has the kit's authority should sign one "
        "(`feddep deploy link-keys`) and give every silo the new list"
    )


def _from_seed(seed: int, name: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(Seeds(seed).key("links", "key", name))


@lru_cache(maxsize=4096)
def _public_from_seed(seed: int, name: str) -> bytes:
    return _from_seed(seed, name).public_key().public_bytes_raw()


def _spelt(values: Sequence[object]) -> bytes:
    return json.dumps(list(values), separators=(",", ":")).encode()
