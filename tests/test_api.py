"""What a notebook user types."""

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import feddep
from agreement import assert_agree
from feddep.algorithms import find_method
from feddep.graph.graph import Graph, Part
from feddep.runs.files import read_record
from feddep.runs.folder import RunFolder
from feddep.runs.records import without_times
from feddep.scenario.spec import RunSpec

QUICK = {"model.hidden": 8, "training.batch_size": 16}
SMALL_GRAPH = {"synthetic.nodes": 120}


def quick(method: str, data: object, **options: object) -> feddep.Result:
    given = {"rounds": 2, "settings": QUICK, "workers": 1} | options
    return feddep.run(method, data, **given)  # type: ignore[arg-type]


def timeless(result: feddep.Result) -> list[dict[str, object]]:
    return [{k: v for k, v in entry.items() if k != "seconds"} for entry in result.history]


# The package


@pytest.mark.parametrize("name", feddep.__all__)
def test_every_public_name_can_be_imported(name: str):
    assert getattr(feddep, name) is not None
    assert name in dir(feddep)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'nonsense'"):
        _ = feddep.nonsense


def test_importing_the_package_and_the_command_line_does_not_import_torch():
    code = "import sys, feddep, feddep.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# methods, load, partition


def test_methods_have_a_name_and_a_summary():
    found = feddep.methods()
    assert {"local", "fedavg", "global"} <= found.keys()
    assert all(summary.endswith(".") for summary in found.values())


def test_synthetic_graphs_are_shaped_by_keywords():
    graph = feddep.load("synthetic", nodes=130, seed=3)
    assert graph.nodes == 130
    assert not np.array_equal(graph.indices, feddep.load("synthetic", nodes=130).indices)


def test_an_unknown_keyword_is_refused_by_name():
    with pytest.raises(feddep.InputError, match=r"'synthetic\.size'"):
        feddep.load("synthetic", size=130)


def test_keywords_for_another_data_set_are_refused():
    with pytest.raises(feddep.InputError, match="nodes for cora"):
        feddep.load("cora", nodes=130)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_graph_folder_is_loaded(tmp_path: Path, small_graph: Graph, kind: type):
    feddep.write_graph(small_graph, tmp_path / "mine")
    assert feddep.load(kind(tmp_path / "mine")).nodes == small_graph.nodes


def test_partition_deals_out_as_asked(small_graph: Graph):
    shards = feddep.partition(small_graph, clients=4, kind="random", split="random", seed=7)
    assert (len(shards), shards.kind, shards.split, shards.seed) == (4, "random", "random", 7)
    assert (shards.graph.split != Part.NONE).all()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"clients": 0}, "at least 1 client"),
        ({"clients": 121}, "at most 120 clients"),
        ({"kind": "metis"}, "partition.kind"),
        ({"split": "half"}, "split.kind"),
        ({"seed": -1}, "seed"),
    ],
)
def test_partition_refuses_what_cannot_be(small_graph: Graph, wrong: dict, named: str):
    with pytest.raises(feddep.InputError, match=named):
        feddep.partition(small_graph, **wrong)


# run


def test_a_run_gives_accuracy_privacy_traffic_history_and_a_model(small_shards: feddep.Shards):
    result = quick("fedavg", small_shards)
    assert isinstance(result.accuracy, float)
    assert result.accuracy == result.record["scores"]["global"]["test"]
    assert result.privacy == result.record["privacy"]
    assert result.traffic == result.record["traffic"]
    assert [entry["round"] for entry in result.history] == [1, 2]
    graph = small_shards.graph
    assert result.model.predict(graph).shape == (graph.nodes,)
    assert_agree(result.model.probabilities(graph).sum(axis=1), 1, terms=2 * graph.classes)


def test_the_record_names_what_the_shards_are(small_graph: Graph):
    shards = feddep.partition(small_graph, clients=2, kind="random", seed=5)
    record = quick("local", shards).record
    found = [record[key] for key in ("method", "clients", "partition", "seed", "rounds")]
    assert found == ["local", 2, "random", 5, 2]


def test_shards_graph_and_name_give_the_same_run():
    graph = feddep.load("synthetic", nodes=120)
    by_name = quick("fedavg", "synthetic", settings=QUICK | SMALL_GRAPH)
    by_graph = quick("fedavg", graph)
    by_shards = quick("fedavg", feddep.partition(graph))
    assert timeless(by_name) == timeless(by_graph) == timeless(by_shards)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_stored_shard_folder_gives_the_same_run(
    tmp_path: Path, small_shards: feddep.Shards, kind: type
):
    feddep.write_shards(small_shards, tmp_path / "shards")
    found = quick("fedavg", kind(tmp_path / "shards"))
    assert timeless(found) == timeless(quick("fedavg", small_shards))
    assert found.record["clients"] == 3


def test_the_seed_of_the_run_is_that_of_the_shards_unless_given(small_graph: Graph):
    shards = feddep.partition(small_graph, clients=2, seed=5)
    assert quick("fedavg", shards).spec.seed == 5
    assert quick("fedavg", shards, seed=6).spec.seed == 6


