"""The server's log of requests: places sort, and a silo can be told again what it was asked."""

import numpy as np
import pytest

from feddep.deployment.protocol.request_log import Offence, OffenceLog, RequestLog, place_of
from feddep.federation.messages import Request

PLACES = [place_of(0, 0, 0), place_of(0, 0, 1), place_of(1, 9, 0), place_of(1, 10, 0)]


def requests(round: int = 0, clients: int = 2) -> list[Request]:
    return [
        Request(client, "averaging", "train", round, {"nodes": np.arange(client + 1)})
        for client in range(clients)
    ]


@pytest.fixture
def log(tmp_path) -> RequestLog:
    log = RequestLog(tmp_path / "requests")
    for round, place in enumerate(PLACES):
        log.write(place, requests(round))
    return log


def test_places_sort_as_the_exchanges_follow_each_other():
    assert sorted(PLACES) == PLACES


def test_nobody_else_reads_what_silos_sent(log, tmp_path):
    assert (tmp_path / "requests").stat().st_mode & 0o077 == 0


def test_nothing_before_the_first(tmp_path):
    log = RequestLog(tmp_path / "requests")
    assert log.before(PLACES[0]) is None
    assert list(log.between(None, PLACES[0], 0)) == []


def test_what_came_before(log):
    assert [log.before(place) for place in PLACES] == [None, *PLACES[:-1]]
    assert log.before(place_of(1, 9, 5)) == PLACES[2]


def test_all_that_a_client_was_asked(log):
    found = list(log.between(None, PLACES[3], 1))
    assert [(place, previous) for place, previous, _ in found] == [
        (PLACES[0], None),
        (PLACES[1], PLACES[0]),
        (PLACES[2], PLACES[1]),
    ]
    for round, (_, _, request) in enumerate(found):
        assert (request.client, request.phase, request.round) == (1, "averaging", round)
        assert np.array_equal(request.arrays["nodes"], [0, 1])


def test_only_what_it_missed(log):
    ((place, previous, _),) = log.between(PLACES[1], PLACES[3], 0)
    assert (place, previous) == (PLACES[2], PLACES[1])


def test_a_client_that_was_never_asked(log):
    with pytest.raises(LookupError, match=f"client 7 was not asked at {PLACES[0]}"):
        list(log.between(None, PLACES[3], 7))


def test_what_is_redone_takes_back_what_came_after(log, tmp_path):
    log.write(PLACES[1], requests(5))
    assert log.before(PLACES[3]) == PLACES[1]
    found = [request.round for _, _, request in log.between(None, PLACES[3], 0)]
    assert found == [0, 5]


def test_another_process_reads_the_same(log, tmp_path):
    again = RequestLog(tmp_path / "requests")
    assert len(list(again.between(None, "99", 0))) == len(PLACES)


def test_offences_are_read_back_and_those_that_are_redone_forgotten(tmp_path):
    file = tmp_path / "left_out.jsonl"
    log = OffenceLog(file)
    assert log.offences == []
    offences = [Offence(1, "averaging", round, "no\nfinite number") for round in range(4)]
    for place, offence in zip(PLACES, offences, strict=True):
        log.note(place, offence)
    assert len(file.read_text().splitlines()) == 4
    again = OffenceLog(file)
    assert again.offences == offences
    again.forget_from(PLACES[2])
    assert again.offences == OffenceLog(file).offences == offences[:2]
