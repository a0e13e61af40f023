"""What was worked out is spent, and what has left stays counted, whatever becomes of the answer."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from envelopes import (
    CONSENT,
    SiloWithMemory,
    agree,
    agreement_on,
    changed,
    first_classifier,
    lines,
    refused,
    request,
    same,
)

from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.memory import Files, RunMemory
from feddep.errors import ConsentError, InputError
from feddep.federation.client import Client
from feddep.runtime.envelope import Envelope

CLOSE = Envelope({"kind": "close", "run": "run"})
MOST = CONSENT.model_copy(update={"budget_epsilon": 1.5, "budget_delta": 1e-6})
NOISED = {
    "privacy.mechanism": "dp-sgd",
    "privacy.occurrences": 1,
    "privacy.delta": 1e-6,
    "privacy.noise": 200.0,
}


def noised(graph, **settings):
    return agreement_on(graph, **{**NOISED, **settings})


@pytest.fixture
def agreement(graph):
    return agreement_on(
        graph, **{"privacy.mechanism": "randomised-response", "privacy.epsilon": 1.0}
    )


def kept_by_consent(monkeypatch):
    def keeps(*_):
        raise ConsentError("the silo does not consent to a reply")

    monkeypatch.setattr(Consent, "check_reply", keeps)


def kept_by_its_client(monkeypatch):
    """As where a reply is not what its phase declares, or too large."""
    handle = Client.handle

    def keeps(self, asked, state):
        handle(self, asked, state)
        raise InputError("nothing was sent")

    monkeypatch.setattr(Client, "handle", keeps)


@pytest.mark.parametrize("keep", [kept_by_consent, kept_by_its_client])
@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_an_answer_that_was_kept_back_is_not_given_back(
    silo, graph, agreement, keep, memory, monkeypatch
):
    own = changed(silo, consent=MOST)
    own(agree(agreement))
    with monkeypatch.context() as patch:
        keep(patch)
        assert refused(own(request(agreement)))
    if memory == "lost":
        own.runs.clear()
        own(agree(agreement))
    assert own(CLOSE).header == {"done": True}
    assert not lines(own, "withdrawn")
    assert not lines(own), "nothing left"
    other = replace(agreement, run="other")
    cheaper = replace(other, spec=other.spec.with_settings({"privacy.epsilon": 0.9}))
    assert "1 is spent by 1 earlier ones" in refused(own(agree(cheaper)))
    assert "sound" in own(agree(agreement)).header, "the same release costs nothing more"


def test_a_request_that_is_refused_unread_costs_nothing(silo, agreement):
    own = changed(silo, consent=MOST)
    own(agree(agreement))
    assert refused(own(Envelope(request(agreement).header, {})))
    own(CLOSE)
    assert [line["run"] for line in lines(own, "withdrawn")] == ["run"]


class TestMemoryFromAnOlderCopy:
    """The price of DP-SGD is for as many noised classifiers as there are rounds of training."""

    def weights(self, agreement, scale):
        return {
            name: np.float32(scale) * array for name, array in first_classifier(agreement).items()
        }

    def asked(self, agreement, round, scale):
        return Envelope(request(agreement, round).header, self.weights(agreement, scale))

    def test_no_more_noised_weights_leave_than_were_priced(self, silo, graph):
        agreement = noised(graph)
        rounds = agreement.spec.training.rounds
        silo(agree(agreement))
        older = deepcopy(silo.runs)
        for round in range(rounds):
            assert silo(self.asked(agreement, round, 1.0)).arrays
        restored = SiloWithMemory(silo.service, older)
        for scale in (2.0, 3.0):
            assert "all of them have left" in refused(restored(self.asked(agreement, 0, scale)))
        assert len(lines(silo)) == rounds

    def test_what_left_before_can_be_handed_over_again(self, silo, graph):
        agreement = noised(graph)
        silo(agree(agreement))
        older = deepcopy(silo.runs)
        rounds = range(agreement.spec.training.rounds)
        first = [silo(self.asked(agreement, round, 1.0)) for round in rounds]
        restored = SiloWithMemory(silo.service, older)
        assert all(
            same(restored(self.asked(agreement, round, 1.0)), first[round]) for round in rounds
        )

    def test_an_answer_that_was_lost_on_its_way_does_not_use_up_the_next(self, silo, graph):
        agreement = noised(graph)
        silo(agree(agreement))
        for round in range(agreement.spec.training.rounds):
            for _ in range(3):
                assert silo(self.asked(agreement, round, 1.0)).arrays


def test_that_a_run_began_outlives_the_process(tmp_path):
    RunMemory(Files(tmp_path)).begin()
    assert RunMemory(Files(tmp_path)).begun
    RunMemory(Files(tmp_path)).forget()
    assert not RunMemory(Files(tmp_path)).begun
