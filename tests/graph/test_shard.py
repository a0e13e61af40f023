"""Folders on disk: what is written is read back exactly, and what is broken is named."""

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from feddep.errors import DataError, InputError
from feddep.graph import shard as shard_module
from feddep.graph.graph import Graph, Part
from feddep.graph.shard import (
    Shards,
    is_graph_folder,
    is_shard_collection,
    read_graph,
    read_shards,
    read_tables,
    shard_settings,
    write_graph,
    write_shards,
)
from feddep.graph.synthetic import SyntheticSpec, generate
from feddep.seeding import Seeds

DENSE = np.array([[0.1, 0], [0, 1], [1, 1], [0, 0], [2, 1e-8]], np.float32)


def kite(**changes: object) -> Graph:
    """A triangle 0-1-2 with a tail 2-3 and a lonely node 4 without label."""
    given = {
        "edges": [(0, 1), (1, 2), (0, 2), (2, 3)],
        "features": sp.csr_array(DENSE),
        "labels": [0, 0, 1, 1, -1],
        "classes": 3,
        "node_ids": [10, -7, 30, 20, 2**40],
        "split": [Part.TRAIN, Part.VAL, Part.TEST, Part.TRAIN, Part.NONE],
        "name": "kite",
    }
    return Graph.from_edges(**(given | changes))  # type: ignore[arg-type]


def halves() -> Shards:
    """The kite with 0, 2 and 4 at client 0: the edges 0-1, 1-2 and 2-3 are lost."""
    return Shards(kite(), np.array([0, 1, 0, 1, 0]), kind="random", seed=3)


def assert_same(found: Graph, expected: Graph) -> None:
    for array in ("indptr", "indices", "labels", "node_ids", "split"):
        left, right = getattr(found, array), getattr(expected, array)
        assert np.array_equal(left, right), array
        assert left.dtype.kind == right.dtype.kind, array
    assert (found.classes, found.name) == (expected.classes, expected.name)
    assert type(found.features) is type(expected.features)
    if isinstance(expected.features, np.ndarray):
        assert np.array_equal(found.features, expected.features)
        return
    assert found.features.shape == expected.features.shape
    for array in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(found.features, array), getattr(expected.features, array))


def rewrite(folder: Path, name: str, content: str | bytes) -> None:
    """Changes a file and its hash: a folder made by hand rather than a damaged one."""
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = hashlib.sha256(data).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


# Shards


def test_shards_are_the_clients_graphs():
    shards = halves()
    assert shards.clients == len(shards) == 2
    assert shards[0].node_ids.tolist() == [10, 30, 2**40]
    assert shards[0].edge_list().tolist() == [[0, 1]]
    assert shards[-1].node_ids.tolist() == shards.shard(1).node_ids.tolist() == [-7, 20]
    assert [shard.name for shard in shards] == ["kite/0", "kite/1"]
    assert shards.lost_edges().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert "clients=2" in repr(shards)


def test_shards_have_an_end():
    with pytest.raises(IndexError):
        halves()[2]
    with pytest.raises(InputError, match=r"clients are 0 to 1 \(got 2\)"):
        halves().shard(2)


def test_owner_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        halves().owner[0] = 1


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        ([0, 1], r"for each of 5 nodes \(got int64 \(2,\)\)"),
        ([0.0, 1.0, 0.0, 0.0, 0.0], "a whole number"),
        ([0, -1, 0, 0, 0], r"numbered from 0 \(got -1\)"),
        ([0, 2, 0, 2, 2], "client 1 has none"),
    ],
)
def test_owners_are_checked(owner, message):
    with pytest.raises(InputError, match=message):
        Shards(kite(), np.array(owner), kind="given", seed=0)


