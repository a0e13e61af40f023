"""Graph folders: what is written is read back exactly, and what is broken is named."""

import hashlib
import json
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import DENSE, assert_same, halves, kite, rewrite

from feddep.errors import DataError, InputError
from feddep.graph import folder as folder_module
from feddep.graph.folder import is_graph_folder, read_graph, write_graph
from feddep.graph.graph import Graph
from feddep.graph.shard import is_shard_collection, write_shards


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"features": DENSE},
        {"node_ids": ["a", "b,c", 'say "x"', " pad ", "ö#"]},
        {"node_ids": ["1", "2", "3", "4", "5"]},
        {"edges": []},
        {"features": sp.csr_array((5, 3), dtype=np.float32)},
        {"labels": [-1] * 5, "classes": 0, "split": [0] * 5},
    ],
)
def test_a_graph_comes_back_as_it_was(tmp_path, changes):
    graph = kite(**changes)
    write_graph(graph, tmp_path / "deep" / "kite")
    assert_same(read_graph(tmp_path / "deep" / "kite"), graph)


def test_one_node_is_a_graph(tmp_path):
    graph = Graph.from_edges([], [[1.0]], [0])
    write_graph(graph, tmp_path / "one")
    assert_same(read_graph(tmp_path / "one"), graph)


printable = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=0, max_size=6)


@given(st.lists(printable, min_size=5, max_size=5, unique=True))
def test_any_text_on_one_line_can_be_an_id(ids):
    graph = kite(node_ids=ids)
    with TemporaryDirectory() as folder:
        write_graph(graph, folder)
        assert_same(read_graph(folder), graph)


def test_ids_of_several_lines_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"must be one line \(got 'b\\nc'\)"):
        write_graph(kite(node_ids=["a", "b\nc", "d", "e", "f"]), tmp_path / "kite")
    with pytest.raises(InputError, match="whole numbers or text"):
        write_graph(kite(node_ids=[0.5, 1.5, 2.5, 3.5, 4.5]), tmp_path / "kite")
    assert list(tmp_path.iterdir()) == []


def test_the_files_are_plain(tmp_path):
    write_graph(kite(), tmp_path / "kite")
    nodes = f"id,label,split\n10,0,train\n-7,0,val\n30,1,test\n20,1,train\n{2**40},,\n"
    assert (tmp_path / "kite" / "nodes.csv").read_text() == nodes
    edges = "source,target\n10,-7\n10,30\n-7,30\n30,20\n"
    assert (tmp_path / "kite" / "edges.csv").read_text() == edges
    with np.load(tmp_path / "kite" / "features.npz", allow_pickle=False) as parts:
        assert parts["shape"].tolist() == [5, 2]
    manifest = json.loads((tmp_path / "kite" / "manifest.json").read_text())
    assert manifest["format"] == "feddep-graph"
    assert (manifest["nodes"], manifest["edges"], manifest["classes"]) == (5, 4, 3)
    assert manifest["files"]["nodes.csv"] == hashlib.sha256(nodes.encode()).hexdigest()


def test_the_same_graph_gives_the_same_bytes(tmp_path):
    write_graph(kite(), tmp_path / "a")
    write_graph(kite(), tmp_path / "b")
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv", "features.npz"])
def test_a_changed_file_is_named_with_both_hashes(tmp_path, name):
    write_graph(kite(), tmp_path / "kite")
    path = tmp_path / "kite" / name
    written = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(path.read_bytes() + b" ")
    changed = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(DataError, match=f"{name}.*expected SHA-256 {written}.*got {changed}"):
        read_graph(tmp_path / "kite")


