"""Keys of two silos: the same at both, and of no use anywhere else."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from feddep.errors import InputError
from feddep.privacy.pair_keys import OVERHEAD, LinkKeys, SealError

NAMES = ("north", "south", "east")


def keys(client, *, run="run", seed=0, names=NAMES):
    return LinkKeys.simulated(seed, run, client, names)


def secrets_of(pair):
    return {pair.tags, pair.outgoing, pair.incoming, pair.filler}


def test_both_silos_have_the_same_keys_in_opposite_directions():
    here, there = keys(0).pair(1), keys(1).pair(0)
    assert here.tags == there.tags
    assert (here.outgoing, here.incoming) == (there.incoming, there.outgoing)
    assert here.outgoing != here.incoming
    assert here.filler != there.filler
    assert here.is_first is not there.is_first


@pytest.mark.parametrize(
    "other",
    [
        keys(0).pair(2),
        keys(0, run="another").pair(1),
        keys(0, seed=1).pair(1),
        keys(0, names=("north", "west")).pair(1),
    ],
    ids=["peer", "run", "seed", "name"],
)
def test_no_key_serves_twice(other):
    assert not secrets_of(keys(0).pair(1)) & secrets_of(other)
    assert len(secrets_of(other)) == 4


def test_a_name_that_ends_as_another_begins_is_another_pair():
    one = LinkKeys.simulated(0, "run", 0, ("ab", "c")).pair(1)
    other = LinkKeys.simulated(0, "run", 0, ("a", "bc")).pair(1)
    assert not secrets_of(one) & secrets_of(other)


def test_only_the_receiver_opens_what_was_sealed_and_only_at_its_place():
    sealed = keys(0).pair(1).sealed(b"four", ["phase", 3])
    assert len(sealed) == 4 + OVERHEAD
    assert keys(1).pair(0).opened(sealed, ["phase", 3]) == b"four"
    for reader, place in ((keys(0).pair(1), ["phase", 3]), (keys(1).pair(0), ["phase3"])):
        with pytest.raises(SealError, match="cannot open"):
            reader.opened(sealed, place)


def test_every_changed_bit_is_noticed():
    sealed = keys(0).pair(1).sealed(b"content", [])
    for position in range(8 * len(sealed)):
        changed = np.frombuffer(sealed, np.uint8).copy()
        changed[position // 8] ^= 1 << position % 8
        with pytest.raises(SealError):
            keys(1).pair(0).opened(changed.tobytes(), [])


def test_another_content_at_the_same_place_has_nothing_in_common():
    """A nonce that served both would show where they differ."""
    pair = keys(0).pair(1)
    one, other = (np.frombuffer(pair.sealed(bytes([n]) * 4096, []), np.uint8) for n in (0, 1))
    assert np.mean(one == other) < 0.02


def test_nothing_secret_is_printed():
    pair = keys(0).pair(1)
    printed = repr(pair) + repr(keys(0))
    assert not any(repr(secret)[2:12] in printed for secret in secrets_of(pair))


def test_a_silo_without_a_known_key_is_named():
    own = X25519PrivateKey.generate()
    with pytest.raises(InputError, match="north has no link key of south"):
        LinkKeys("run", 0, NAMES, own, {}.get).pair(1)


@pytest.mark.parametrize("key", [bytes(32), b"short"], ids=["all-zero", "short"])
def test_a_key_that_gives_everybody_the_same_secret_is_refused(key):
    own = X25519PrivateKey.generate()
    with pytest.raises(InputError, match="link key of south is no X25519 key"):
        LinkKeys("run", 0, NAMES, own, {"south": key}.get).pair(1)


@pytest.mark.parametrize("peer", [0, 3, -1])
def test_there_is_no_pair_with_oneself_or_nobody(peer):
    with pytest.raises(InputError, match="shares keys with clients"):
        keys(0).pair(peer)


def test_names_must_differ():
    with pytest.raises(InputError, match="different names"):
        keys(0, names=("a", "a"))
