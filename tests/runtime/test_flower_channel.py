"""Envelopes over a grid that is none: who gets what, what is an answer, and when time is up."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pytest
from flwr.app import Error, Message, RecordDict

from feddep.runtime.envelope import Envelope, Undelivered
from feddep.runtime.flower import channel as module
from feddep.runtime.flower.channel import FlowerChannel
from feddep.runtime.flower.codec import from_record, to_record

ONE, OTHER = Envelope({"place": 1}, {"a": np.ones(2)}), Envelope({"place": 2})


pytestmark = pytest.mark.usefixtures("inside_a_flower_run")


@pytest.fixture(autouse=True)
def clock(monkeypatch) -> list[float]:
    """A clock that goes on while somebody sleeps; all pauses are noted."""
    pauses: list[float] = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    monkeypatch.setattr(module.time, "monotonic", lambda: sum(pauses))
    return pauses


Answering = Callable[[Message], Message | None]


def echo(message: Message) -> Message:
    """Says what it was asked."""
    return Message(message.content, reply_to=message)


def failing(message: Message, reason: str | None = "no such app") -> Message:
    return Message(Error(code=3, reason=reason), reply_to=message)


@dataclass
class FakeGrid:
    """Nodes 7 and 3. ``reply`` is called at each pull for each message that is waited for."""

    reply: Answering = echo
    accepts: bool = True
    pushed: dict[str, Message] = field(default_factory=dict)
    pulls: list[list[str]] = field(default_factory=list)
    numbers: Iterable[int] = field(default_factory=itertools.count)

    def get_node_ids(self) -> list[int]:
        return [7, 3]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        return [self._push(message) for message in messages]

    def _push(self, message: Message) -> str:
        if not self.accepts:
            return ""
        number = f"message-{next(self.numbers)}"
        message.metadata.__dict__["_message_id"] = number
        self.pushed[number] = message
        return number

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        asked = list(message_ids)
        self.pulls.append(asked)
        replies = [self.reply(self.pushed[number]) for number in asked]
        return [reply for reply in replies if reply is not None]


def test_addresses_are_sorted():
    assert FlowerChannel(FakeGrid()).addresses() == [3, 7]


def test_everybody_gets_an_envelope_and_answers(clock):
    grid = FakeGrid()
    answers = FlowerChannel(grid).deliver({7: ONE, 3: OTHER}, 60)
    assert {node: answer.header for node, answer in answers.items()} == {
        7: ONE.header,
        3: OTHER.header,
    }
    assert np.array_equal(answers[7].arrays["a"], np.ones(2))
    sent = list(grid.pushed.values())
    assert [message.metadata.dst_node_id for message in sent] == [7, 3]
    assert {message.metadata.message_type for message in sent} == {"query"}
    assert clock == []


def test_no_envelopes_no_waiting(clock):
    assert FlowerChannel(FakeGrid()).deliver({}, 60) == {}
    assert clock == []


def test_answers_are_matched_by_the_message_that_they_reply_to():
    def from_the_link(message: Message) -> Message:
        reply = echo(message)
        reply.metadata.__dict__["_src_node_id"] = 1  # as when the link answers for a node
        return reply

    grid = FakeGrid(from_the_link)
    answers = FlowerChannel(grid).deliver({7: ONE, 3: OTHER}, 60)
    assert {node: answer.header["place"] for node, answer in answers.items()} == {7: 1, 3: 2}


def test_a_reply_to_nothing_that_was_sent_is_no_answer():
    stranger = Message(RecordDict(), dst_node_id=7, message_type="query")
    stranger.metadata.__dict__["_message_id"] = "message-of-somebody-else"
    assert FlowerChannel(FakeGrid(lambda _: echo(stranger))).deliver({7: ONE}, 1) == {}


@pytest.mark.parametrize(("reason", "said"), [("no such app", "no such app"), (None, "error 3")])
def test_an_error_is_undelivered(reason, said):
    answers = FlowerChannel(FakeGrid(lambda message: failing(message, reason))).deliver(
        {7: ONE}, 60
    )
    assert isinstance(answers[7], Undelivered)
    assert said in answers[7].reason


def test_what_is_no_envelope_is_undelivered():
    grid = FakeGrid(lambda message: Message(RecordDict(), reply_to=message))
    answers = FlowerChannel(grid).deliver({7: ONE}, 60)
    assert isinstance(answers[7], Undelivered)
    assert "expected a feddep envelope" in answers[7].reason


def test_time_is_up_and_who_answered_is_known(clock):
    grid = FakeGrid(lambda message: echo(message) if message.metadata.dst_node_id == 7 else None)
    answers = FlowerChannel(grid).deliver({7: ONE, 3: ONE}, 5)
    assert set(answers) == {7}
    assert 5 <= sum(clock) < 6
    assert clock[-1] == max(clock) == 0.5, "pauses grow, up to half a second"
    assert grid.pulls[-1] == ["message-1"], "who has answered is not waited for"


def test_an_envelope_that_could_not_be_pushed_is_not_waited_for_by_name(clock):
    grid = FakeGrid(accepts=False)
    assert FlowerChannel(grid).deliver({7: ONE}, 2) == {}
    assert grid.pulls == []
    assert sum(clock) >= 2


def test_a_late_answer_to_the_same_envelope_counts():
    grid = FakeGrid(lambda _: None)
    channel = FlowerChannel(grid)
    assert channel.deliver({7: ONE}, 1) == {}
    grid.reply = lambda message: echo(message) if message is grid.pushed["message-0"] else None
    answers = channel.deliver({7: Envelope(dict(ONE.header))}, 60)
    assert answers[7].header == ONE.header


def test_a_late_answer_to_another_envelope_does_not_count():
    grid = FakeGrid(lambda _: None)
    channel = FlowerChannel(grid)
    channel.deliver({7: ONE}, 1)
    grid.reply = lambda message: echo(message) if message is grid.pushed["message-0"] else None
    assert channel.deliver({7: OTHER}, 1) == {}
    assert grid.pulls[-1] == ["message-1"]


def test_the_late_answer_of_another_node_does_not_count():
    grid = FakeGrid(lambda _: None)
    channel = FlowerChannel(grid)
    channel.deliver({7: ONE}, 1)
    grid.reply = lambda message: echo(message) if message is grid.pushed["message-0"] else None
    assert channel.deliver({3: ONE}, 1) == {}


@pytest.mark.parametrize("lost", ["message-0", "message-1"])
def test_of_two_answers_at_once_the_one_that_says_something_counts(lost):
    grid = FakeGrid(lambda _: None)
    channel = FlowerChannel(grid)
    channel.deliver({7: ONE}, 1)
    grid.reply = lambda m: failing(m) if m is grid.pushed[lost] else echo(m)
    answers = channel.deliver({7: ONE}, 1)
    assert isinstance(answers[7], Envelope)


def test_arrays_of_an_envelope_arrive_as_they_were():
    grid = FakeGrid()
    FlowerChannel(grid).deliver({7: ONE}, 1)
    (message,) = grid.pushed.values()
    assert from_record(message.content).header == ONE.header
    assert message.content.array_records == to_record(ONE).array_records
