"""Somebody else's tables: what they say becomes a graph, and what is wrong is named by line."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from small_graphs import kite

from feddep.errors import DataError, InputError
from feddep.graph.folder import write_graph
from feddep.graph.graph import Part
from feddep.graph.tables import read_tables

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
