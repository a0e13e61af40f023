"""Whole runs on a small graph: the same seed gives the same result, however it is carried out."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from feddep.algorithms import METHODS, find_method
from feddep.errors import DivergedError, InputError, InterruptedRunError
from feddep.federation.messages import State
from feddep.federation.phase import Ask, Phase
from feddep.graph.graph import Graph, Part
from feddep.graph.shard import Shards
from feddep.learning import trainer
from feddep.learning.classifier import Classifier
from feddep.runs.folder import RunFolder
from feddep.runs.pipeline import run
from feddep.runs.records import without_times
from feddep.runs.result import Result
from feddep.scenario.build import settings_of
from feddep.scenario.spec import RunSpec

ROUNDS = 3


def spec_for(shards: Shards, method: str, **settings: Any) -> RunSpec:
    small = {"model.hidden": 8, "training.rounds": ROUNDS, "training.batch_size": 16}
    given = {key.replace("__", "."): value for key, value in settings.items()}
    return RunSpec().with_settings(small | settings_of(shards) | {"method": method} | given)


def run_small(shards: Shards, method: str, settings: dict[str, Any] | None = None, **how: Any):
    return run(spec_for(shards, method, **(settings or {})), shards, **({"workers": 1} | how))


def timeless(history: Any) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in history]


def assert_same_result(found: Result, expected: Result) -> None:
    assert without_times(found.record) == without_times(expected.record)
    assert timeless(found.history) == timeless(expected.history)
    assert_same_models(found, expected)


def assert_same_models(found: Result, expected: Result) -> None:
    assert len(found.models) == len(expected.models)
    for one, other in zip(found.models, expected.models, strict=True):
        assert one.weights.keys() == other.weights.keys()
        for name in one.weights:
            assert np.array_equal(one.weights[name], other.weights[name]), name


@pytest.fixture(scope="module", params=["local", "fedavg", "global"])
def finished(request: pytest.FixtureRequest, small_shards: Shards) -> Result:
    return run_small(small_shards, request.param)


@pytest.fixture(scope="module")
def fedavg(small_shards: Shards) -> Result:
    return run_small(small_shards, "fedavg")


# What comes out


def test_the_history_has_one_entry_for_each_round(finished: Result):
    assert [entry["round"] for entry in finished.history] == [1, 2, 3]
    for entry in finished.history:
        assert entry["loss"] > 0
        for view in ("silo", "global"):
            assert entry[view].keys() >= {"test", "val"}
            assert all(0 <= entry[view][part] <= 1 for part in ("test", "val"))


def test_test_is_the_score_at_the_best_validation_round_and_test_last_at_the_last(
    finished: Result,
):
    history = finished.history
    best = max(history, key=lambda entry: (entry["silo"]["val"], -entry["silo"]["val_loss"]))
    scores = finished.record["scores"]
    assert finished.record["best_round"] == best["round"]
    own = {view: {part: best[view][part] for part in ("test", "val")} for view in scores}
    assert scores["silo"] == own["silo"]
    assert scores["global"] == own["global"] | {"test_last": history[-1]["global"]["test"]}
    assert finished.accuracy == best["global"]["test"]


def test_the_models_score_what_the_record_says(finished: Result, small_shards: Shards):
    graph = small_shards.graph
    test = graph.mask(Part.TEST)
    shares = [float((m.predict(graph) == graph.labels)[test].mean()) for m in finished.models]
    assert np.mean(shares) == pytest.approx(finished.accuracy)


def test_training_lowers_the_loss(finished: Result):
    assert finished.history[-1]["loss"] < finished.history[0]["loss"]


def test_every_phase_has_its_seconds(finished: Result):
    seconds = finished.record["seconds"]
    assert seconds["phases"].keys() == finished.record["traffic"]["phases"].keys()
    assert seconds["total"] == pytest.approx(sum(seconds["phases"].values()))


def test_fedavg_sends_the_classifier_up_each_round_and_down_once_more(
    fedavg: Result, small_shards: Shards
):
    payload = sum(array.nbytes for array in fedavg.model.weights.values())
    clients = small_shards.clients
    up, down = ROUNDS * clients * payload, (ROUNDS + 1) * clients * payload
    assert fedavg.traffic == {
        "up_bytes": up,
        "down_bytes": down,
        "phases": {"averaging": {"up_bytes": up, "down_bytes": down}},
    }


@pytest.mark.parametrize("method", ["local", "global"])
def test_a_phase_without_arrays_is_listed_with_zero_bytes(small_shards: Shards, method: str):
    assert run_small(small_shards, method).traffic == {
        "up_bytes": 0,
        "down_bytes": 0,
        "phases": {"local_training": {"up_bytes": 0, "down_bytes": 0}},
    }


@dataclass(frozen=True)
class Thinking(Phase[object, object]):
    """A phase in which the server takes two rounds to make up its mind and asks nobody."""

    name: str = "thinking"

    def rounds(self, spec: object) -> int:
        return 2

    def serve(self, spec: object, ask: Ask, state: State) -> tuple[State, None]:
        return {**state, "thought": np.array(ask.round)}, None

    def answer(self, request: object, state: State, silo: object) -> NoReturn:
        raise AssertionError("nobody was asked")


@pytest.fixture
def thoughtful(monkeypatch: pytest.MonkeyPatch) -> str:
    """FedAvg after a phase without messages."""
    method = find_method("fedavg")
    phases = (Thinking(), *method.phases)
    monkeypatch.setitem(METHODS, "thoughtful", replace(method, name="thoughtful", phases=phases))
    return "thoughtful"


def test_a_phase_without_messages_is_listed_with_zero_bytes(
    thoughtful: str, small_shards: Shards, fedavg: Result
):
    result = run_small(small_shards, thoughtful)
    phases = result.traffic["phases"]
    assert list(phases) == ["thinking", "averaging"]
    assert phases["thinking"] == {"up_bytes": 0, "down_bytes": 0}
    assert result.record["seconds"]["phases"].keys() == phases.keys()
    assert timeless(result.history) == timeless(fedavg.history)


def test_a_run_that_was_stopped_between_phases_goes_on_to_the_same_result(
    thoughtful: str, tmp_path: Path, small_shards: Shards
):
    folder = RunFolder(tmp_path)
    with pytest.raises(InterruptedRunError):
        run_small(small_shards, thoughtful, folder=folder, stop_requested=stop_after(2))
    resumed = run_small(small_shards, thoughtful, folder=folder)
    assert_same_result(resumed, run_small(small_shards, thoughtful))


def test_local_gives_every_client_its_own_model(small_shards: Shards):
    result = run_small(small_shards, "local")
    assert len(result.models) == small_shards.clients
    one, other = (model.weights["bias"] for model in result.models[:2])
    assert not np.array_equal(one, other)
    with pytest.raises(InputError, match=r"local trains 3 classifiers.*result\.models"):
        _ = result.model


def test_global_is_local_with_one_client(small_shards: Shards):
    graph = small_shards.graph
    alone = Shards(graph, np.zeros(graph.nodes, np.int32), "louvain", 0)
    one, other = run_small(small_shards, "global"), run_small(alone, "local")
    assert timeless(one.history) == timeless(other.history)
    assert_same_models(one, other)


# The same spec, the same result


def test_the_same_seed_gives_the_same_result(finished: Result, small_shards: Shards):
    assert_same_result(run_small(small_shards, finished.spec.method), finished)


def test_another_seed_gives_another_result(fedavg: Result, small_shards: Shards):
    other = run_small(small_shards, "fedavg", {"seed": 1})
    assert timeless(other.history) != timeless(fedavg.history)


@pytest.mark.usefixtures("thread_workers")
@pytest.mark.parametrize("workers", [2, 5])
def test_the_number_of_workers_does_not_change_the_result(
    finished: Result, small_shards: Shards, workers: int
):
    assert_same_result(run_small(small_shards, finished.spec.method, workers=workers), finished)


# Stopping and going on


def stop_after(rounds: int) -> Callable[[], bool]:
    calls = iter(range(1, 100))
    return lambda: next(calls) == rounds


@pytest.mark.parametrize("method", ["fedavg", "local"])
@pytest.mark.parametrize("stops", [[1], [2], [1, 1], [ROUNDS]])
def test_a_run_that_was_stopped_goes_on_to_the_same_result(
    tmp_path: Path, small_shards: Shards, method: str, stops: list[int]
):
    folder = RunFolder(tmp_path)
    for rounds in stops:
        with pytest.raises(InterruptedRunError):
            run_small(small_shards, method, folder=folder, stop_requested=stop_after(rounds))
    assert not (tmp_path / "record.json").exists()
    rounds_heard: list[int] = []
    resumed = run_small(
        small_shards,
        method,
        folder=folder,
        watch=lambda _, number, *rest: rounds_heard.append(number),
    )
    in_all = ROUNDS + (method == "fedavg")
    assert rounds_heard == list(range(sum(stops) + 1, in_all + 1)), "goes on, does not start again"
    assert_same_result(resumed, run_small(small_shards, method))


@pytest.mark.usefixtures("thread_workers")
def test_a_stopped_run_can_go_on_with_another_number_of_workers(
    tmp_path: Path, small_shards: Shards
):
    folder = RunFolder(tmp_path)
    with pytest.raises(InterruptedRunError):
        run_small(small_shards, "local", folder=folder, stop_requested=stop_after(1))
    resumed = run_small(small_shards, "local", folder=folder, workers=2)
    assert_same_result(resumed, run_small(small_shards, "local"))


def test_a_finished_run_is_stored(tmp_path: Path, small_shards: Shards):
    result = run_small(small_shards, "fedavg", folder=RunFolder(tmp_path))
    assert json.loads((tmp_path / "record.json").read_text()) == result.record
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == result.history
    assert {file.name for file in tmp_path.iterdir()} == {
        "record.json",
        "history.jsonl",
        "model.safetensors",
        "privacy_events.json",
        "SHA256SUMS",
        "clients",
    }


# Unusual federations


def test_a_client_without_training_nodes_takes_part_with_weight_0(small_shards: Shards):
    graph, owner = small_shards.graph, small_shards.owner
    idle = owner == small_shards.clients - 1
    split = np.where(idle & (graph.split == Part.TRAIN), Part.NONE, graph.split)
    with_idle = Shards(graph.with_split(split), owner, "louvain", 0)
    without_it = Shards(graph.subgraph(np.flatnonzero(~idle)), owner[~idle], "louvain", 0)
    found, expected = run_small(with_idle, "fedavg"), run_small(without_it, "fedavg")
    losses = [entry["loss"] for entry in found.history]
    assert losses == [entry["loss"] for entry in expected.history], "it changes no weight"
    assert found.traffic["up_bytes"] == expected.traffic["up_bytes"] * 3 // 2, "it takes part"


def test_without_validation_and_test_nodes_the_last_round_counts(small_shards: Shards):
    graph = small_shards.graph
    split = np.where(graph.split == Part.TRAIN, Part.TRAIN, Part.NONE)
    shards = Shards(graph.with_split(split), small_shards.owner, "louvain", 0)
    result = run_small(shards, "fedavg")
    assert result.record["best_round"] == ROUNDS
    assert result.record["scores"] == {
        "global": {"test": None, "val": None, "test_last": None},
        "silo": {"test": None, "val": None},
    }
    assert result.accuracy is None


@pytest.fixture
def runaway(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Training runs away after so many epochs of the three clients together, two to warm up."""

    def after(epochs: int) -> None:
        left = iter(range(epochs))
        right = trainer.mean_loss
        monkeypatch.setattr(
            trainer, "mean_loss", lambda *a: right(*a) if next(left, None) is not None else math.nan
        )

    return after


