"""Which privacy events a run has, and what the record says about privacy."""

import json

import pytest

from feddep.algorithms import METHODS
from feddep.errors import InputError
from feddep.privacy.events import (
    BernoulliSelection,
    CappedGradients,
    FullNeighbours,
    KnownCrossings,
    Message,
    NeighbourSampling,
    NoisedGradients,
    OneShotSampling,
    RandomisedResponse,
    SparseResponse,
    from_plain,
)
from feddep.reports.privacy import Question, answer, of_run
from feddep.runs import pipeline
from feddep.runs.folder import RunFolder
from feddep.scenario.build import resolve, settings_of
from feddep.scenario.spec import RunSpec
from small_runs import SMALL


def run(small_shards, method="feddep", folder=None, **privacy):
    settings = {f"privacy.{key}": value for key, value in privacy.items()}
    given = SMALL | {"method": method} | settings | settings_of(small_shards)
    spec = resolve(RunSpec().with_settings(given), given)
    return pipeline.run(spec, small_shards, workers=1, device="cpu", folder=folder)


def kinds(result):
    return [type(event) for event in result.events_by_client[0] if not isinstance(event, Message)]


def test_without_noise_an_example_has_no_bound_and_no_infinity(small_shards):
    found = run(small_shards, mechanism="dp-sgd", noise=0.0).privacy
    asked = answer(Question(mechanism="dp-sgd", noise=0.0))
    for one in (found, asked):
        assert one["example_level"]["epsilon"] is None
        json.dumps(one, allow_nan=False)


@pytest.mark.parametrize(
    ("privacy", "expected"),
    [
        ({}, [NeighbourSampling, BernoulliSelection, NeighbourSampling]),
        (
            {"mechanism": "one-shot"},
            [OneShotSampling, NeighbourSampling, BernoulliSelection, NeighbourSampling],
        ),
        (
            {"mechanism": "randomised-response", "epsilon": 3.0},
            [RandomisedResponse, NeighbourSampling, BernoulliSelection, NeighbourSampling],
        ),
        (
            {"mechanism": "randomised-response", "epsilon": 3.0, "keep_edge": 0.4},
            [SparseResponse, NeighbourSampling, BernoulliSelection, NeighbourSampling],
        ),
        (
            {"mechanism": "dp-sgd"},
            [FullNeighbours, NoisedGradients, BernoulliSelection, NeighbourSampling],
        ),
        (
            {"mechanism": "dp-sgd", "occurrences": 2},
            [FullNeighbours, CappedGradients, BernoulliSelection, NeighbourSampling],
        ),
        ({"mechanism": "none"}, [FullNeighbours, BernoulliSelection, NeighbourSampling]),
    ],
)
def test_every_mechanism_leaves_its_events(small_shards, privacy, expected):
    assert kinds(run(small_shards, **privacy)) == expected


def test_every_message_is_an_event_with_its_bytes(small_shards):
    result = run(small_shards)
    messages = [e for own in result.events_by_client for e in own if isinstance(e, Message)]
    arrays = [event for event in messages if event.name != "numbers"]
    assert sum(event.bytes for event in arrays) == result.traffic["up_bytes"]
    assert {(e.phase, e.name, e.times) for e in arrays} == {
        ("prototype_exchange", "prototypes", 1),
        ("averaging", "classifier", 2),
    }


@pytest.mark.parametrize("mechanism", ["nfdp", "none", "dp-sgd"])
def test_the_verdict_is_none_in_plain_words(small_shards, mechanism):
    privacy = run(small_shards, mechanism=mechanism).privacy
    assert privacy["verdict"] == privacy["sound"]["verdict"] == "none"
    assert privacy["sound"]["epsilon"] is None
    assert privacy["statement"].startswith("No privacy guarantee is given.")


def test_randomised_response_holds_and_says_that_this_was_a_simulation(small_shards):
    privacy = run(small_shards, mechanism="randomised-response", epsilon=3.0).privacy
    assert privacy["sound"] == {"epsilon": 3.0, "delta": 0.0, "verdict": "holds"}
    assert "simulation" in privacy["statement"]


