"""What a silo lets out: consent at every reply, the promised ε, silent replays, the log."""

import hashlib
from dataclasses import replace

import pytest
from envelopes import (
    CONSENT,
    SiloWithMemory,
    agree,
    agreement_on,
    changed,
    counts,
    lines,
    refused,
    request,
    same,
)

from feddep.deployment.protocol.agreement import Agreement
from feddep.deployment.protocol.disclosure_log import DisclosureLog, sent, verify
from feddep.deployment.protocol.request_log import place_of
from feddep.errors import RuntimeFailureError
from feddep.runtime.envelope import Envelope


class TestConsentAtEveryReply:
    @pytest.fixture
    def strict(self, silo) -> SiloWithMemory:
        """Weights may leave twice."""
        return changed(silo, consent=CONSENT.model_copy(update={"releases": 2}))

    def test_what_left_too_often_stays(self, strict, agreement):
        strict(agree(agreement))
        assert strict(request(agreement, 0)).arrays
        assert strict(request(agreement, 1)).arrays
        before = dict(strict.runs["run"])
        said = refused(strict(request(agreement, 2)))
        assert "classifier has left 2 times in this run and would leave once more" in said
        assert strict.runs["run"] == before
        assert len(lines(strict)) == 2

    def test_other_words_do_not_help(self, strict, agreement):
        strict(agree(agreement))
        answers = [strict(request(agreement, 0, note=number)) for number in range(3)]
        assert ["refused" in answer.header for answer in answers] == [False, False, True]

    def test_a_new_memory_does_not_help(self, strict, agreement):
        strict(agree(agreement))
        for number in range(2):
            strict(request(agreement, number))
        strict.runs.clear()
        strict(agree(agreement))
        assert "once more" in refused(strict(request(agreement)))

    def test_another_agreement_does_not_help(self, strict, agreement):
        strict(agree(agreement))
        for number in range(2):
            strict(request(agreement, number))
        strict(agree(agreement))
        assert "once more" in refused(strict(request(agreement, 2)))

    def test_closing_does_not_help(self, strict, agreement):
        strict(agree(agreement))
        for number in range(2):
            strict(request(agreement, number))
        strict(Envelope({"kind": "close", "run": "run"}))
        strict(agree(agreement))
        assert "once more" in refused(strict(request(agreement)))


class TestAStricterConsent:
    """The owner changes the file and starts the silo again in the middle of a run."""

    @pytest.mark.parametrize(
        ("stricter", "said"),
        [
            ({"methods": {"feddep"}}, "methods: the method is fedavg"),
            ({"rounds": 2, "releases": 9}, "rounds: training takes 3 rounds"),
            ({"highest_epsilon": 1.0}, "highest_epsilon: one edge costs a sound ε of 2"),
            ({"messages": {"prototypes"}}, "messages: classifier would leave"),
            ({"numbers": frozenset()}, "numbers: the numbers"),
        ],
        ids=["methods", "rounds", "epsilon", "messages", "numbers"],
    )
    def test_it_holds_for_the_run_that_was_agreed_on(self, silo, graph, stricter, said):
        flipped = {"privacy.mechanism": "randomised-response", "privacy.epsilon": 2.0}
        agreement = agreement_on(graph, **flipped)
        silo(agree(agreement))
        first = silo(request(agreement))
        consent = CONSENT.model_copy(update=stricter)
        again = SiloWithMemory(replace(silo.service, consent=consent), silo.runs)
        for envelope in (request(agreement, 1), request(agreement)):
            assert said in refused(again(envelope))
        assert len(lines(silo)) == 1
        assert same(silo(request(agreement)), first)


class TestThePromisedEpsilon:
    """DP-SGD at edge level is priced for a number of trainings; SMALL has three rounds."""

    @pytest.fixture
    def capped(self, graph) -> Agreement:
        settings = {"mechanism": "dp-sgd", "occurrences": 1, "epsilon": 4.0}
        return agreement_on(graph, **{f"privacy.{key}": value for key, value in settings.items()})

    @pytest.mark.parametrize("numbered", [True, False], ids=["more rounds", "other words"])
    def test_no_more_trainings_leave_than_it_covers(self, silo, capped, numbered):
        assert silo(agree(capped)).header["sound"]["verdict"] == "holds"
        envelopes = [
            request(capped, number) if numbered else request(capped, note=number)
            for number in range(4)
        ]
        answers = [silo(envelope) for envelope in envelopes]
        assert all(answer.arrays for answer in answers[:3])
        assert "promised its ε for 3 releases of classifier" in refused(answers[3])
        assert len(lines(silo)) == 3

    def test_what_was_priced_once_for_all_may_leave_again(self, silo, graph):
        flipped = {"privacy.mechanism": "randomised-response", "privacy.epsilon": 2.0}
        agreement = agreement_on(graph, **flipped)
        silo(agree(agreement))
        assert all(silo(request(agreement, number)).arrays for number in range(4))


