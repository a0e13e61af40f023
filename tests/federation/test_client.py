"""A client refuses what its phases do not declare, whoever wants it sent."""

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import pytest

from feddep.errors import DisclosureError, InputError
from feddep.federation.client import Client
from feddep.federation.content import Number, Rows
from feddep.federation.messages import Reply, Request, State
from feddep.federation.phase import Ask, Phase, Step


@dataclass(frozen=True)
class Says(Phase[object, object]):
    """A phase whose client half answers with given names."""

    arrays: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    name: str = "says"
    declares: tuple[str, ...] = ("classifier", "prototypes")
    numbers: tuple[str, ...] = ("loss", "count")
    calls: list[Any] = field(default_factory=list)

    def steps(self, spec: object) -> dict[str, Step]:
        arrays = dict.fromkeys(self.declares, Rows(2))
        numbers = dict.fromkeys(self.numbers, Number.REAL)
        return {"step": Step(request={"wish": Rows(1)}, reply=arrays, numbers=numbers)}

    def serve(self, spec: object, ask: Ask, state: State) -> NoReturn:
        raise AssertionError("nobody serves here")

    def answer(self, request: Request, state: State, silo: object) -> tuple[Reply, State]:
        self.calls.append((request, state, silo))
        arrays = {name: np.ones(2) for name in self.arrays}
        return Reply(request.client, arrays, dict.fromkeys(self.metrics, 1.0)), {"seen": np.ones(1)}


REQUEST = Request(4, "says", "step", 0)


def client(phase):
    return Client("the silo", (phase,), "the spec")


def test_declared_names_pass():
    says = Says(("classifier/bias", "classifier/own/0", "prototypes"), ("loss",))
    reply, _ = client(says).handle(REQUEST, {})
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
    with pytest.raises(DisclosureError, match=f"'says' wanted to send {named} in step"):
        client(says).handle(REQUEST, {})


def test_the_refusal_lists_what_is_declared():
    with pytest.raises(DisclosureError, match="arrays: classifier; numbers: count, loss"):
        client(Says(("features",), declares=("classifier",))).handle(REQUEST, {})
    with pytest.raises(DisclosureError, match="arrays: nothing; numbers: nothing"):
        client(Says(("features",), declares=(), numbers=())).handle(REQUEST, {})


def test_request_state_and_silo_are_handed_over_as_values():
    says = Says()
    before = {"memory": np.zeros(1)}
    reply, after = client(says).handle(REQUEST, before)
    assert says.calls == [(REQUEST, before, "the silo")]
    assert reply.client == 4
    assert set(after) == {"seen"}
    assert set(before) == {"memory"}


def test_the_phase_is_found_by_name():
    one, two = Says(name="one"), Says(name="two")
    Client(None, (one, two), None).handle(Request(0, "two", "step", 0), {})
    assert (len(one.calls), len(two.calls)) == (0, 1)


def test_an_unknown_phase_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="unknown phase 'gossip'; known: says"):
        client(Says()).handle(Request(0, "gossip", "step", 0), {})


def test_a_step_that_is_not_declared_is_refused_with_the_known_ones():
    says = Says()
    with pytest.raises(InputError, match="unknown step of phase says 'whisper'; known: step"):
        client(says).handle(Request(0, "says", "whisper", 0), {})
    assert not says.calls


def test_arrays_that_a_step_does_not_carry_are_refused_before_they_are_looked_at():
    says = Says()
    wish, weights = {"wish": np.ones(1)}, {"classifier/bias": np.ones(1)}
    client(says).handle(Request(4, "says", "step", 0, wish), {})
    with pytest.raises(InputError, match=r"'step' of phase 'says' carries wish .*got classifier"):
        client(says).handle(Request(4, "says", "step", 0, wish | weights), {})
    assert len(says.calls) == 1


def test_a_phase_that_declares_nothing_can_carry_nothing():
    silent = Says(metrics=("loss",), declares=(), numbers=())
    with pytest.raises(DisclosureError, match="wanted to send loss"):
        client(silent).handle(REQUEST, {})