def test_a_missing_file_is_named(tmp_path):
    write_graph(kite(), tmp_path / "kite")
    (tmp_path / "kite" / "edges.csv").unlink()
    with pytest.raises(DataError, match=r"edges\.csv is missing"):
        read_graph(tmp_path / "kite")
    with pytest.raises(DataError, match=r"nowhere.*manifest\.json cannot be read"):
        read_graph(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("edges.csv", "source,target\n10,30\n10,99\n", r"line 3: .* as target \(got '99'\)"),
        ("edges.csv", "source,target\n99,10\n", r"line 2: .* as source \(got '99'\)"),
        ("edges.csv", "from,to\n10,30\n", "line 1: expected source,target"),
        ("edges.csv", "source,target\n10,x\n", r"edges\.csv.*'x'"),
        ("edges.csv", "source,target\n10,30\n", "promises 4 edges .got 1"),
        ("nodes.csv", "id,label,split\n10,0,dev\n", r"line 2: expected a split .*\(got 'dev'\)"),
        ("nodes.csv", "id,label,split\n10,cat,\n", r"nodes\.csv.*'cat'"),
        ("nodes.csv", "id,label,split\n", "promises 5 nodes .got 0"),
        ("features.npz", b"", r"features\.npz"),
        ("features.npz", b"PK\x03\x04 broken", r"features\.npz"),
    ],
)
def test_wrong_content_is_named(tmp_path, name, content, message):
    write_graph(kite(), tmp_path / "kite")
    rewrite(tmp_path / "kite", name, content)
    with pytest.raises(DataError, match=message):
        read_graph(tmp_path / "kite")


def test_features_that_are_not_numbers_are_refused(tmp_path):
    write_graph(kite(features=DENSE), tmp_path / "kite")
    path = tmp_path / "kite" / "features.npy"
    for array, message in [
        (np.where(DENSE == 2, np.nan, DENSE), "1 values are NaN.*row 4"),
        (DENSE.astype(str), "table of numbers"),
        (DENSE[0], "table of numbers"),
        (DENSE[:3], "3"),
    ]:
        np.save(path, array)
        rewrite(path.parent, path.name, path.read_bytes())
        with pytest.raises(DataError, match=message):
            read_graph(tmp_path / "kite")


def test_a_pickle_is_never_opened(tmp_path):
    write_graph(kite(features=DENSE), tmp_path / "kite")
    path = tmp_path / "kite" / "features.npy"
    np.save(path, np.array([{"a": 1}] * 5), allow_pickle=True)
    rewrite(path.parent, path.name, path.read_bytes())
    with pytest.raises(DataError, match=r"features\.npy.*allow_pickle"):
        read_graph(tmp_path / "kite")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, r"version: Input should be 1 \(got 2\)"),
        ({"format": "other"}, "format: Input should be 'feddep-graph'"),
        ({"nodes": "5"}, "nodes: Input should be a valid integer"),
        ({"extra": 1}, "extra: Extra inputs"),
        ({"files": {"../secret": "0"}}, r"files: missing or not expected: \.\./secret, edges\.csv"),
    ],
)
def test_a_strange_manifest_is_refused(tmp_path, change, message):
    write_graph(kite(), tmp_path / "kite")
    path = tmp_path / "kite" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=message):
        read_graph(tmp_path / "kite")


def test_folders_are_recognised(tmp_path):
    write_graph(kite(), tmp_path / "graph")
    write_shards(halves(), tmp_path / "shards")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_text("[]")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    names = ["graph", "shards", "other", "broken", "absent"]
    assert [is_graph_folder(tmp_path / name) for name in names] == [True, *[False] * 4]
    assert [is_shard_collection(tmp_path / name) for name in names] == [False, True, *[False] * 3]


def test_nothing_is_lost_by_writing(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="something other than a graph or shards"):
            write_graph(kite(), tmp_path / "mine", overwrite=overwrite)
        with pytest.raises(InputError, match="is a file"):
            write_graph(kite(), tmp_path / "mine" / "thesis.tex", overwrite=overwrite)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_our_own_folder_is_replaced_on_request_only(tmp_path):
    write_graph(kite(), tmp_path / "kite")
    with pytest.raises(InputError, match="exists already"):
        write_graph(kite(edges=[]), tmp_path / "kite")
    assert read_graph(tmp_path / "kite").edges == 4
    write_graph(kite(edges=[]), tmp_path / "kite", overwrite=True)
    assert read_graph(tmp_path / "kite").edges == 0
    write_shards(halves(), tmp_path / "kite", overwrite=True)
    assert is_shard_collection(tmp_path / "kite")
    assert [path.name for path in tmp_path.iterdir()] == ["kite"]


def test_a_failed_write_leaves_the_old_folder(tmp_path, monkeypatch):
    def full_disk(*_: object) -> str:
        raise OSError("no space left on device")

    write_graph(kite(), tmp_path / "kite")
    monkeypatch.setattr(folder_module, "_write_features", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_graph(kite(edges=[]), tmp_path / "kite", overwrite=True)
    assert_same(read_graph(tmp_path / "kite"), kite())
    assert [path.name for path in tmp_path.iterdir()] == ["kite"]
