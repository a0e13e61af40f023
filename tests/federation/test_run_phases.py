"""The round loop: order, hand-over of state, stopping and going on."""

from dataclasses import dataclass

import numpy as np
import pytest

from feddep.errors import RuntimeFailureError
from feddep.federation.messages import Reply
from feddep.federation.phase import Ask, RoundReport
from feddep.federation.run_phases import Progress, run_phases


@dataclass(frozen=True)
class Adds:
    """Asks every client for its number and adds the answers, doubled, to the server's memory."""

    name: str
    length: int

    def rounds(self, spec):
        return self.length * spec

    def serve(self, spec, ask, state):
        replies = ask.all("number", {"scale": np.array(2)})
        total = sum(reply.metrics["number"] for reply in replies)
        found = 2 * state.get("total", np.zeros(())) + total + ask.round
        return {**state, "total": found}, RoundReport(ask.round, {"total": float(found)})


class Clients:
    """A transport: client i's number is i + 1."""

    def __init__(self):
        self.requests = []

    def exchange(self, requests):
        self.requests.append(requests)
        return [Reply(r.client, metrics={"number": r.client + 1}) for r in requests]


PHASES = (Adds("one", 2), Adds("nothing", 0), Adds("two", 3))


class StopError(Exception):
    pass


def run(progress=None, stop_after=None, spec=1):
    """Runs the phases and notes every round; ``stop_after`` is a number of rounds."""
    notes, clients = [], Clients()

    def after_round(phase, report, progress):
        notes.append((phase.name, report.round, report.metrics["total"], progress))
        if len(notes) == stop_after:
            raise StopError

    try:
        end = run_phases(PHASES, spec, 2, clients, progress or Progress(), after_round)
    except StopError:
        end = notes[-1][-1]
    return end, notes, clients.requests


def plain(notes):
    return [note[:3] for note in notes]


def test_phases_and_rounds_come_in_order():
    end, notes, _ = run()
    # total ← 2·total + (1 + 2) + round
    assert plain(notes) == [
        ("one", 0, 3.0),
        ("one", 1, 10.0),
        ("two", 0, 23.0),
        ("two", 1, 50.0),
        ("two", 2, 105.0),
    ]
    assert (end.phase, end.round, float(end.state["total"])) == (3, 0, 105.0)


def test_the_spec_decides_the_number_of_rounds():
    _, notes, _ = run(spec=2)
    assert [note[0] for note in notes] == ["one"] * 4 + ["two"] * 6


def test_every_client_is_asked_once_a_round():
    _, _, exchanges = run()
    asked = [
        [(r.client, r.phase, r.step, r.round, int(r.arrays["scale"])) for r in requests]
        for requests in exchanges
    ]
    assert asked[2:4] == [
        [(0, "two", "number", 0, 2), (1, "two", "number", 0, 2)],
        [(0, "two", "number", 1, 2), (1, "two", "number", 1, 2)],
    ]


@pytest.mark.parametrize("stop_after", [1, 2, 3, 4, 5])
def test_a_run_goes_on_from_any_round_as_if_it_had_never_stopped(stop_after):
    whole_end, whole, _ = run()
    progress, before, _ = run(stop_after=stop_after)
    end, after, _ = run(progress)
    assert plain(before) + plain(after) == plain(whole)
    assert end.state["total"] == whole_end.state["total"]
    assert (end.phase, end.round) == (whole_end.phase, whole_end.round)


def test_progress_names_the_next_round():
    _, notes, _ = run()
    assert [(p.phase, p.round) for *_, p in notes] == [(0, 1), (0, 2), (2, 1), (2, 2), (2, 3)]


class TestAsk:
    def test_each_client_gets_arrays_of_its_own(self):
        clients = Clients()
        own = [{"x": np.array(i)} for i in range(3)]
        replies = Ask(3, "phase", 7, clients.exchange).each("step", own)
        assert [reply.client for reply in replies] == [0, 1, 2]
        assert [(r.client, r.round, r.arrays) for r in clients.requests[0]] == [
            (i, 7, own[i]) for i in range(3)
        ]

    def test_a_question_to_all_may_be_without_arrays(self):
        clients = Clients()
        Ask(2, "phase", 0, clients.exchange).all("step")
        assert [r.arrays for r in clients.requests[0]] == [{}, {}]

    def test_those_who_answer_are_enough(self):
        found = Ask(3, "phase", 0, lambda requests: [Reply(2)]).all("step")
        assert [reply.client for reply in found] == [2]

    def test_if_nobody_answers_it_says_where(self):
        ask = Ask(3, "gossip", 7, lambda requests: [])
        with pytest.raises(
            RuntimeFailureError, match=r"none of 3 .* 'gossip', round 7, step 'tell'"
        ):
            ask.all("tell")
