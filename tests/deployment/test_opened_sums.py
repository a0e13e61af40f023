"""A silo that consents to aggregation perturbation, from the agreement to its results."""

from dataclasses import replace

import numpy as np
import pytest
from envelopes import (
    CONSENT,
    SiloWithMemory,
    agree,
    agreement_on,
    changed,
    refused,
    request,
    same,
)

import feddep
from feddep.graph.graph import Part
from feddep.runtime.envelope import Envelope

CLOSE = Envelope({"kind": "close", "run": "run"})


def asked_for(graph, **settings):
    return agreement_on(
        graph,
        **{
            "privacy.mechanism": "aggregation-perturbation",
            "privacy.epsilon": 1.0,
            "privacy.delta": 1e-6,
            **settings,
        },
    )


@pytest.fixture
def agreement(graph):
    return asked_for(graph)


@pytest.fixture
def strict(silo):
    return changed(silo, consent=CONSENT.model_copy(update={"highest_epsilon": 1.0}))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"privacy.epsilon": 2.0}, "one edge costs a sound ε of 1.9"),
        ({"privacy.delta": 0.1}, "δ is 0.1, too large for"),
        ({"privacy.epsilon": 0.0}, "needs ε"),
        ({"privacy.max_degree": 10**9}, "a smaller privacy.max_degree"),
    ],
)
def test_what_the_consent_does_not_cover_is_refused(strict, graph, settings, says):
    assert says in refused(strict(agree(asked_for(graph, **settings))))


def test_without_a_secret_nothing_is_promised(silo, agreement):
    known = changed(silo, secret=None)
    assert known(agree(agreement)).header["sound"]["verdict"] == "none"


def test_a_silo_that_is_restarted_answers_with_the_same_noise(strict, graph, agreement):
    strict(agree(agreement))
    first = strict(request(agreement))
    lost = SiloWithMemory(changed(strict, disclosures=None).service)
    lost(agree(agreement))
    assert same(first, lost(request(agreement)))


def test_one_more_edge_changes_what_is_sent(strict, graph, agreement):
    """The sums are used: an answer that never depended on an edge would be worth nothing."""
    strict(agree(agreement))
    lonely = SiloWithMemory(
        changed(strict, graph=lambda: graph.with_edges([]), disclosures=None).service
    )
    lonely(agree(agreement))
    assert not same(strict(request(agreement)), lonely(request(agreement)))


def test_its_results_can_be_opened_and_predict_without_noise(strict, graph, agreement, tmp_path):
    strict(agree(agreement))
    answer = strict(request(agreement))
    strict(Envelope({**CLOSE.header, "best": None}, answer.arrays))
    result = feddep.open_run(tmp_path / "results" / "run")
    found = result.predict(graph, client=0)
    assert found.shape == (graph.nodes, agreement.classes)
    assert np.isfinite(found).all()
    assert graph.mask(Part.TRAIN).any()


class TestBudget:
    @pytest.fixture
    def saving(self, silo):
        """A silo whose owner allows ε = 2 for all runs together."""
        budget = {"budget_epsilon": 2.0, "budget_delta": 1e-6}
        return changed(silo, consent=CONSENT.model_copy(update=budget))

    def begun(self, silo, agreement, run):
        own = replace(agreement, run=run)
        answer = silo(agree(own))
        if "refused" not in answer.header:
            silo(request(own))
        return answer

    def test_the_same_sums_cost_nothing_more(self, saving, graph):
        for number in range(5):
            asked = asked_for(graph, **{"privacy.epsilon": 1.9, "seed": number})
            assert "sound" in self.begun(saving, asked, f"run-{number}").header

    def test_other_noise_adds_up_as_gaussians_do(self, saving, graph):
        """√Σ 1/σ²: the first three, of about ε = 1, cost less than 2 together; eight cost more."""
        epsilons = [2 ** (-number / 16) for number in range(8)]
        found = [
            self.begun(saving, asked_for(graph, **{"privacy.epsilon": epsilon}), f"run-{number}")
            for number, epsilon in enumerate(epsilons)
        ]
        kept = ["sound" in answer.header for answer in found]
        assert kept[:3] == [True, True, True]
        assert not all(kept)
        assert "budget_epsilon" in refused(found[kept.index(False)])

    def test_a_flipped_graph_comes_on_top(self, saving, graph, agreement):
        self.begun(saving, agreement, "first")
        flips = {"privacy.mechanism": "randomised-response", "privacy.epsilon": 1.5}
        asked = agreement_on(graph, **flips)
        assert "budget_epsilon" in refused(self.begun(saving, asked, "second"))
