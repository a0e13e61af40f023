"""How long the server waits for whom, what it says then, and who cannot keep it waiting."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from feddep.deployment.protocol import remote_runtime as module
from feddep.deployment.protocol.agreement import Agreement
from feddep.deployment.protocol.remote_runtime import (
    FAILED,
    RemoteRuntime,
    meet,
    one_line,
    reply_of,
)
from feddep.deployment.protocol.request_log import place_of
from feddep.deployment.protocol.silo_service import SiloService
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import InputError, InterruptedRunError, RuntimeFailureError
from feddep.federation.messages import Request
from feddep.runtime.envelope import Envelope, Undelivered
from feddep.scenario.spec import RunSpec

AGREEMENT = Agreement("run", RunSpec().with_settings({"method": "feddep"}), 4, 2, 30)
PHASE = "generator_training"
"""One whose replies hold a number alone."""
POISON = Envelope({"client": 0, "metrics": {"generator_loss": float("nan")}})
TROUBLE = Envelope({"refused": f"{FAILED}: OSError"})


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Time goes on only while somebody sleeps or waits for envelopes."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@dataclass
class Clock:
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Counter:
    """A channel office: silo i has the address 10 + i; ``says`` is what it answers to anything."""

    clock: Clock
    says: dict[int, object]
    asked: list[tuple[int, Envelope]] = field(default_factory=list)

    def addresses(self) -> list[int]:
        return sorted(10 + client for client in self.says)

    def deliver(
        self, envelopes: Mapping[int, Envelope], seconds: float
    ) -> dict[int, Envelope | Undelivered]:
        answers = {}
        for address, envelope in envelopes.items():
            self.asked.append((address - 10, envelope))
            said = self.says[address - 10]
            answer = said(envelope) if callable(said) else said
            if answer is not None:
                answers[address] = answer
        self.clock.now += seconds if len(answers) < len(envelopes) else 0.01
        return answers

    def kinds(self, client: int) -> list[str]:
        return [envelope.header["kind"] for who, envelope in self.asked if who == client]


def reply(client: int) -> Envelope:
    return Envelope({"client": client, "metrics": {"generator_loss": 0.5}})


def remote_runtime(counter: Counter, folder, **wait_policy: float) -> RemoteRuntime:
    silos = [10 + client for client in sorted(counter.says)]
    patient = WaitPolicy(**{"quorum": 0.5, "grace": 30, "wait": 100, "resend": 10, **wait_policy})
    return RemoteRuntime(counter, AGREEMENT, silos, folder, patient)


def requests(clients: int, round: int = 0) -> list[Request]:
    return [Request(client, PHASE, "train", round) for client in range(clients)]


class TestBounds:
    def test_defaults_leave_nobody_out(self):
        assert WaitPolicy().quorum == 1.0

    @pytest.mark.parametrize("quorum", [0, -0.1, 1.01, float("nan"), float("inf")])
    def test_the_quorum_is_a_share(self, quorum):
        with pytest.raises(InputError, match="quorum: expected a share above 0, up to 1"):
            WaitPolicy(quorum=quorum)

    @pytest.mark.parametrize("name", ["grace", "wait", "resend"])
    @pytest.mark.parametrize("seconds", [0, -1, float("nan")])
    def test_seconds_are_positive(self, name, seconds):
        with pytest.raises(InputError, match=f"{name}: expected seconds above 0"):
            WaitPolicy(**{name: seconds})


class TestExchange:
    def test_everybody_answers(self, clock, tmp_path):
        own = remote_runtime(Counter(clock, {0: reply(0), 1: reply(1)}), tmp_path)
        assert [found.client for found in own.exchange(requests(2))] == [0, 1]
        assert own.offences == []
        assert clock.now < 1

    def test_with_a_quorum_it_goes_on_after_the_grace(self, clock, tmp_path):
        own = remote_runtime(Counter(clock, {0: reply(0), 1: None}), tmp_path)
        assert [found.client for found in own.exchange(requests(2))] == [0]
        assert [vars(offence) for offence in own.offences] == [
            {"client": 1, "phase": PHASE, "round": 0, "reason": "no answer within 30 s"}
        ]
        assert clock.now == pytest.approx(30)

    def test_without_one_it_waits_longer_and_says_who_is_missing(self, clock, tmp_path):
        counter = Counter(clock, {0: reply(0), 1: None, 2: None})
        with pytest.raises(InterruptedRunError) as caught:
            remote_runtime(counter, tmp_path).exchange(requests(3))
        assert str(caught.value) == (
            "1 of 3 silos answered within 100 s, fewer than the quorum; missing: 1, 2. Run the "
            "same command with --resume to continue from the last round, with a lower --quorum if "
            "need be"
        )
        assert clock.now == pytest.approx(100)
        assert len(counter.kinds(1)) == 10, "an envelope goes out again every 10 s"
        assert len(counter.kinds(0)) == 1

    def test_one_silo_is_always_needed(self, clock, tmp_path):
        with pytest.raises(InterruptedRunError, match="0 of 2 silos"):
            remote_runtime(Counter(clock, {0: None, 1: None}), tmp_path, quorum=0.01).exchange(
                requests(2)
            )

    def test_a_silo_that_is_down_is_not_asked_without_a_pause(self, clock, tmp_path):
        counter = Counter(clock, {0: reply(0), 1: Undelivered("down")})
        remote_runtime(counter, tmp_path).exchange(requests(2))
        assert len(counter.kinds(1)) <= 31

    def test_nobody_keeps_states_or_measures(self, clock, tmp_path):
        own = remote_runtime(Counter(clock, {0: reply(0)}), tmp_path)
        own.restore([])
        assert own.states() == []
        assert own.measure({}).result() == []


class TestRefusals:
    def test_who_refuses_does_not_count_for_the_quorum(self, clock, tmp_path):
        no = Envelope({"refused": "no more rounds"})
        counter = Counter(clock, {0: reply(0), 1: no, 2: no})
        with pytest.raises(InterruptedRunError) as caught:
            remote_runtime(counter, tmp_path).exchange(requests(3))
        assert "1 of 3 silos answered within 0 s, fewer than the quorum; missing: 1 (the silo " in (
            str(caught.value)
        )
        assert "no more rounds" in str(caught.value)
        assert len(counter.kinds(1)) == 1, "a refusal stands"

    def test_with_a_quorum_it_is_left_out_at_once(self, clock, tmp_path):
        own = remote_runtime(
            Counter(clock, {0: reply(0), 1: Envelope({"refused": "no"})}), tmp_path
        )
        assert [found.client for found in own.exchange(requests(2))] == [0]
        assert [offence.reason for offence in own.offences] == ["the silo refuses: no"]
        assert clock.now < 1

    def test_who_sends_poison_counts_and_is_left_out(self, clock, tmp_path):
        own = remote_runtime(Counter(clock, {0: POISON, 1: reply(1)}), tmp_path, quorum=1.0)
        assert [found.client for found in own.exchange(requests(2))] == [1]
        assert [offence.client for offence in own.offences] == [0]

    def test_poison_alone_is_nothing_to_go_on_with(self, clock, tmp_path):
        own = remote_runtime(Counter(clock, {0: POISON}), tmp_path)
        with pytest.raises(InterruptedRunError, match=r"1 of 1 .* but no reply passed inspection"):
            own.exchange(requests(1))

    def test_who_is_in_trouble_is_asked_again(self, clock, tmp_path):
        asked: list[Envelope] = []

        def troubled(envelope: Envelope) -> Envelope:
            asked.append(envelope)
            return reply(1) if len(asked) > 3 else TROUBLE

        own = remote_runtime(Counter(clock, {0: reply(0), 1: troubled}), tmp_path, quorum=1.0)
        assert len(own.exchange(requests(2))) == 2
        assert own.offences == []
        assert 5 < clock.now < 10, "after longer and longer pauses"

    def test_who_stays_in_trouble_is_left_out_after_the_grace(self, clock, tmp_path):
        own = remote_runtime(Counter(clock, {0: reply(0), 1: TROUBLE}), tmp_path)
        assert len(own.exchange(requests(2))) == 1
        assert [offence.reason for offence in own.offences] == [
            "the silo refuses: cannot answer: OSError"
        ]
        assert clock.now == pytest.approx(30, abs=0.1)

    def test_a_silo_that_fails_begins_its_refusal_so(self, tmp_path):
        def broken() -> None:
            raise OSError("no space left")

        silo = SiloService("a", broken)
        assert silo.answer(Envelope({"kind": "hello"}), dict).header["refused"].startswith(FAILED)

    def test_who_was_left_out_is_known_after_a_restart_once(self, clock, tmp_path):
        counter = Counter(clock, {0: POISON, 1: reply(1)})
        own = remote_runtime(counter, tmp_path)
        for round in range(2):
            own.exchange(requests(2, round))
        again = remote_runtime(counter, tmp_path)
        assert [offence.round for offence in again.offences] == [0, 1]
        again.exchange(requests(2, 1))
        assert [offence.round for offence in again.offences] == [0, 1]
        again.exchange(requests(2, 0))
        assert [offence.round for offence in again.offences] == [0]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("no\x1b[2J\nmore", "no [2J more"),
        ("ü" * 300, "ü" * 300),
        ("x" * 10**6, "x" * 300 + "…"),
        (["no"], "(no text but list)"),
    ],
)
def test_what_a_silo_says_fits_on_a_line(said, shown, clock, tmp_path):
    assert one_line(said) == shown
    own = remote_runtime(Counter(clock, {0: reply(0), 1: Envelope({"refused": said})}), tmp_path)
    own.exchange(requests(2))
    assert [offence.reason for offence in own.offences] == [one_line(f"the silo refuses: {shown}")]


class TestClosing:
    def test_who_is_away_is_waited_for(self, clock, tmp_path, caplog):
        heard: list[Envelope] = []

        def late(envelope: Envelope) -> Envelope | Undelivered:
            heard.append(envelope)
            return Envelope({"done": True}) if len(heard) > 2 else Undelivered("restarting")

        counter = Counter(clock, {0: Envelope({"done": True}), 1: late})
        remote_runtime(counter, tmp_path).close({}, {})
        assert counter.kinds(0) == ["close"]
        assert counter.kinds(1) == ["close"] * 3
        assert caplog.text == ""

    def test_but_not_for_ever(self, clock, tmp_path, caplog):
        counter = Counter(clock, {0: Envelope({"refused": "disk full"}), 1: Undelivered("gone")})
        remote_runtime(counter, tmp_path).close({}, {})
        assert clock.now == pytest.approx(30, abs=1)
        assert "client 0 does not accept the result: disk full" in caplog.text
        assert "client 1 does not answer and does not get the result" in caplog.text


class TestComingBack:
    def ready(self, counter: Counter, folder, **wait_policy: float) -> RemoteRuntime:
        """Two rounds are behind."""
        own = remote_runtime(counter, folder, **wait_policy)
        says, counter.says = counter.says, {client: reply(client) for client in counter.says}
        for round in range(2):
            own.exchange(requests(len(says), round))
        counter.says = says
        counter.asked.clear()
        return own

    def test_who_forgot_all_is_told_all(self, clock, tmp_path):
        heard = []

        def forgetful(envelope: Envelope) -> Envelope:
            heard.append((envelope.header["kind"], envelope.header.get("place")))
            if envelope.header.get("silent") or envelope.header["kind"] == "agree":
                return Envelope({"done": True})
            return reply(1) if len(heard) > 4 else Envelope({"sync": None})

        own = self.ready(Counter(clock, {0: reply(0), 1: forgetful}), tmp_path)
        assert len(own.exchange(requests(2, 2))) == 2
        places = [place_of(2, round, 0) for round in range(3)]
        assert heard == [
            ("request", places[2]),
            ("agree", None),
            ("request", places[0]),
            ("request", places[1]),
            ("request", places[2]),
        ]

    def test_who_refuses_what_it_missed_is_left_out_and_stops_nobody(self, clock, tmp_path):
        def hostile(envelope: Envelope) -> Envelope:
            if envelope.header["kind"] == "agree":
                return Envelope({"refused": "not any more"})
            return Envelope({"sync": None})

        own = self.ready(Counter(clock, {0: reply(0), 1: hostile}), tmp_path)
        assert [found.client for found in own.exchange(requests(2, 2))] == [0]
        assert [offence.reason for offence in own.offences] == ["the silo refuses: not any more"]

    @pytest.mark.parametrize("last", [None, "02-000000-00", "zz", 7])
    def test_who_falls_silent_then_holds_nobody_up_for_longer_than_the_grace(
        self, clock, tmp_path, last
    ):
        def hostile(envelope: Envelope) -> Envelope | None:
            told = envelope.header["kind"] == "agree" or envelope.header["silent"]
            return None if told else Envelope({"sync": last})

        own = self.ready(Counter(clock, {0: reply(0), 1: hostile}), tmp_path)
        began = clock.now
        assert [found.client for found in own.exchange(requests(2, 2))] == [0]
        assert [offence.reason for offence in own.offences] == ["no answer within 30 s"]
        assert clock.now - began < 45


class TestAgreeing:
    def test_a_refusal_is_the_user_s_to_read(self, clock, tmp_path):
        own = remote_runtime(
            Counter(clock, {0: Envelope({}), 1: Envelope({"refused": "no"})}), tmp_path
        )
        with pytest.raises(InputError, match="client 1 refuses the run: no"):
            own.agree([0, 1])

    def test_who_does_not_answer_is_named(self, clock, tmp_path):
        own = remote_runtime(Counter(clock, {0: Envelope({}), 1: Undelivered("down")}), tmp_path)
        with pytest.raises(InterruptedRunError, match="no answer from client 1 within 100 s"):
            own.agree([0, 1])

    def test_the_answers_are_in_the_clients_order(self, clock, tmp_path):
        counter = Counter(clock, {0: Envelope({"own": 0}), 1: Envelope({"own": 1})})
        assert remote_runtime(counter, tmp_path).agree([1, 0]) == {0: {"own": 0}, 1: {"own": 1}}


class TestMeeting:
    def test_it_waits_for_all(self, clock):
        late: list[Envelope] = []

        def second(envelope: Envelope) -> Envelope | Undelivered:
            late.append(envelope)
            return Envelope({"name": "b"}) if len(late) > 2 else Undelivered("starting")

        found = meet(Counter(clock, {0: Envelope({"name": "a"}), 1: second}), 2, WaitPolicy())
        assert found == {10: {"name": "a"}, 11: {"name": "b"}}

    def test_or_after_the_grace_for_a_quorum(self, clock):
        counter = Counter(clock, {0: Envelope({"name": "a"}), 1: Undelivered("down")})
        some = WaitPolicy(quorum=0.5, grace=20)
        assert meet(counter, 2, some, all_of_them=False) == {10: {"name": "a"}}
        assert clock.now == pytest.approx(20, abs=2)
        with pytest.raises(InterruptedRunError, match="1 of 2 silos connected"):
            meet(counter, 2, WaitPolicy(quorum=0.6, grace=20), all_of_them=False)

    def test_it_says_how_many_came(self, clock, caplog):
        counter = Counter(clock, {0: Envelope({"name": "a"}), 1: Undelivered("no app")})
        with (
            caplog.at_level(logging.WARNING, "feddep"),
            pytest.raises(InterruptedRunError, match="1 of 2 silos connected within 20 s"),
        ):
            meet(counter, 2, WaitPolicy(wait=20))
        assert "did not introduce itself: no app" in caplog.text
        assert len(counter.kinds(0)) == 1, "who is known is not asked again"


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"client": None, "metrics": {}},
        {"client": 0, "metrics": None},
        {"client": 0, "metrics": {"loss": "low"}},
        {"client": float("inf"), "metrics": {}},
        {"client": 0, "metrics": {"loss": 10**400}},
    ],
)
def test_what_is_no_reply_is_refused(header):
    with pytest.raises(RuntimeFailureError, match="expected a reply"):
        reply_of(Envelope(header))