def test_the_sparse_form_holds_and_names_its_rates(small_shards):
    asked = {"mechanism": "randomised-response", "epsilon": 3.0, "keep_edge": 0.4}
    privacy = run(small_shards, **asked).privacy
    assert 2.999999 < privacy["sound"]["epsilon"] <= 3.0
    assert privacy["verdict"] == "holds"
    assert "every edge stayed with probability 0.4" in privacy["statement"]
    assert "became an edge with probability 0.0199" in privacy["statement"]


@pytest.mark.parametrize("method", ["fedgnn", "fedgraph", "oracle"])
def test_a_method_that_sees_edges_between_silos_says_that_they_are_shown(small_shards, method):
    result = run(small_shards, method, mechanism="randomised-response", epsilon=3.0)
    assert all(KnownCrossings() in own for own in result.events_by_client)
    assert result.privacy["sound"] == {"epsilon": 3.0, "delta": 0.0, "verdict": "holds"}
    assert "a given edge inside one silo" in result.privacy["statement"]
    assert "Edges between silos are not protected" in result.privacy["statement"]


def test_fedavg_has_no_local_gnn_for_uncapped_dp_sgd(small_shards):
    result = run(small_shards, "fedavg", mechanism="dp-sgd")
    assert kinds(result) == [NeighbourSampling]
    assert "it changed nothing" in result.privacy["statement"]
    assert result.record["scores"] == run(small_shards, "fedavg", mechanism="none").record["scores"]


def test_one_shot_states_the_largest_probability_of_all_clients(small_shards):
    result = run(small_shards, "fedavg", mechanism="one-shot")
    shown = [
        e.edge_delta
        for own in result.events_by_client
        for e in own
        if isinstance(e, OneShotSampling)
    ]
    assert result.privacy["sound"]["delta"] == max(shown)
    assert f"probability of up to {max(shown):.3g};" in result.privacy["statement"]


CAPPED = {"mechanism": "dp-sgd", "occurrences": 1, "noise": 60.0}


class TestCappedOccurrences:
    def test_a_method_that_sends_only_a_classifier_keeps_its_promise(self, small_shards, tmp_path):
        result = run(small_shards, "fedavg", RunFolder(tmp_path), **CAPPED)
        privacy = result.privacy
        assert kinds(result) == [CappedGradients]
        assert {e.trainings for own in result.events_by_client for e in own[:1]} == {2}
        assert ("classifier", 2) in {(e.name, e.times) for e in result.events_by_client[0][1:]}
        assert privacy["verdict"] == privacy["sound"]["verdict"] == "holds"
        assert 0 < privacy["sound"]["epsilon"] == privacy["edge_level"]["epsilon"] < 5
        assert (privacy["edge_level"]["of"], privacy["edge_level"]["touched"]) == ("classifier", 4)
        assert 0 < privacy["example_level"]["epsilon"] < privacy["sound"]["epsilon"]
        assert "single edge can change 4 at most" in privacy["statement"]
        assert "simulation" in privacy["statement"]
        assert of_run(tmp_path) == privacy

    def test_too_little_noise_is_none_in_plain_words(self, small_shards):
        privacy = run(small_shards, "fedavg", **CAPPED | {"noise": 0.5}).privacy
        assert privacy["verdict"] == "none"
        assert privacy["statement"].startswith("No privacy guarantee is given: ε is too large")
        assert privacy["edge_level"]["epsilon"] > 20

    @pytest.mark.parametrize("method", ["feddep", "fedsage", "fedgraph", "fedgsl", "local"])
    def test_where_edges_are_also_used_without_noise_it_is_none(self, small_shards, method):
        privacy = run(small_shards, method, **CAPPED).privacy
        assert privacy["sound"] == {"epsilon": None, "delta": 1.0, "verdict": "none"}
        assert privacy["statement"].startswith("No privacy guarantee is given.")

    def test_the_local_gnn_s_training_is_priced_for_itself(self, small_shards):
        privacy = run(small_shards, "feddep", **CAPPED).privacy
        assert privacy["edge_level"]["of"] == "embeddings"
        assert 0 < privacy["edge_level"]["epsilon"] < 5

    def test_without_a_cap_a_record_has_no_edge_level(self, small_shards):
        assert "edge_level" not in run(small_shards, "feddep", mechanism="dp-sgd").privacy


