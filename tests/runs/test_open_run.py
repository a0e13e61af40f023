"""A stored run opened again: the same result, and scores that can be computed again from it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddep
from feddep.algorithms import METHODS, find_method
from feddep.errors import InputError, InterruptedRunError
from feddep.graph.graph import Graph, Part
from feddep.graph.shard import Shards
from feddep.learning.evaluation import COUNTS, Scores
from feddep.learning.mending import Memory, Mended
from feddep.learning.silo import Silo
from feddep.models import span
from feddep.phases.averaging import Averaging
from feddep.runs import pipeline
from feddep.runs.folder import RunFolder
from feddep.runs.records import without_times
from feddep.runs.result import Result
from feddep.scenario.build import client_graphs, prepare
from feddep.scenario.spec import RunSpec
from small_runs import spec_of

ROUNDS = 5
GENERATING = ["feddep", "feddep-wo-dgen", "feddep-wo-proto", "fedsage"]
PRIVATE = [
    {"privacy.mechanism": "randomised-response", "privacy.epsilon": 3.0},
    {"privacy.mechanism": "one-shot", "training.fanout": 2},
    {"privacy.mechanism": "dp-sgd", "privacy.occurrences": 4},
    {"feature_share": 0.5},
]


def run_spec(name: str, shards: Shards, settings: dict[str, Any] | None = None) -> RunSpec:
    usual = {"training.rounds": ROUNDS, "training.learning_rate": 0.4, "generator.refresh": 2}
    return spec_of(find_method(name), shards, **(usual | (settings or {})))


def run_small(name: str, shards: Shards, settings: dict[str, Any] | None = None) -> Result:
    spec = run_spec(name, shards, settings)
    return pipeline.run(spec, prepare(shards, spec), workers=1, device="cpu")


@pytest.fixture(scope="module", params=METHODS)
def result(request: pytest.FixtureRequest, small_shards: Shards) -> Result:
    return run_small(request.param, small_shards)


@pytest.fixture(scope="module")
def opened(result: Result, tmp_path_factory: pytest.TempPathFactory) -> Result:
    return feddep.open_run(result.save(tmp_path_factory.mktemp("runs") / "run"))


def counted(result: Result, graph: Graph, client: int | None) -> Scores:
    right = result.predict(graph, client).argmax(axis=1) == graph.labels
    masks = {"val": graph.mask(Part.VAL), "test": graph.mask(Part.TEST)}
    sums = {f"{part}_correct": int((right & mask).sum()) for part, mask in masks.items()}
    return Scores(**sums, **{f"{part}_total": int(mask.sum()) for part, mask in masks.items()})


def recomputed(result: Result, shards: Shards) -> dict[str, Any]:
    """The scores of a record, from nothing but predictions."""
    whole: list[int | None] = [None]
    if len(result.models) > 1:  # the mean of the clients' classifiers
        whole = list(range(len(result.models)))
    on_whole = [counted(result, shards.graph, client) for client in whole]
    graphs = client_graphs(shards, find_method(result.spec.method))  # with all their columns
    own = [counted(result, graph, client) for client, graph in enumerate(graphs)]
    pooled = Scores(*np.sum([[vars(scores)[name] for name in COUNTS] for scores in own], axis=0))
    mean = {part: sum(getattr(s, part) for s in on_whole) / len(whole) for part in ("test", "val")}
    return {"global": mean, "silo": {"test": pooled.test, "val": pooled.val}}


def scores_of(result: Result) -> dict[str, Any]:
    scores = result.record["scores"]
    return {"global": {part: scores["global"][part] for part in ("test", "val")}} | {
        "silo": scores["silo"]
    }


def without_seconds(result: Result) -> Result:
    history = [{k: v for k, v in entry.items() if k != "seconds"} for entry in result.history]
    return replace(result, record=without_times(result.record), history=history)


# Every method


def test_it_is_equal_to_what_the_run_returned(result: Result, opened: Result):
    assert opened == result
    assert opened.privacy == result.privacy
    assert opened.privacy["statement"]
    assert [type(event) for own in opened.events_by_client for event in own]


def test_the_record_s_scores_are_those_of_its_predictions(opened: Result, small_shards: Shards):
    assert recomputed(opened, small_shards) == scores_of(opened)


def test_probabilities_are_probabilities(opened: Result, small_shards: Shards):
    for client, graph in enumerate(client_graphs(small_shards, find_method(opened.spec.method))):
        found = opened.predict(graph, client=client)
        assert found.shape == (graph.nodes, graph.classes)
        assert found.sum(axis=1) == pytest.approx(np.ones(graph.nodes))


def test_saved_again_it_is_the_same(opened: Result, tmp_path: Path):
    assert feddep.open_run(opened.save(tmp_path / "again")) == opened


@pytest.mark.parametrize("name", METHODS)
def test_so_is_one_of_two_workers_that_was_stopped_after_every_round(
    name: str, small_shards: Shards, tmp_path: Path, thread_workers: None
):
    spec = run_spec(name, small_shards)
    expected = run_small(name, small_shards)
    for attempt in range(100):  # more than there are rounds
        with RunFolder.claim(tmp_path / "run", spec, resume=attempt > 0) as folder:
            asked = iter([False, True])
            try:
                pipeline.run(
                    spec,
                    small_shards,
                    workers=2,
                    device="cpu",
                    folder=folder,
                    stop_requested=lambda asked=asked: next(asked, False),
                )
            except InterruptedRunError:
                continue
        break
    opened = feddep.open_run(tmp_path / "run")
    assert without_seconds(opened) == without_seconds(expected)
    assert recomputed(opened, small_shards) == scores_of(expected)


@pytest.mark.parametrize("settings", PRIVATE, ids=lambda own: "-".join(map(str, own.values())))
@pytest.mark.parametrize("name", ["local", "fedavg", "feddep", "fedsage"])
def test_scores_agree_whatever_protects_the_clients(
    name: str, settings: dict[str, Any], small_shards: Shards, tmp_path: Path
):
    result = run_small(name, small_shards, settings)
    opened = feddep.open_run(result.save(tmp_path / "run"))
    assert recomputed(opened, small_shards) == scores_of(result)


def test_so_do_embeddings_that_are_kept_as_coordinates(
    small_shards: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(span, "WIDE", 8)
    monkeypatch.setattr(span, "_SIZES", (30,))
    few = {"generator.sampler": "thin", "generator.keep": 0.2}  # nodes that have any, at most 30
    result = run_small("feddep-wo-dgen", small_shards, few)
    kept = result.clients[0].mending
    assert kept is not None
    assert kept["basis"].shape == (30, 60)
    assert kept["missing_embeddings"].shape == (small_shards[0].nodes, 30)
    opened = feddep.open_run(result.save(tmp_path / "run"))
    assert opened == result
    assert recomputed(opened, small_shards) == scores_of(result)


# The round that the model is from


@pytest.mark.parametrize("name", ["feddep", "fedgraph"])
def test_clients_keep_what_they_had_in_the_best_round(name: str, small_shards: Shards):
    for seed in range(20):
        result = run_small(name, small_shards, {"seed": seed})
        best = result.record["best_round"]
        if best < ROUNDS - 1:
            break
    until_then = run_small(name, small_shards, {"seed": seed, "training.rounds": best})
    assert until_then.record["best_round"] == best
    longer = run_small(name, small_shards, {"seed": seed, "training.rounds": ROUNDS})
    assert dict(longer.clients) == dict(until_then.clients)
    if name == "feddep":
        assert len(longer.generators) == small_shards.clients
        assert longer.clients[0].mending is not None
        assert "missing_embeddings" in longer.clients[0].mending


def test_a_result_is_not_equal_to_another(small_shards: Shards):
    result = run_small("feddep", small_shards)
    part = result.clients[1]
    assert part.mending is not None
    other = {name: array + 1 for name, array in part.mending.items()}
    changed = {
        "record": result.record | {"best_round": 0},
        "history": result.history[1:],
        "models": [],
        "clients": {**result.clients, 1: replace(part, mending=other)},
        "events_by_client": [],
    }
    for name, value in changed.items():
        assert replace(result, **{name: value}) != result, name
    assert replace(result, clients=dict(result.clients)) == result
    assert result != "a result"


# Other graphs


@pytest.mark.parametrize("name", GENERATING)
def test_a_generator_mends_other_graphs_too_always_in_the_same_way(name: str, small_shards: Shards):
    result = run_small(name, small_shards)
    whole = small_shards.graph
    found = result.predict(whole, client=1)
    assert found.shape == (whole.nodes, whole.classes)
    assert np.array_equal(found, result.predict(whole, client=1))
    assert not np.array_equal(found, result.predict(whole)), "mended, or not"
    assert not np.array_equal(found, result.predict(whole, client=2)), "by another generator"


def test_labels_and_split_do_not_make_another_graph(small_shards: Shards):
    result = run_small("feddep", small_shards)
    own = small_shards[0]
    without = replace(own, labels=np.full(own.nodes, -1), split=np.zeros(own.nodes, np.int8))
    assert np.array_equal(result.predict(without, client=0), result.predict(own, client=0))


def test_one_edge_more_does(small_shards: Shards):
    result = run_small("oracle", small_shards)
    own = small_shards[0]
    absent = next(v for v in range(1, own.nodes) if v not in own.indices[: own.indptr[1]])
    more = own.with_edges([*own.edge_list().tolist(), [0, absent]])
    with pytest.raises(InputError, match="this is another one"):
        result.predict(more, client=0)


@pytest.mark.parametrize("name", ["fedgnn", "fedgraph", "fedgsl", "oracle"])
def test_who_was_told_neighbours_knows_no_others(name: str, small_shards: Shards):
    result = run_small(name, small_shards)
    with pytest.raises(InputError, match="graph that client 0 was trained on"):
        result.predict(small_shards.graph, client=0)


@pytest.mark.parametrize("mechanism", PRIVATE[:2], ids=lambda own: own["privacy.mechanism"])
def test_only_the_own_graph_is_perturbed(mechanism: dict[str, Any], small_shards: Shards):
    result = run_small("fedavg", small_shards, mechanism)
    whole, own = small_shards.graph, small_shards[0]
    assert np.array_equal(result.predict(whole, client=0), result.predict(whole))
    assert not np.array_equal(result.predict(own, client=0), result.predict(own))


# What cannot be


def test_a_client_that_is_none_is_refused(small_shards: Shards):
    result = run_small("fedavg", small_shards)
    with pytest.raises(InputError, match=r"clients 0, 1, 2 \(got 3\)"):
        result.predict(small_shards.graph, client=3)


def test_local_has_no_classifier_of_all(small_shards: Shards):
    with pytest.raises(InputError, match="trains 3 classifiers, one per client"):
        run_small("local", small_shards).predict(small_shards.graph)


@pytest.mark.parametrize("client", [None, 0])
def test_other_features_are_refused(client: int | None, small_shards: Shards):
    result = run_small("fedavg", small_shards)
    narrow = replace(small_shards.graph, features=small_shards.graph.features[:, :7])
    with pytest.raises(InputError, match=r"trained on 60 features \(got a graph with 7\)"):
        result.predict(narrow, client)


@pytest.mark.parametrize("client", [None, 0])
def test_what_is_no_graph_is_refused(client: int | None, small_shards: Shards):
    result = run_small("fedavg", small_shards)
    with pytest.raises(InputError, match=r"expected a Graph .*\(got Shards\).*shards\[i\]"):
        result.predict(small_shards, client)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Forgetful:
    """A mender of somebody's own that says nothing about after the run."""

    def mend(self, classifier: object, silo: Silo, memory: Memory, round: int):
        return Mended(silo), memory


def test_a_mender_that_cannot_mend_afterwards_is_named(
    small_shards: Shards, monkeypatch: pytest.MonkeyPatch
):
    phases = (Averaging(mender=Forgetful()),)
    own = replace(METHODS["fedavg"], name="forgetful", phases=phases)
    monkeypatch.setitem(METHODS, "forgetful", own)
    result = run_small("forgetful", small_shards)
    assert result.predict(small_shards.graph).shape == (120, 3)
    with pytest.raises(InputError, match="Forgetful cannot mend after a run"):
        result.predict(small_shards[0], client=0)
