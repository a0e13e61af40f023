"""A client refuses to send what its method does not declare."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from feddep.errors import DisclosureError, InputError
from feddep.federation.client import Client
from feddep.federation.messages import Reply, Request, State


@dataclass(frozen=True)
class Says:
    """A phase whose client half answers with given names."""

    arrays: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    name: str = "says"
    reports: frozenset[str] = frozenset({"loss", "count"})
    calls: list[Any] = field(default_factory=list)

    def answer(self, request: Request, state: State, silo: object) -> tuple[Reply, State]:
        self.calls.append((request, state, silo))
        arrays = {name: np.ones(2) for name in self.arrays}
        return Reply(request.client, arrays, dict.fromkeys(self.metrics, 1.0)), {"seen": np.ones(1)}


REQUEST = Request(4, "says", "step", 0)


def node(phase, discloses=("classifier", "prototypes")):
    return Client("the silo", (phase,), frozenset(discloses))


def test_declared_names_pass():
    says = Says(("classifier/bias", "classifier/own/0", "prototypes"), ("loss",))
    reply, _ = node(says).handle(REQUEST, {})
    assert set(reply.arrays) == set(says.arrays)
    assert dict(reply.metrics) == {"loss": 1.0}


@pytest.mark.parametrize(
    ("says", "named"),
    [
        (Says(("classifier/bias", "features")), "features"),
        (Says(("features/classifier",)), "features"),
        (Says(("classifiers/bias",)), "classifiers"),
        (Says(metrics=("loss", "degree")), "degree"),
        (Says(metrics=("classifier",)), "classifier"),
        (Says(("loss",)), "loss"),
        (Says(("labels", "edges"), ("degree",)), "degree, edges, labels"),
    ],
)
def test_an_undeclared_name_is_refused_by_name(says, named):
    with pytest.raises(DisclosureError, match=f"'says' wanted to send {named}, which is not"):
        node(says).handle(REQUEST, {})


def test_the_refusal_lists_what_is_declared():
    with pytest.raises(DisclosureError, match="arrays: classifier; numbers: count, loss"):
        node(Says(("features",)), ["classifier"]).handle(REQUEST, {})
    with pytest.raises(DisclosureError, match="arrays: none; numbers: none"):
        node(Says(("features",), reports=frozenset()), []).handle(REQUEST, {})


def test_request_state_and_silo_are_handed_over_as_values():
    says = Says()
    before = {"memory": np.zeros(1)}
    reply, after = node(says).handle(REQUEST, before)
    assert says.calls == [(REQUEST, before, "the silo")]
    assert reply.client == 4
    assert set(after) == {"seen"}
    assert set(before) == {"memory"}


def test_the_phase_is_found_by_name():
    one, two = Says(name="one"), Says(name="two")
    Client(None, (one, two), frozenset()).handle(Request(0, "two", "step", 0), {})
    assert (len(one.calls), len(two.calls)) == (0, 1)


def test_an_unknown_phase_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="unknown phase 'gossip'; known: says"):
        node(Says()).handle(Request(0, "gossip", "step", 0), {})
