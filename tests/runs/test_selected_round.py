"""Which round a run returns where accuracy says nothing: a label that 2% of the nodes have."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import feddep
from feddep import Graph, Result
from feddep.errors import InputError, InterruptedRunError
from feddep.graph.graph import Part
from feddep.graph.partition import PartitionSpec
from feddep.graph.splits import SplitSpec
from feddep.runs import pipeline
from feddep.runs.execute import execute, resolved
from feddep.runs.folder import RunFolder
from feddep.scenario.build import split_and_partition

SMALL = {
    "model.hidden": 16,
    "model.dropout": 0.0,
    "training.rounds": 15,
    "partition.clients": 3,
    "embedding.width": 8,
    "embedding.epochs": 2,
    "generator.epochs": 2,
    "generator.refresh": 15,
}


def rare(nodes: int = 3000, seed: int = 0) -> Graph:
    """The 2% whose first feature is far from 0, on either side: it takes some rounds to learn."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(nodes, int)
    labels[rng.permutation(nodes)[: nodes // 50]] = 1
    features = rng.normal(size=(nodes, 6))
    features[:, 0] += 3 * labels * rng.choice([-1, 1], size=nodes)
    edges = rng.integers(nodes, size=(nodes // 2, 2))
    split = rng.permutation(np.repeat([Part.TRAIN, Part.VAL, Part.TEST], nodes // 3))
    return Graph.from_edges(edges, features, labels, split=split, name="rare")


def run(method: str = "fedavg", graph: Graph | None = None, **settings: object) -> Result:
    given = {key.replace("__", "."): value for key, value in settings.items()}
    asked = SMALL | {"method": method, "dataset": "rare"} | given
    return execute(asked, graph or rare(), workers=1, device="cpu")


@pytest.fixture(scope="module", params=["fedavg", "local", "feddep"])
def by_default(request: pytest.FixtureRequest) -> Result:
    return run(request.param)


def test_the_paper_s_choice_returns_round_1_whatever_is_learnt_later():
    found = run(preset="paper")
    assert found.record["selection"]["metric"] == "accuracy"
    assert len({entry["silo"]["val"] for entry in found.history}) == 1, "accuracy stands still"
    assert found.record["best_round"] == 1
    ranks = [entry["global"]["test_average_precision"] for entry in found.history]
    assert max(ranks) > ranks[0], "and something is learnt"


def test_by_default_it_is_the_round_that_ranks_best_on_validation(by_default: Result):
    selection = by_default.record["selection"]
    assert (selection["metric"], selection["positive"]) == ("average_precision", 1)
    ranks = {entry["round"]: entry["silo"]["val_average_precision"] for entry in by_default.history}
    assert by_default.record["best_round"] == max(ranks, key=lambda r: (ranks[r], r))
    assert by_default.record["best_round"] > 1
    assert selection["value"] == max(ranks.values())


def test_ties_in_accuracy_go_to_the_round_with_the_lowest_loss():
    found = run(selection__metric="accuracy")
    assert len({entry["silo"]["val"] for entry in found.history}) == 1
    losses = {entry["round"]: entry["silo"]["val_loss"] for entry in found.history}
    assert found.record["best_round"] == min(losses, key=lambda r: losses[r]) > 1


@pytest.mark.parametrize("metric", ["balanced_accuracy", "macro_f1", "roc_auc", "loss"])
def test_the_round_is_chosen_by_what_was_asked_for(metric: str):
    found = run(selection__metric=metric)
    values = {entry["round"]: entry["silo"][f"val_{metric}"] for entry in found.history}
    best = min(values.values()) if metric == "loss" else max(values.values())
    assert values[found.record["best_round"]] == best == found.record["selection"]["value"]


def test_it_does_not_depend_on_which_number_the_rare_class_has():
    graph = rare()
    turned = Graph.from_edges(
        graph.edge_list(), graph.features, 1 - graph.labels, split=graph.split, name="rare"
    )
    found = run(graph=turned)
    assert found.record["selection"]["positive"] == 0
    assert found.record["selection"]["value"] < 0.5, "that of the common class would be near 1"


def test_a_run_that_was_stopped_goes_on_with_what_it_chose_by(tmp_path: Path):
    asked = SMALL | {"method": "fedavg", "dataset": "rare", "training.rounds": 4}
    spec, shards = (
        resolved(asked, rare()),
        split_and_partition(rare(), PartitionSpec(clients=3), SplitSpec(), seed=0),
    )
    expected = pipeline.run(spec, shards, workers=1, device="cpu")
    for attempt in range(10):
        with RunFolder.claim(tmp_path / "run", spec, resume=attempt > 0) as folder:
            asked_so_far = iter([False, True])
            with suppress(InterruptedRunError):
                found = pipeline.run(
                    spec,
                    shards,
                    workers=1,
                    device="cpu",
                    folder=folder,
                    stop_requested=lambda asked=asked_so_far: next(asked, False),
                )
                break
    assert attempt > 0
    for key in ("selection", "best_round", "measures"):
        assert found.record[key] == expected.record[key]
    other = spec.with_settings({"selection.metric": "loss"})
    with pytest.raises(InputError, match="another spec"):
        RunFolder.claim(tmp_path / "run", other, resume=True)


# The last round


@pytest.mark.parametrize("method", ["fedavg", "local", "feddep"])
def test_the_last_round_s_weights_are_kept_beside_the_best(method: str, tmp_path: Path):
    graph = rare()
    found = execute(
        SMALL | {"method": method, "dataset": "rare", "preset": "paper"},
        graph,
        workers=1,
        device="cpu",
        out=tmp_path / "run",
    )
    assert found.record["best_round"] == 1
    last = feddep.open_run(tmp_path / "run", round="last")
    assert last.record["best_round"] == SMALL["training.rounds"]
    test = graph.members(Part.TEST)
    shares = [float((m.predict(graph) == graph.labels)[test].mean()) for m in last.models]
    assert np.mean(shares) == pytest.approx(found.record["scores"]["global"]["test_last"])
    assert any(
        not np.array_equal(a, found.models[0].weights[name])
        for name, a in last.models[0].weights.items()
    )
    again = feddep.open_run(found.save(tmp_path / "again"))
    assert again == found
    assert feddep.open_run(tmp_path / "again", round="last") == last


def test_where_the_last_round_is_the_best_nothing_is_stored_twice(tmp_path: Path):
    asked = SMALL | {"method": "fedavg", "dataset": "rare", "training.rounds": 1}
    found = execute(asked, rare(), workers=1, device="cpu", out=tmp_path / "run")
    assert not (tmp_path / "run/last_model.safetensors").exists()
    assert feddep.open_run(tmp_path / "run", round="last") == found
    with pytest.raises(InputError, match="expected best or last"):
        feddep.open_run(tmp_path / "run", round="first")  # type: ignore[arg-type]
