"""Which privacy events a run has, and what the record says about privacy."""

import json
import math

import pytest

from feddep.algorithms import METHODS
from feddep.errors import InputError
from feddep.graph.fingerprint import fingerprint
from feddep.graph.graph import Part
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
from feddep.privacy.meaning import GraphSize, meaning
from feddep.privacy.noised_updates import silo_epsilon
from feddep.reports.privacy import Question, answer, of_run
from feddep.reports.run_page import run_page
from feddep.runs import pipeline
from feddep.runs.folder import RunFolder
from feddep.runs.records import thin_history
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
    assert "every edge stays with probability 0.4" in privacy["statement"]
    assert "becomes an edge with probability 0.0199" in privacy["statement"]


@pytest.mark.parametrize("method", ["fedgnn-update", "fedgraph", "oracle"])
def test_a_method_that_sees_edges_between_silos_says_that_they_are_shown(small_shards, method):
    result = run(small_shards, method, mechanism="randomised-response", epsilon=3.0)
    assert all(KnownCrossings() in own for own in result.events_by_client)
    assert result.privacy["sound"] == {"epsilon": 3.0, "delta": 0.0, "verdict": "holds"}
    assert "a given edge inside one silo" in result.privacy["statement"]
    assert "Edges between silos are not protected" in result.privacy["statement"]


@pytest.mark.parametrize(
    ("privacy", "noised"), [({}, NoisedGradients), ({"occurrences": 2}, CappedGradients)]
)
def test_the_noise_on_fedgnn_s_gradients_promises_nothing_about_an_edge(
    small_shards, tmp_path, privacy, noised
):
    """Scores are computed from true lists, and a third party has links and features."""
    result = run(small_shards, "fedgnn", folder=RunFolder(tmp_path), **privacy)
    assert kinds(result) == [KnownCrossings, FullNeighbours, noised]
    gradients = result.events_by_client[0][2]
    assert (gradients.purpose, gradients.noise, gradients.clip) == ("classifier", 2.0, 1.0)
    examples = len(next(iter(small_shards)).members(Part.TRAIN))
    assert gradients.steps == 2 * math.ceil(examples / 32)  # 2 rounds of one epoch
    assert {e.name for e in result.events_by_client[0] if isinstance(e, Message)} == {
        *("classifier", "features", "numbers")
    }
    told = result.privacy
    for column in ("paper", "composed", "sound"):
        assert told[column] == {"epsilon": None, "delta": 1.0, "verdict": "none"}
    assert told["statement"].startswith(
        "No privacy guarantee is given. Noise is added to the gradients of the classifier; what "
        "else is computed from the edges and sent has none of it."
    )
    assert "Edges between silos are not protected" in told["statement"]
    assert of_run(tmp_path) == told


@pytest.mark.parametrize("mechanism", ["nfdp", "randomised-response", "none"])
def test_fedgnn_takes_no_other_mechanism(small_shards, mechanism):
    with pytest.raises(InputError, match=r"fedgnn has privacy\.mechanism = dp-sgd"):
        run(small_shards, "fedgnn", mechanism=mechanism)


def test_fedavg_has_no_local_gnn_for_uncapped_dp_sgd(small_shards):
    result = run(small_shards, "fedavg", mechanism="dp-sgd")
    assert kinds(result) == [NeighbourSampling]
    assert "it changes nothing" in result.privacy["statement"]
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
    settings = SMALL | {"method": "fedgnn-update"} | spec | settings_of(small_shards)
    result = pipeline.run(RunSpec().with_settings(settings), small_shards, workers=1, device="cpu")
    assert NoisedGradients("updates", 2.0, 0.1, 1.0, 2) in result.events_by_client[0]
    level = result.privacy["silo_level"]
    assert level["epsilon"] == pytest.approx(silo_epsilon(2.0, 2, level["delta"]))
    assert result.privacy["verdict"] == "none"
    assert "silo_level" not in run(small_shards, "fedavg").privacy


def test_a_finished_run_is_priced_again_from_its_events(small_shards, tmp_path):
    result = run(small_shards, folder=RunFolder(tmp_path))
    rows = json.loads((tmp_path / "privacy_events.json").read_text())
    assert [from_plain(own) for own in rows] == [list(own) for own in result.events_by_client]
    assert of_run(tmp_path) == result.privacy


@pytest.mark.parametrize(
    ("options", "means"),
    [
        ({"mechanism": "randomised-response", "epsilon": 2.0}, True),
        ({"mechanism": "dp-sgd", "occurrences": 1, "noise": 60.0}, False),
    ],
)
def test_so_is_one_whose_record_does_not_tell_the_sizes(small_shards, tmp_path, options, means):
    """Records of earlier versions; where the events do not tell either, the worst case counts."""
    run(small_shards, "fedavg", folder=RunFolder(tmp_path), **options)
    record = json.loads((tmp_path / "record.json").read_text())
    told = record["privacy"]
    del told["sizes"], record["data"]["nodes"]
    (tmp_path / "record.json").write_text(json.dumps(record))
    found = of_run(tmp_path)
    assert ("that an observer could name" in told["statement"]) is True
    assert ("that an observer could name" in found["statement"]) is means
    assert (found["statement"] == told["statement"]) is means


def test_a_run_tells_what_epsilon_means_where_most_is_shown(small_shards):
    result = run(small_shards, "fedavg", mechanism="randomised-response", epsilon=2.0)
    densest = max(small_shards, key=lambda graph: graph.edges / graph.nodes / (graph.nodes - 1))
    size = GraphSize(densest.nodes, densest.edges)
    assert meaning(2.0, [size]) in result.privacy["statement"]
    assert size._asdict() in result.privacy["sizes"]
    assert result.privacy["statement"] in run_page(result.record, thin_history([]))


def test_everything_but_predictions_uses_the_flipped_graph(small_shards, monkeypatch):
    from feddep.learning import silo as silos
    from feddep.runs import generation

    seen, measured = [], []
    flip, measure = silos.perturbed, generation.measure_generation

    def spying(graph, *args):
        seen.append(flip(graph, *args))
        return seen[-1]

    def measuring(silos, *args):
        measured.extend(silo.graph for silo in silos)
        return measure(silos, *args)

    monkeypatch.setattr(silos, "perturbed", spying)
    monkeypatch.setattr(generation, "measure_generation", measuring)
    run(small_shards, mechanism="randomised-response", epsilon=0.5)
    trained_on = seen[: small_shards.clients]
    assert all(g.edges > 3 * own.edges for g, own in zip(trained_on, small_shards, strict=True))
    # A silo that is opened again has the same flips: with others, more would be known of its edges.
    expected = [fingerprint(graph) for graph in trained_on]
    assert {fingerprint(graph) for graph in seen} == set(expected)
    assert [fingerprint(graph) for graph in measured] == expected