def test_a_run_that_diverges_can_be_kept_with_the_best_round_before(runaway, small_shards: Shards):
    runaway(8)
    result = run_small(small_shards, "fedavg", keep_diverged=True)
    assert "diverged at client" in result.record["diverged"]
    assert [entry["round"] for entry in result.history] == [1]
    assert result.record["best_round"] == 1


@pytest.mark.parametrize(("epochs", "keep"), [(8, False), (3, True)])
def test_else_it_is_an_error_as_is_one_that_diverges_at_once(
    runaway, small_shards: Shards, epochs: int, keep: bool
):
    runaway(epochs)
    with pytest.raises(DivergedError, match="diverged at client"):
        run_small(small_shards, "fedavg", keep_diverged=keep)


def test_an_unknown_device_is_refused(small_shards: Shards):
    with pytest.raises(InputError, match=r"device must be auto, cpu or cuda \(got 'tpu'\)"):
        run_small(small_shards, "fedavg", device="tpu")


def test_a_classifier_refuses_a_graph_with_other_features(fedavg: Result, small_graph: Graph):
    narrow = Graph.from_edges(
        small_graph.edge_list(), small_graph.features[:, :5], small_graph.labels
    )
    assert isinstance(fedavg.model, Classifier)
    with pytest.raises(InputError, match=r"60 features \(got a graph with 5\)"):
        fedavg.model.predict(narrow)
