"""One way to run, for Python, the command line and sweeps: what is resolved, claimed, run again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from feddep.errors import DataError, InputError, InterruptedRunError
from feddep.graph.graph import Graph
from feddep.graph.shard import Shards
from feddep.runs import pipeline
from feddep.runs.execute import execute, resolved
from feddep.runs.files import read_record
from feddep.runs.records import without_times
from feddep.scenario import presets
from feddep.scenario.spec import RunSpec
from feddep.sweeps.one_run import outcome

TINY = {
    "method": "fedavg",
    "dataset": "synthetic",
    "synthetic.nodes": 120,
    "synthetic.feature_count": 60,
    "synthetic.topic_words": 20,
    "synthetic.dialect_words": 8,
    "partition.clients": 2,
    "training.rounds": 2,
    "model.hidden": 4,
}


def carry_out(settings: dict[str, Any] | None = None, data: Any = None, **how: Any):
    return execute(TINY | (settings or {}), data, **({"workers": 1} | how))


class Counting:
    """A runner that counts how often it is asked to train, and can be told to stop."""

    def __init__(self, stop: bool = False) -> None:
        self.runs = 0
        self.stop = stop

    def __call__(self, spec: RunSpec, shards: Shards, **how: Any):
        self.runs += 1
        return pipeline.run(spec, shards, stop_requested=lambda: self.stop, **how)


def in_memory(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that are left when the data are given as they are."""
    return {
        key: value
        for key, value in (TINY | settings).items()
        if not key.startswith(("dataset", "synthetic", "partition"))
    }


# What is run


def test_a_sweep_gives_the_same_record():
    here, swept = carry_out().record, outcome(TINY)["record"]
    assert without_times(here) == without_times(swept)
    assert here["seconds"]["loading"] > 0


def test_loading_counts_however_the_data_are_given(small_graph: Graph):
    result = execute(in_memory({}), small_graph, workers=1)
    assert result.record["seconds"]["loading"] > 0


@pytest.mark.parametrize("key", ["dataset", "partition.clients", "partition.kind", "split.kind"])
def test_shards_that_say_otherwise_are_refused(small_shards: Shards, key: str):
    with pytest.raises(InputError, match=f"the shards have {key} = .* \\(got 7\\)"):
        resolved({key: 7}, small_shards)


def test_the_preset_fills_what_is_left_open(small_graph: Graph, monkeypatch, tmp_path: Path):
    tuned(monkeypatch, tmp_path, small_graph.name, 0.02)
    assert resolved({"method": "fedavg"}, small_graph).training.learning_rate == 0.02
    given = {"method": "fedavg", "training.learning_rate": 0.3}
    assert resolved(given, small_graph).training.learning_rate == 0.3


# Finished runs


def test_a_finished_run_is_opened_and_not_trained_again(tmp_path: Path):
    first = carry_out(out=tmp_path / "run")
    runner = Counting()
    again = carry_out(out=tmp_path / "run", resume=True, runner=runner)
    assert runner.runs == 0
    assert again.record == first.record
    assert again.history == first.history
    assert carry_out(out=tmp_path / "run", resume=False, runner=runner).spec == first.spec
    assert runner.runs == 1


@pytest.mark.parametrize("kind", ["shards", "graph"])
def test_so_is_one_on_data_in_memory_unless_they_are_others(
    tmp_path: Path, small_shards: Shards, kind: str
):
    data = small_shards if kind == "shards" else small_shards.graph
    runner, settings = Counting(), in_memory({})
    for _ in range(2):
        execute(settings, data, out=tmp_path, resume=True, workers=1, runner=runner)
    assert runner.runs == 1
    keep = list(range(small_shards.graph.nodes - 1))
    smaller = small_shards.graph.subgraph(keep, name=small_shards.graph.name)
    other = (
        smaller
        if kind == "graph"
        else replace(small_shards, graph=smaller, owner=small_shards.owner[keep])
    )
    with pytest.raises(InputError, match="120 nodes there, 119 here"):
        execute(settings, other, out=tmp_path, resume=True, workers=1, runner=runner)


def test_one_whose_method_has_changed_is_run_again_and_stays_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(tmp_path)
    own = tmp_path / "own_method_that_changes.py"
    own.write_text("from feddep.algorithms.fedavg import METHOD\n")
    settings, runner, told = {"method": f"{own.stem}:METHOD"}, Counting(), []
    how = {"out": tmp_path / "run", "resume": True, "runner": runner, "tell": told.append}
    carry_out(settings, **how)
    own.write_text(own.read_text() + "# another one\n")
    carry_out(settings, **how)
    assert told == [f"the file of {own.stem}:METHOD has changed since it was run; running it again"]
    assert runner.runs == 2
    carry_out(settings, **how)
    assert runner.runs == 2, "the folder of the second run is complete"


def test_an_unfinished_run_goes_on(tmp_path: Path):
    with pytest.raises(InterruptedRunError):
        carry_out(out=tmp_path, runner=Counting(stop=True))
    with pytest.raises(InputError, match="unfinished run; add --resume"):
        carry_out(out=tmp_path)
    resumed = carry_out(out=tmp_path, resume=True)
    assert without_times(resumed.record) == without_times(carry_out().record)
    assert read_record(tmp_path) == resumed.record


def test_a_preset_that_has_changed_does_not_change_a_run_that_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tuned(monkeypatch, tmp_path, "synthetic", 0.02)
    first = carry_out(out=tmp_path / "run")
    tuned(monkeypatch, tmp_path, "synthetic", 0.07)
    runner = Counting()
    again = carry_out(out=tmp_path / "run", resume=True, runner=runner)
    assert (again.spec, runner.runs) == (first.spec, 0)
    with pytest.raises(InputError, match="another spec"):
        carry_out(out=tmp_path / "run")


def tuned(monkeypatch: pytest.MonkeyPatch, folder: Path, dataset: str, rate: float) -> None:
    file = folder / "presets.toml"
    file.write_text(f'[tuned.fedavg."{dataset}"]\n"training.learning_rate" = {rate}\n')
    monkeypatch.setattr(presets, "FILE", file)


# What goes wrong


def test_what_fails_before_it_has_results_leaves_no_folder(tmp_path: Path):
    with pytest.raises(InputError, match="at most 120 clients"):
        carry_out({"partition.clients": 121}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_finished_run_with_a_damaged_model_is_not_taken_for_one(tmp_path: Path):
    carry_out(out=tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"model\.safetensors is not the file that"):
        carry_out(out=tmp_path, resume=True)
