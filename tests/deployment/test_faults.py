"""Faults of network, disks and parties by seed; ``make test-faults`` tries many more."""

import logging

import pytest
from fault_simulation import BrokenPromiseError, Faulty, Federation

AT_ONCE = 25


@pytest.fixture(scope="module", params=["fedavg", "feddep"])
def shared(request) -> Federation:
    return Federation(request.param)


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, 100, AT_ONCE))
def test_every_seed_ends_as_undisturbed_or_says_why_not(shared: Federation, first: int):
    found = [Faulty(shared, seed).outcome() for seed in range(first, first + AT_ONCE)]
    assert sum("why" not in one for one in found) > AT_ONCE / 2


def test_a_seed_fails_in_the_same_way_again(shared: Federation):
    told = []
    for _ in range(2):
        faulty = Faulty(shared, 8)
        faulty.outcome()
        told.append((faulty.draws.random(), faulty.now, faulty.altered))
    assert told[0] == told[1]


def test_what_is_said_twice_in_other_words_is_noticed(shared: Federation, monkeypatch):
    """The simulation can fail: a silo that draws anew for every answer is caught."""
    handle, calls = Federation.handle, []

    def forgetful(own, client, request, state):
        reply, after = handle(own, client, request, state)
        calls.append(reply)
        for array in reply.arrays.values():
            array.flags.writeable = True
            array += len(calls)
        return reply, after

    monkeypatch.setattr(Federation, "handle", forgetful)
    with pytest.raises(BrokenPromiseError):
        for seed in range(40):
            Faulty(shared, seed).outcome()
