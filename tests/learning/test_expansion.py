"""Nodes added to a graph of three."""

import numpy as np
import pytest
import scipy.sparse as sp

from feddep.federation.messages import pack, unpack
from feddep.graph.graph import Graph, Part
from feddep.learning.expansion import expand, features_from, features_to, stacked

ROWS = np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0]], np.float32)
NEW = np.array([[0, 0.5, 0], [0.25, 0, -1]], np.float32)
# New node 0 belongs to the old nodes 0 and 2, new node 1 to the old node 2.
LINKS = np.array([[0, 0], [2, 0], [2, 1]])


def as_given(rows, sparse):
    return sp.csr_array(rows) if sparse else rows


def dense(features):
    return features.toarray() if sp.issparse(features) else features


def path(sparse=False):
    """0-1-2."""
    split = [Part.TRAIN, Part.VAL, Part.TEST]
    features = as_given(ROWS, sparse)
    return Graph.from_edges([[0, 1], [1, 2]], features, [0, 1, 0], classes=4, split=split)


def test_a_new_node_is_linked_both_ways_and_old_edges_stay():
    found = expand(path(), LINKS, NEW)
    lists = [found.indices[found.indptr[v] : found.indptr[v + 1]].tolist() for v in range(5)]
    assert lists == [[1, 3], [0, 2], [1, 3, 4], [0, 2], [2]]


def test_a_new_node_has_neither_label_nor_part_in_the_split():
    found = expand(path(), LINKS, NEW)
    assert found.labels.tolist() == [0, 1, 0, -1, -1]
    assert found.split.tolist() == [Part.TRAIN, Part.VAL, Part.TEST, Part.NONE, Part.NONE]
    assert found.classes == 4


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("new", [True, False])
def test_features_stand_below_the_old_ones_and_sparse_ones_stay_sparse(own, new):
    found = expand(path(sparse=own), LINKS, as_given(NEW, new)).features
    assert sp.issparse(found) == (own or new)
    assert dense(found).tolist() == [*ROWS.tolist(), *NEW.tolist()]


@pytest.mark.parametrize("sparse", [True, False])
def test_nothing_added_gives_the_same_graph(sparse):
    graph = path(sparse)
    found = expand(graph, np.empty((0, 2), np.int64), as_given(NEW[:0], sparse))
    assert found.nodes == 3
    assert found.edge_list().tolist() == graph.edge_list().tolist()
    assert dense(found.features).tolist() == ROWS.tolist()


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("rows", [ROWS, NEW, ROWS[:0], np.zeros((2, 3), np.float32)])
def test_features_survive_a_message(rows, sparse):
    sent = features_to(as_given(rows, sparse))
    assert set(sent) == ({"indptr", "indices", "data"} if sparse else {"rows"})
    _, arrays = unpack(pack({}, sent))
    found = features_from(arrays, 3)
    assert sp.issparse(found) == sparse
    assert found.shape == rows.shape
    assert found.dtype == np.float32
    assert np.array_equal(dense(found), rows)


def test_sets_of_nodes_are_stacked_in_order():
    assert stacked([ROWS, NEW]).tolist() == [*ROWS.tolist(), *NEW.tolist()]
    mixed = stacked([sp.csr_array(NEW), ROWS])
    assert mixed.toarray().tolist() == [*NEW.tolist(), *ROWS.tolist()]