def test_settings_reach_the_spec(small_shards: feddep.Shards):
    result = quick("fedavg", small_shards, settings=QUICK | {"training.learning_rate": 0.01})
    assert result.spec.training.learning_rate == 0.01
    assert result.model.weights["bias"].shape == (8,)


def test_a_result_is_shown_in_a_line(small_shards: feddep.Shards):
    result = quick("fedavg", small_shards)
    shown = f"2 rounds, test accuracy {result.accuracy:.4f})"
    assert repr(result) == f"Result(fedavg on {small_shards.graph.name}, 3 clients, {shown}"


def test_a_method_is_given_by_name(small_shards: feddep.Shards):
    method = find_method("fedavg")
    with pytest.raises(feddep.InputError, match=r"package\.module:ATTRIBUTE \(got Method\)"):
        quick(method, small_shards)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["shards", "graph", "folder"])
def test_fewer_features_are_fewer_whatever_is_given(
    tmp_path: Path, small_shards: feddep.Shards, kind: str
):
    feddep.write_shards(small_shards, tmp_path / "shards")
    data = {"shards": small_shards, "graph": small_shards.graph, "folder": tmp_path / "shards"}
    result = quick("fedavg", data[kind], settings=QUICK | {"feature_share": 0.1})
    assert result.record["data"]["features"] == 6
    assert small_shards.graph.feature_count == 60


@pytest.mark.parametrize(
    ("method", "options", "named"),
    [
        ("fedprox", {}, "unknown method 'fedprox'; known: .*fedavg"),
        ("fedavg", {"settings": {"model.width": 3}}, r"unknown setting 'model\.width'"),
        ("fedavg", {"rounds": 0}, r"training\.rounds"),
        ("fedavg", {"device": "tpu"}, "device must be auto, cpu or cuda"),
    ],
)
def test_what_cannot_be_run_is_refused_and_leaves_no_folder(
    tmp_path: Path, small_shards: feddep.Shards, method: str, options: dict, named: str
):
    with pytest.raises(feddep.InputError, match=named):
        quick(method, small_shards, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_an_unknown_data_set_is_refused_and_leaves_no_folder(tmp_path: Path):
    with pytest.raises(feddep.InputError, match=r"unknown data set 'coras'; known: .*cora"):
        quick("fedavg", "coras", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_is_found_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").touch()
    monkeypatch.setattr("feddep.scenario.build.load", lambda *_: pytest.fail("worked"))
    with pytest.raises(feddep.InputError, match="cannot write to"):
        quick("fedavg", "synthetic", out=tmp_path / "file" / "run")


def test_a_graph_without_training_nodes_is_refused(small_shards: feddep.Shards):
    graph = small_shards.graph
    untrained = graph.with_split(np.where(graph.split == Part.TRAIN, Part.NONE, graph.split))
    with pytest.raises(feddep.InputError, match="no training node"):
        quick("fedavg", untrained)


def test_a_client_without_training_nodes_is_warned_about(
    small_graph: Graph, caplog: pytest.LogCaptureFixture
):
    shards = feddep.partition(small_graph, clients=3, kind="random")
    graph, idle = shards.graph, shards.owner == 2
    split = np.where(idle & (graph.split == Part.TRAIN), Part.NONE, graph.split)
    with caplog.at_level(logging.WARNING):
        quick("fedavg", feddep.Shards(graph.with_split(split), shards.owner, "random", 0))
    assert "weight 0: 2" in caplog.text


# Storing


def test_a_run_is_stored_where_asked(tmp_path: Path, small_shards: feddep.Shards):
    result = quick("fedavg", small_shards, out=tmp_path / "run")
    assert read_record(tmp_path / "run") == result.record
    assert RunSpec.read(tmp_path / "run" / "spec.toml") == result.spec


def test_save_writes_what_a_run_with_out_writes(tmp_path: Path, small_shards: feddep.Shards):
    quick("local", small_shards, out=tmp_path / "one")
    path = quick("local", small_shards).save(str(tmp_path / "other"))
    assert path == tmp_path / "other"
    one, other = sorted((tmp_path / "one").iterdir()), sorted(path.iterdir())
    assert [file.name for file in one] == [file.name for file in other]
    assert without_times(read_record(one[0].parent)) == without_times(read_record(path))
    stored, expected = (load_file(f / "model.safetensors") for f in (path, tmp_path / "one"))
    assert stored.keys() == expected.keys()
    assert all(np.array_equal(stored[name], expected[name]) for name in stored)


def test_save_refuses_a_folder_that_holds_something_else(
    tmp_path: Path, small_shards: feddep.Shards
):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(feddep.InputError, match="not empty"):
        quick("fedavg", small_shards).save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_resume_goes_on_from_a_checkpoint(
    tmp_path: Path, small_shards: feddep.Shards, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("feddep.runs.journal.CHECKPOINT_SECONDS", 0.0)
    finish = RunFolder.finish
    monkeypatch.setattr(RunFolder, "finish", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        quick("fedavg", small_shards, out=tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint.bin").exists()
    monkeypatch.setattr(RunFolder, "finish", finish)
    resumed = quick("fedavg", small_shards, out=tmp_path / "run", resume=True)
    assert timeless(resumed) == timeless(quick("fedavg", small_shards))
