"""`feddep data` and `feddep partition`, and runs on somebody's own graph."""

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from calls import RUN, Feddep, history, record, with_three_training_nodes
from feddep.graph import datasets
from feddep.graph.folder import write_graph
from feddep.graph.graph import Graph, Part


def test_data_sets_are_listed_with_where_they_are(feddep: Feddep, monkeypatch, tmp_path: Path):
    (tmp_path / "data" / "cora").mkdir(parents=True)
    (tmp_path / "data" / "cora" / "cora.content").touch()
    monkeypatch.setenv("FEDDEP_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("feddep.cli.data.out_console", Console(width=400))
    found = {row["name"]: row["path"] for row in feddep("data", "list", "--json").json}
    assert found["cora"] == str(tmp_path / "data" / "cora")
    assert found["pubmed"] is None
    table = feddep("data", "list").out
    assert str(tmp_path / "data" / "cora") in table
    assert "feddep data get pubmed" in table
    assert "synthetic" in table


def test_data_path_prints_the_folder_and_nothing_else(
    feddep: Feddep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    folder = tmp_path / "data" / ("long" * 30) / "cora"
    folder.mkdir(parents=True)
    (folder / "cora.content").touch()
    monkeypatch.setenv("FEDDEP_DATA", str(folder.parent))
    assert feddep("data", "path", "cora").out == f"{folder}\n"


def test_data_path_of_what_is_not_there_says_how_to_get_it(feddep: Feddep):
    outcome = feddep("data", "path", "cora")
    assert outcome.code == 2
    assert "feddep data get cora" in outcome.err


def test_data_get_says_what_it_did(feddep: Feddep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    receipts = [
        datasets.Receipt("cora", tmp_path / "a", fetched=True),
        datasets.Receipt("pubmed", tmp_path / "b", fetched=False),
    ]
    asked = []
    monkeypatch.setattr(datasets, "get", lambda names: asked.append(names) or iter(receipts))
    outcome = feddep("data", "get", "cora", "pubmed")
    assert asked == [["cora", "pubmed"]]
    assert outcome.out.splitlines() == [
        f"cora: fetched into {tmp_path / 'a'}",
        f"pubmed: already in {tmp_path / 'b'}",
    ]


def test_a_damaged_data_set_is_named_with_the_expected_and_the_found_hash(
    feddep: Feddep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    file = datasets.DATASETS["msacademic"].editions[0].files[0]
    path = tmp_path / "data" / "msacademic" / file.name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"truncated")
    monkeypatch.setenv("FEDDEP_DATA", str(tmp_path / "data"))
    outcome = feddep(*RUN, "--dataset", "msacademic", "--out", "run")
    assert outcome.code == 2
    assert str(path) in outcome.err
    assert file.sha256 in outcome.err
    assert hashlib.sha256(b"truncated").hexdigest() in outcome.err
    assert not Path("run").exists()


# feddep partition


def test_partition_json_holds_nodes_edges_and_what_is_lost(feddep: Feddep):
    outcome = feddep("partition", "--clients", 4, "--partition", "random", "--seed", 2, "--json")
    assert outcome.code == 0
    found = outcome.json
    graph = feddep_graph()
    assert len(found["clients"]) == 4
    assert all(client.keys() == {"nodes", "edges"} for client in found["clients"])
    assert sum(client["nodes"] for client in found["clients"]) == graph.nodes
    kept = sum(client["edges"] for client in found["clients"])
    assert found["lost_edges"] == graph.edges - kept > 0
    assert found["lost_share"] == pytest.approx(found["lost_edges"] / graph.edges)
    assert (found["partition"], found["seed"]) == ("random", 2)


def feddep_graph() -> Graph:
    import feddep as package

    return package.load("synthetic")


def test_partition_prints_a_table_with_the_paper_statistics(feddep: Feddep):
    arguments = ["partition", "--clients", 3, "--set", "synthetic.nodes=150"]
    found = feddep(*arguments, "--json").json
    outcome = feddep(*arguments)
    assert outcome.err == ""
    assert f"ΔE = {found['lost_edges']}" in outcome.out
    for client in found["clients"]:
        assert str(client["edges"]) in outcome.out


@pytest.mark.parametrize("kind", ["louvain", "random", "label-skew"])
def test_a_run_on_stored_shards_gives_the_scores_of_the_run_by_name(feddep: Feddep, kind: str):
    how = ["--clients", 3, "--partition", kind, "--split", "random", "--seed", 4]
    stored = feddep("partition", *how, "--set", "synthetic.nodes=150", "--out", "shards")
    assert stored.code == 0
    assert "shards stored in shards" in stored.err
    feddep(*RUN, *how, "--out", "by-name")
    assert feddep(*RUN, "--dataset", "shards", "--seed", 4, "--out", "by-path").code == 0
    by_name, by_path = record("by-name"), record("by-path")
    assert by_path.pop("dataset") == "shards"
    assert by_name.pop("dataset") == "synthetic"
    assert by_path == by_name
    assert history("by-path") == history("by-name")


def test_clients_that_contradict_stored_shards_are_refused(feddep: Feddep):
    feddep("partition", "--clients", 3, "--set", "synthetic.nodes=150", "--out", "shards")
    outcome = feddep(*RUN, "--dataset", "shards", "--clients", 4)
    assert outcome.code == 2
    assert "partition.clients = 3 (got 4)" in outcome.err


def test_stored_shards_are_not_replaced_by_others(feddep: Feddep):
    arguments = ["partition", "--set", "synthetic.nodes=150", "--out", "shards"]
    feddep(*arguments)
    before = Path("shards/manifest.json").read_bytes()
    assert feddep(*arguments, "--seed", 1).code == 2
    assert Path("shards/manifest.json").read_bytes() == before


def test_shards_do_not_replace_what_is_there(feddep: Feddep):
    Path("shards").mkdir()
    Path("shards/notes.txt").write_text("precious")
    assert feddep("partition", "--set", "synthetic.nodes=150", "--out", "shards").code == 2
    assert [path.name for path in Path("shards").iterdir()] == ["notes.txt"]


# Somebody's own graph


def put(folder: Path, name: str, content: bytes) -> None:
    """Changes a file of a graph folder together with its hash in the manifest."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = hashlib.sha256(content).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture
def mine(small_graph: Graph, tmp_path: Path) -> Path:
    """A graph folder with dense features."""
    graph = Graph.from_edges(
        small_graph.edge_list(), small_graph.features.toarray(), small_graph.labels, name="mine"
    )
    write_graph(graph, tmp_path / "mine")
    return tmp_path / "mine"


def test_a_graph_folder_can_be_run(feddep: Feddep, mine: Path):
    assert feddep(*RUN, "--dataset", mine, "--json").json["dataset"] == str(mine)


@pytest.mark.parametrize("file", ["nodes.csv", "edges.csv", "features.npy"])
@pytest.mark.parametrize("damage", [lambda whole: whole[:-9], lambda whole: whole[:-1] + b"!"])
def test_a_damaged_file_is_named_with_the_expected_and_the_found_hash(
    feddep: Feddep, mine: Path, file: str, damage: Callable[[bytes], bytes]
):
    whole = (mine / file).read_bytes()
    (mine / file).write_bytes(damage(whole))
    outcome = feddep(*RUN, "--dataset", mine)
    assert outcome.code == 2
    assert str(mine / file) in outcome.err
    assert hashlib.sha256(whole).hexdigest() in outcome.err
    assert hashlib.sha256(damage(whole)).hexdigest() in outcome.err


def test_features_that_are_not_numbers_are_refused(feddep: Feddep, mine: Path):
    features = np.load(mine / "features.npy")
    features[7, 3] = np.nan
    put(mine, "features.npy", npy(features))
    outcome = feddep(*RUN, "--dataset", mine)
    assert outcome.code == 2
    assert "NaN or infinite, the first in row 7" in outcome.err


def test_an_edge_to_an_unknown_node_is_refused(feddep: Feddep, mine: Path):
    put(mine, "edges.csv", (mine / "edges.csv").read_bytes() + b"0,9999\n")
    outcome = feddep(*RUN, "--dataset", mine)
    assert outcome.code == 2
    assert "edges.csv" in outcome.err
    assert "'9999'" in outcome.err


def test_a_manifest_that_is_none_is_refused(feddep: Feddep, mine: Path):
    (mine / "manifest.json").write_text("{")
    outcome = feddep(*RUN, "--dataset", mine)
    assert outcome.code == 2
    assert "manifest.json" in outcome.err


def test_a_class_without_training_nodes_is_refused(
    feddep: Feddep, small_graph: Graph, tmp_path: Path
):
    split = np.where(small_graph.labels == 2, Part.TEST, Part.TRAIN)
    write_graph(small_graph.with_split(split), tmp_path / "mine")
    outcome = feddep(*RUN, "--dataset", "mine")
    assert outcome.code == 2
    assert "class 2 of synthetic has nodes but none to train on" in outcome.err


def test_clients_without_training_nodes_take_part_with_a_warning(
    feddep: Feddep, small_graph: Graph, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    write_graph(with_three_training_nodes(small_graph), tmp_path / "mine")
    outcome = feddep(*RUN, "--dataset", "mine", "--clients", 5, "--json")
    assert outcome.code == 0
    assert outcome.json["scores"]["silo"]["val"] is None
    assert "clients without training nodes take part with weight 0" in caplog.text
