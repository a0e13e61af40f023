"""Counting bytes by phase and direction."""

from collections.abc import Sequence

import numpy as np
import pytest

from feddep.errors import RuntimeFailureError
from feddep.federation.messages import Reply, Request
from feddep.federation.metering import Meter, matched


class Echo:
    """Every client sends back ten bytes for each request, and 4 more if it got something."""

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        return [
            Reply(r.client, {"x": np.zeros(14 if r.arrays else 10, np.uint8)}, {"loss": 1.0})
            for r in requests
        ]


def request(client, phase, size=0):
    arrays = {"w": np.zeros(size, np.float32)} if size else {}
    return Request(client, phase, "step", 0, arrays)


def test_both_directions_are_counted_for_the_phase_of_the_request():
    meter = Meter(Echo())
    meter.exchange([request(0, "one", 5), request(1, "one")])
    meter.exchange([request(0, "two"), request(0, "one")])
    assert meter.counts() == {
        "one": {"up_bytes": 34, "down_bytes": 20},
        "two": {"up_bytes": 10, "down_bytes": 0},
    }


def test_replies_are_passed_on_unchanged():
    requests = [request(1, "one"), request(0, "one", 2)]
    plain, metered = Echo().exchange(requests), Meter(Echo()).exchange(requests)
    assert [(r.client, r.arrays["x"].nbytes) for r in metered] == [
        (r.client, r.arrays["x"].nbytes) for r in plain
    ]


def test_a_silent_phase_is_listed_with_zeros():
    meter = Meter(Echo())
    meter.expect(["quiet", "one"])
    meter.exchange([request(0, "one")])
    meter.expect(["one"])  # asking again does not forget
    assert meter.counts() == {
        "quiet": {"up_bytes": 0, "down_bytes": 0},
        "one": {"up_bytes": 10, "down_bytes": 0},
    }


def test_counting_goes_on_from_stored_counts():
    first = Meter(Echo())
    first.exchange([request(0, "one", 5)])
    stored = first.counts()
    second = Meter(Echo())
    second.restore(stored)
    second.exchange([request(0, "one", 5)])
    assert second.counts() == {"one": {"up_bytes": 28, "down_bytes": 40}}
    assert stored == {"one": {"up_bytes": 14, "down_bytes": 20}}


class Away(Echo):
    """One client never answers."""

    def __init__(self, client: int) -> None:
        self.client = client

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        return [reply for reply in super().exchange(requests) if reply.client != self.client]


@pytest.mark.parametrize("away", [0, 1, 2])
def test_a_request_without_a_reply_was_sent_all_the_same(away):
    meter = Meter(Away(away))
    replies = meter.exchange([request(client, "one", 5) for client in range(3)])
    assert [reply.client for reply in replies] == [c for c in range(3) if c != away]
    assert meter.counts() == {"one": {"up_bytes": 28, "down_bytes": 60}}
    assert {name.partition("/")[0] for name in meter.sent} == {"0", "1", "2"} - {str(away)}


def test_if_nobody_answers_only_the_way_down_counts():
    meter = Meter(Away(0))
    assert meter.exchange([request(0, "one", 5)]) == []
    assert meter.counts() == {"one": {"up_bytes": 0, "down_bytes": 20}}
    assert meter.sent == {}


ASKED = [request(client, "one") for client in (4, 2, 7)]


class TestMatched:
    @pytest.mark.parametrize("clients", [(4, 2, 7), (2, 7), (4, 7), (4, 2), (2,), ()])
    def test_replies_belong_to_the_request_of_their_client(self, clients):
        pairs = matched(ASKED, [Reply(client) for client in clients])
        assert [request for request, _ in pairs] == ASKED
        for asked, reply in pairs:
            assert (reply is not None) == (asked.client in clients)
            assert reply is None or reply.client == asked.client

    @pytest.mark.parametrize("clients", [(3,), (4, 4), (2, 4), (4, 2, 7, 7)])
    def test_a_reply_that_nobody_asked_for_is_a_failure(self, clients):
        with pytest.raises(RuntimeFailureError, match="was not asked for"):
            matched(ASKED, [Reply(client) for client in clients])