# Graph folders


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
    monkeypatch.setattr(shard_module, "_write_features", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_graph(kite(edges=[]), tmp_path / "kite", overwrite=True)
    assert_same(read_graph(tmp_path / "kite"), kite())
    assert [path.name for path in tmp_path.iterdir()] == ["kite"]


# Shard collections


def synthetic_shards() -> Shards:
    spec = SyntheticSpec(nodes=400, classes=4, feature_count=120)
    graph = generate(spec, Seeds(5))
    stream = np.random.default_rng(0)
    graph = graph.with_split(stream.integers(0, 4, graph.nodes))
    return Shards(graph, stream.integers(0, 7, graph.nodes), kind="random", seed=5)


@pytest.mark.parametrize("make", [halves, synthetic_shards])
def test_shards_come_back_as_they_were(tmp_path, make):
    shards = make()
    write_shards(shards, tmp_path / "shards")
    found = read_shards(tmp_path / "shards")
    assert_same(found.graph, shards.graph)
    assert np.array_equal(found.owner, shards.owner)
    assert (found.kind, found.seed, found.split) == (shards.kind, shards.seed, shards.split)
    for left, right in zip(found, shards, strict=True):
        assert_same(left, right)


@pytest.mark.parametrize("changes", [{"features": DENSE}, {"node_ids": list("zyxwv")}])
def test_dense_and_text_shards_come_back(tmp_path, changes):
    shards = Shards(kite(**changes), np.array([1, 0, 1, 0, 2]), kind="given", seed=0)
    write_shards(shards, tmp_path / "shards")
    assert_same(read_shards(tmp_path / "shards").graph, shards.graph)


def test_settings_are_known_without_reading_the_shards(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    (tmp_path / "shards" / "order.npy").unlink()
    settings = shard_settings(tmp_path / "shards")
    assert (settings["partition.clients"], settings["partition.kind"]) == (2, "random")


def test_a_clients_folder_is_a_graph_folder(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    assert_same(read_graph(tmp_path / "shards" / "client-001"), halves()[1])


def test_the_collection_says_what_the_lost_edges_are_for(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    manifest = json.loads((tmp_path / "shards" / "manifest.json").read_text())
    assert manifest["format"] == "feddep-shards"
    assert (manifest["clients"], manifest["partition"], manifest["seed"]) == (2, "random", 3)
    assert "Nobody in a real federation has them" in manifest["note"]
    lost = (tmp_path / "shards" / "lost_edges.csv").read_text()
    assert lost == "source,target\n10,-7\n-7,30\n30,20\n"


def test_real_silos_have_no_lost_edges(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    (tmp_path / "shards" / "lost_edges.csv").unlink()
    found = read_shards(tmp_path / "shards")
    assert found.graph.edge_list().tolist() == [[0, 2]]
    assert found.graph.node_ids.tolist() == kite().node_ids.tolist()
    assert_same(found[0], halves()[0])


@pytest.mark.parametrize(
    "name", ["client-001/manifest.json", "order.npy", "lost_edges.csv", "client-000/nodes.csv"]
)
def test_a_changed_file_of_a_collection_is_named(tmp_path, name):
    write_shards(halves(), tmp_path / "shards")
    path = tmp_path / "shards" / name
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(DataError, match=f"{name}.*expected SHA-256"):
        read_shards(tmp_path / "shards")


def test_a_missing_client_is_named(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    (tmp_path / "shards" / "client-001" / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"client-001/manifest\.json is missing"):
        read_shards(tmp_path / "shards")


def test_a_wrong_order_is_refused(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    np.save(tmp_path / "order.npy", np.array([0, 0, 1, 2, 3]))
    rewrite(tmp_path / "shards", "order.npy", (tmp_path / "order.npy").read_bytes())
    with pytest.raises(DataError, match="positions 0 to 4, each once"):
        read_shards(tmp_path / "shards")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_ids": list("abcde")}, "some by text"),
        ({"features": DENSE}, "some clients have dense features"),
        ({"features": np.ones((5, 7))}, "some clients have dense|columns|dimension"),
        ({"node_ids": [1, 10, 2, 30, 3]}, "10 repeats"),
    ],
)
def test_clients_that_do_not_fit_together_are_refused(tmp_path, changes, message):
    folder = tmp_path / "shards"
    write_shards(halves(), folder)
    odd = Shards(kite(**changes), halves().owner, kind="random", seed=3)
    (folder / "lost_edges.csv").unlink()
    write_graph(odd[1], folder / "client-001", overwrite=True)
    name = "client-001/manifest.json"
    rewrite(folder, name, (folder / name).read_bytes())
    with pytest.raises(DataError, match=message):
        read_shards(folder)


# Somebody else's tables

NODES = "id,age,label,split,height\nann,1,cat,train,0.5\nbob,2,dog,,1.5\ncy,3,,,2.5\n"
TABLE_EDGES = "source,target,weight\nann,bob,0.1\nbob,ann,0.2\ncy,bob,0.3\n"


def tables(folder: Path, nodes: str = NODES, edges: str = TABLE_EDGES) -> tuple[Path, Path]:
    (folder / "n.csv").write_text(nodes)
    (folder / "e.csv").write_text(edges)
    return folder / "n.csv", folder / "e.csv"


def test_tables_become_a_graph(tmp_path):
    graph = read_tables(*tables(tmp_path), name="pets")
    assert graph.name == "pets"
    assert graph.node_ids.tolist() == ["ann", "bob", "cy"]
    assert graph.features.tolist() == [[1, 0.5], [2, 1.5], [3, 2.5]]
    assert graph.labels.tolist() == [0, 1, -1]
    assert graph.classes == 2
    assert graph.split.tolist() == [Part.TRAIN, Part.NONE, Part.NONE]
    assert graph.edge_list().tolist() == [[0, 1], [1, 2]]


def test_whole_numbers_stay_numbers(tmp_path):
    nodes = "label,id,x\n3,70,1\n1,7,1\n,-5,1\n"
    graph = read_tables(*tables(tmp_path, nodes, "a,b\n70,7\n-5,7\n"))
    assert graph.node_ids.dtype == np.int64
    assert graph.node_ids.tolist() == [70, 7, -5]
    assert graph.labels.tolist() == [3, 1, -1]
    assert graph.edge_list().tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("ids", [["7", "07"], ["1", "one"], ["1", "99999999999999999999"]])
def test_ids_that_are_not_all_whole_numbers_are_text(tmp_path, ids):
    nodes = f"id,x\n{ids[0]},1\n{ids[1]},2\n"
    graph = read_tables(*tables(tmp_path, nodes, f"source,target\n{ids[0]},{ids[1]}\n"))
    assert graph.node_ids.tolist() == ids
    assert graph.labels.tolist() == [-1, -1]


def test_spreadsheet_habits_are_understood(tmp_path):
    nodes = '\ufeffid, x , "name, quoted"\r\n"a, b",1,2\r\n\r\nc,3,4\r\n'
    graph = read_tables(*tables(tmp_path, nodes, 'source,target\n"a, b", c\n'))
    assert graph.node_ids.tolist() == ["a, b", "c"]
    assert graph.edges == 1


def test_columns_of_edges_are_found_by_name(tmp_path):
    edges = "weight,target,source\n5,ann,bob\n"
    assert read_tables(*tables(tmp_path, NODES, edges)).edge_list().tolist() == [[0, 1]]


def test_class_names_fix_the_numbers(tmp_path):
    graph = read_tables(*tables(tmp_path), class_names=["dog", "eel", "cat"])
    assert graph.labels.tolist() == [2, 0, -1]
    assert graph.classes == 3
    with pytest.raises(InputError, match=r"n\.csv, line 3: .*a label of cat \(got 'dog'\)"):
        read_tables(*tables(tmp_path), class_names=["cat"])


def test_features_may_stand_in_a_file(tmp_path):
    nodes, edges = tables(tmp_path)
    dense = np.arange(6).reshape(3, 2)
    np.save(tmp_path / "x.npy", dense)
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(dense))
    assert (
        read_tables(nodes, edges, features=tmp_path / "x.npy").features.tolist() == dense.tolist()
    )
    sparse = read_tables(nodes, edges, features=tmp_path / "x.npz").features
    assert isinstance(sparse, sp.csr_array)
    assert sparse.toarray().tolist() == dense.tolist()


def test_our_own_folder_can_be_read_as_tables(tmp_path):
    write_graph(kite(), tmp_path / "kite")
    folder = tmp_path / "kite"
    graph = read_tables(
        folder / "nodes.csv", folder / "edges.csv", features=folder / "features.npz", name="kite"
    )
    assert np.array_equal(graph.indices, kite().indices)
    assert np.array_equal(graph.node_ids, kite().node_ids)


def test_files_of_features_are_checked(tmp_path):
    nodes, edges = tables(tmp_path)
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    with pytest.raises(InputError, match=r"x\.npy: expected a row for each of 3 nodes .*\(got 2\)"):
        read_tables(nodes, edges, features=tmp_path / "x.npy")
    sp.save_npz(tmp_path / "x.npz", sp.csc_array(np.ones((3, 2))))
    with pytest.raises(DataError, match=r"CSR array .*csc"):
        read_tables(nodes, edges, features=tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", indptr=[0, 1, 1, 1], indices=[9], data=[1.0], shape=[3, 2])
    with pytest.raises(DataError, match=r"x\.npz"):
        read_tables(nodes, edges, features=tmp_path / "x.npz")
    with pytest.raises(InputError, match=r"\.npz or \.npy file \(got 'x\.mat'\)"):
        read_tables(nodes, edges, features=tmp_path / "x.mat")
    with pytest.raises(DataError, match=r"y\.npy"):
        read_tables(nodes, edges, features=tmp_path / "y.npy")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("", "is empty; expected a first line with id,label,split"),
        ("id,x\n", "a header but no nodes"),
        ("name,x\na,1\n", r"line 1: expected a column 'id' \(got 'name,x'\)"),
        ("id,label\na,1\n", "no feature columns"),
        ("id,x\na,1\nb,2\na,3\n", r"line 4: expected an id that line 2 does not have \(got 'a'\)"),
        ("id,x\na,1\n,2\n", r"line 3: expected an id \(got ''\)"),
        ("id,x\na,1\nb,two\n", r"line 3: expected a number as feature 'x' \(got 'two'\)"),
        ("id,x,y\na,1,\n", r"line 2: expected a number as feature 'y' \(got ''\)"),
        ("id,x\na,1\n\nb,nan\n", r"line 4: expected a finite number as feature 'x' \(got 'nan'\)"),
        ("id,x\na,inf\n", "line 2: expected a finite number"),
        ("id,x,y\na,1,2\nb,1\n", r"line 3: expected 3 cells \(got '2'\)"),
        ("id,split,label,x\na,dev,1,1\n", r"line 2: expected a split .*\(got 'dev'\)"),
        ("id,split,label,x\na,train,,1\n", r"line 2: expected no split .*\(got 'train'\)"),
        ("id,x,x\na,1,1\n", "line 1: expected different names"),
        ('id,x\n"a,1\n', "is not a CSV file"),
    ],
)
def test_bad_nodes_are_named(tmp_path, nodes, message):
    with pytest.raises(InputError, match=r"n\.csv.*" + message):
        read_tables(*tables(tmp_path, nodes=nodes))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("", "is empty; expected a first line with source,target"),
        ("source\nann\n", r"line 1: expected two columns, source,target \(got 'source'\)"),
        (
            "source,target\nann,bob\nann,eve\n",
            r"line 3: expected an id from .*n\.csv \(got 'eve'\)",
        ),
        ("ann,bob\nbob,cy\n", r"line 1: expected the names source,target \(got 'ann,bob'\)"),
        ("source,target\nann\n", "line 2: expected 2 cells"),
    ],
)
def test_bad_edges_are_named(tmp_path, edges, message):
    with pytest.raises(InputError, match=r"e\.csv.*" + message):
        read_tables(*tables(tmp_path, edges=edges))


def test_files_that_are_not_there_or_not_text_are_named(tmp_path):
    nodes, edges = tables(tmp_path)
    with pytest.raises(InputError, match=r"absent\.csv cannot be read \(No such file"):
        read_tables(tmp_path / "absent.csv", edges)
    nodes.write_bytes(b"id,x\n\xff,1\n")
    with pytest.raises(InputError, match=r"n\.csv is not a CSV file in UTF-8"):
        read_tables(nodes, edges)


def test_a_table_without_edges_is_a_graph(tmp_path):
    assert read_tables(*tables(tmp_path, edges="source,target\n")).edges == 0