class TestSilence:
    def test_nothing_leaves_and_nothing_is_written_down(self, silo, agreement):
        silo(agree(agreement))
        answer = silo(request(agreement, silent=True))
        assert answer.header == {"done": place_of(0, 0, 0)}
        assert not answer.arrays
        assert lines(silo) == []
        assert counts(silo) == {}

    def test_it_leads_to_the_same_state(self, silo, agreement):
        aloud = changed(silo, disclosures=None)
        answers = []
        for own, silent in ((silo, True), (aloud, False)):
            own(agree(agreement))
            own(request(agreement, 0, silent=silent))
            answers.append(own(request(agreement, 1)))
        assert same(*answers)

    @pytest.mark.parametrize("silent", [True, 1, "yes", [0]])
    def test_whatever_stands_for_silence(self, silo, agreement, silent):
        silo(agree(agreement))
        assert not silo(request(agreement, silent=silent)).arrays

    def test_what_was_worked_out_in_silence_counts_when_it_leaves(self, silo, agreement):
        strict = changed(silo, consent=CONSENT.model_copy(update={"releases": 1}))
        strict(agree(agreement))
        strict(request(agreement, 0, silent=True))
        assert strict(request(agreement, 0)).arrays
        assert counts(strict) == {"classifier": 1, "numbers/averaging": 1}
        strict(request(agreement, 1, silent=True))
        assert "once more" in refused(strict(request(agreement, 1)))

    def test_a_silo_that_is_told_again_may_still_send_all_that_it_may(self, silo, agreement):
        """After round 1 of 3 the memory is lost; with the last scores, 4 answers leave."""
        silo(agree(agreement))
        for number in range(2):
            silo(request(agreement, number))
        silo.runs.clear()
        silo(agree(agreement))
        for number in range(2):
            assert "done" in silo(request(agreement, number, silent=True)).header
        assert silo(request(agreement, 2)).arrays
        assert silo(request(agreement, 3, step="score")).header["metrics"]


class TestDisclosureLog:
    def test_what_leaves_stands_there_with_its_hash(self, silo, agreement):
        silo(agree(agreement))
        answer = silo(request(agreement))
        (line,) = lines(silo)
        assert (line["run"], line["phase"], line["step"], line["round"]) == (
            "run",
            "averaging",
            "train",
            0,
        )
        hashes = {name: entry["sha256"] for name, entry in line["names"].items()}
        assert hashes == {
            name: hashlib.sha256(array.tobytes()).hexdigest()
            for name, array in answer.arrays.items()
        }
        assert line["numbers"] == answer.header["metrics"]

    def test_what_leaves_twice_stands_there_twice(self, silo, agreement):
        silo(agree(agreement))
        for _ in range(2):
            silo(request(agreement))
        path = silo.service.disclosures.path
        assert len(lines(silo)) == 2
        assert verify(path).lines == 4, "the agreement has one too, and that the run began"
        assert sent(path, "run")["classifier"] == 2

    def test_what_the_silo_agrees_to_or_not_stands_there(self, silo, agreement, graph):
        refused(silo(agree(agreement_on(graph, **{"training.rounds": 4}))))
        silo(agree(agreement))
        (no,), (yes,) = lines(silo, "refused"), lines(silo, "agreed")
        assert no["run"] == yes["run"] == "run"
        assert "training takes 4 rounds" in no["reason"]
        assert yes["epsilon"] is None
        assert verify(silo.service.disclosures.path).lines == 2

    def test_nothing_leaves_that_cannot_be_written_down(self, silo, agreement, monkeypatch):
        def full(self, **line):
            raise RuntimeFailureError("cannot write the log: no space left")

        silo(agree(agreement))
        monkeypatch.setattr(DisclosureLog, "append", full)
        assert "no space left" in refused(silo(request(agreement)))
        assert "no space left" in refused(silo(request(agreement)))
