"""Counting bytes by phase and direction."""

from collections.abc import Sequence

import numpy as np
import pytest

from feddep.federation.messages import Reply, Request
from feddep.federation.metering import Meter


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


def test_a_missing_reply_is_noticed():
    class Forgetful(Echo):
        def exchange(self, requests: Sequence[Request]) -> list[Reply]:
            return super().exchange(requests)[1:]

    with pytest.raises(ValueError, match="shorter"):
        Meter(Forgetful()).exchange([request(0, "one"), request(1, "one")])