def test_dp_sgd_is_priced_for_one_example(small_shards):
    privacy = run(small_shards, mechanism="dp-sgd").privacy
    assert 0 < privacy["example_level"]["epsilon"] < 20


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_prices_in_its_record(small_shards, method):
    privacy = run(small_shards, method).privacy
    for column in ("paper", "composed", "sound"):
        assert privacy[column].keys() == {"epsilon", "delta", "verdict"}
    assert privacy["verdict"] == "none"


def test_noised_updates_are_among_the_events(small_shards):
    spec = {"training.update_clip": 0.1, "training.update_noise": 2.0}
    settings = SMALL | {"method": "fedgnn"} | spec | settings_of(small_shards)
    result = pipeline.run(RunSpec().with_settings(settings), small_shards, workers=1, device="cpu")
    assert NoisedGradients("updates", 2.0, 0.1, 1.0, 2) in result.events_by_client[0]


def test_a_finished_run_is_priced_again_from_its_events(small_shards, tmp_path):
    result = run(small_shards, folder=RunFolder(tmp_path))
    rows = json.loads((tmp_path / "privacy_events.json").read_text())
    assert [from_plain(own) for own in rows] == [list(own) for own in result.events_by_client]
    assert of_run(tmp_path) == result.privacy


def test_everything_but_predictions_uses_the_flipped_graph(small_shards, monkeypatch):
    from feddep.learning import silo as silos

    seen = []
    real = silos.perturbed

    def spying(graph, *args):
        seen.append(real(graph, *args))
        return seen[-1]

    monkeypatch.setattr(silos, "perturbed", spying)
    run(small_shards, mechanism="randomised-response", epsilon=0.5)
    assert len(seen) == small_shards.clients
    assert all(g.edges > 3 * own.edges for g, own in zip(seen, small_shards, strict=True))


class TestQuestion:
    def test_keys_are_those_of_the_contract(self):
        found = answer(Question(min_degree=15))
        assert found["per_step"] == pytest.approx({"epsilon": 0.3747, "delta": 0.3333}, abs=5e-5)
        assert found["composed"]["epsilon"] == pytest.approx(24.92, abs=5e-3)
        assert found["sound"] == {"epsilon": None, "delta": 1.0, "verdict": "none"}
        assert found["paper"]["verdict"] == "none"

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"mechanism": "magic"}, "unknown mechanism 'magic'"),
            ({"keep": 0}, "keep must be above 0"),
            ({"fanout": 0}, "fanout must be at least 1"),
            ({"epochs": -1}, "epochs must be 0 or more"),
            ({"delta_prime": 1}, "delta_prime must be between"),
            ({"mechanism": "randomised-response"}, "needs ε; give --epsilon"),
            ({"keep_edge": 1.0}, "keep_edge must be at least 0 and below 1"),
            ({"occurrences": -1}, "occurrences must be 0 or more"),
        ],
    )
    def test_what_cannot_be_is_refused(self, options, says):
        with pytest.raises(InputError, match=says):
            answer(Question(**options))

    def test_dp_sgd_is_calibrated_for_an_epsilon(self):
        found = answer(Question(mechanism="dp-sgd", epsilon=3.0))
        assert found["example_level"]["epsilon"] == pytest.approx(3.0, rel=1e-3)
        assert found["sound"]["verdict"] == "none"

    def test_dp_sgd_with_a_cap_is_calibrated_for_an_edge(self):
        found = answer(Question(mechanism="dp-sgd", occurrences=1, epsilon=8.0))
        assert found["edge_level"]["epsilon"] == pytest.approx(8.0, rel=5e-3)
        assert found["edge_level"]["noise"] == pytest.approx(11.5, rel=2e-3)
        assert found["example_level"]["epsilon"] < 1.5
        assert found["sound"]["verdict"] == "none"
        given_noise = answer(Question(mechanism="dp-sgd", occurrences=1, noise=20.0))
        assert given_noise["edge_level"]["epsilon"] == pytest.approx(3.98, rel=5e-3)

    def test_the_sparse_form_is_priced(self):
        found = answer(Question(mechanism="randomised-response", epsilon=4.0, keep_edge=0.2))
        assert found["sound"]["epsilon"] == pytest.approx(4.0)
        assert "probability 0.00366" in found["statement"]

    def test_one_shot_states_the_probability_of_disclosure(self):
        found = answer(Question(mechanism="one-shot", min_degree=10, fanout=5))
        assert found["sound"] == {"epsilon": None, "delta": 0.75, "verdict": "none"}
