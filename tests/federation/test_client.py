"""A client refuses what its phases do not declare, whoever wants it sent."""

from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import pytest

from feddep.errors import DisclosureError, InputError
from feddep.federation.client import Client
from feddep.federation.content import Content, Count, Number, Problems, Rows, Seen
from feddep.federation.messages import Arrays, Reply, Request, State
from feddep.federation.phase import Ask, Phase, Step


@dataclass(frozen=True)
class Anything(Content):
    optional: bool = True

    def problems(self, name: str, arrays: Arrays, seen: Seen) -> Problems:
        yield from ()


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
        arrays = dict.fromkeys(self.declares, Anything())
        numbers = dict.fromkeys(self.numbers, Number.REAL)
        return {"step": Step(request={"wish": Rows(1)}, reply=arrays, numbers=numbers)}

    def serve(self, spec: object, ask: Ask, state: State) -> NoReturn:
        raise AssertionError("nobody serves here")

    def answer(self, request: Request, state: State, silo: object) -> tuple[Reply, State]:
        self.calls.append((request, state, silo))
        arrays = {name: np.ones(2) for name in self.arrays}
        numbers = dict.fromkeys((*self.numbers, *self.metrics), 1.0)
        return Reply(request.client, arrays, numbers), {"seen": np.ones(1)}


REQUEST = Request(4, "says", "step", 0)


def client(phase):
    return Client("the silo", (phase,), "the spec")


def test_declared_names_pass():
    says = Says(("classifier/bias", "classifier/own/0", "prototypes"), ("loss",))
    reply, _ = client(says).handle(REQUEST, {})
    assert set(reply.arrays) == set(says.arrays)
    assert dict(reply.metrics) == {"loss": 1.0, "count": 1.0}


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


@dataclass(frozen=True)
class Sends(Says):
    """Answers with what it is given, and declares one list of two numbers and a loss."""

    sent: Any = None
    loss: Any = 1.0

    def steps(self, spec: object) -> dict[str, Step]:
        lists = {"codes": Rows(Count.NODES, (2,))}
        return {"step": Step(reply=lists, numbers={"loss": Number.REAL})}

    def answer(self, request: Request, state: State, silo: object) -> tuple[Reply, State]:
        arrays = {} if self.sent is None else {"codes": self.sent}
        return Reply(request.client, arrays, {} if self.loss is None else {"loss": self.loss}), {}


GOOD = np.ones((3, 2), np.float32)


@pytest.mark.parametrize(
    ("sends", "problem"),
    [
        (Sends(sent=GOOD.T), r"'codes' has the shape \(2, 3\) where \(3, 2\) belongs"),
        (Sends(sent=GOOD.astype(np.float64)), "float64 where float32 belongs"),
        (Sends(sent=np.ones((4, 2), np.float32)), r"where \(3, 2\) belongs"),
        (Sends(), "codes is missing"),
        (Sends(sent=GOOD, loss=None), "the number loss is missing"),
        (Sends(sent=GOOD, loss="low"), "loss is no plain number but 'low'"),
        (Sends(sent=GOOD, loss=np.float32(1)), "loss is no plain number"),
    ],
)
def test_what_is_not_as_declared_never_leaves(sends, problem):
    match = f"'says' wanted to send something else in step 'step' than it declares: .*{problem}"
    with pytest.raises(DisclosureError, match=match):
        Client("the silo", (sends,), "the spec", 3).handle(REQUEST, {})
    fits = replace(sends, sent=GOOD, loss=1.0)
    Client("the silo", (fits,), "the spec", 3).handle(REQUEST, {})


def test_arrays_come_in_c_order_and_cannot_be_changed():
    """As over a network; or sums would depend on how many processes there are."""
    fits = Sends(sent=np.asfortranarray(GOOD))
    reply, _ = Client("the silo", (fits,), "the spec", 3).handle(REQUEST, {})
    assert reply.arrays["codes"].flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        reply.arrays["codes"] -= 1


def test_what_the_server_asks_with_cannot_be_changed_by_a_client():
    asked = []
    ask = Ask(2, "says", 0, lambda requests: asked.extend(requests) or [Reply(0)])
    own = np.asfortranarray(GOOD)
    ask.all("step", {"weights": own})
    for request in asked:
        assert request.arrays["weights"].flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            request.arrays["weights"] -= 1
    own -= 1  # the server's own it stays


@pytest.mark.parametrize(
    "wrong", [{"reply": {"codes": (3,)}}, {"request": {"codes": Rows}}, {"numbers": {"n": "real"}}]
)
def test_a_step_that_declares_no_content_is_refused_where_it_is_written(wrong):
    with pytest.raises(InputError, match="a step maps groups of arrays to a Content"):
        Step(**wrong)
