"""The graph type, on literal graphs small enough to check by eye."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from feddep.errors import InputError
from feddep.graph.graph import Graph, Part

# A triangle 0-1-2 with a tail 2-3, and a lonely node 4.
EDGES = [(0, 1), (1, 2), (0, 2), (2, 3)]
FEATURES = [[1, 0], [0, 1], [1, 1], [0, 0], [2, 2]]
LABELS = [0, 0, 1, 1, -1]
SPLIT = [Part.TRAIN, Part.VAL, Part.TEST, Part.TRAIN, Part.NONE]


def kite(**changes: object) -> Graph:
    given = {"edges": EDGES, "features": FEATURES, "labels": LABELS, "split": SPLIT} | changes
    return Graph.from_edges(**given)  # type: ignore[arg-type]


def parts(**changes: object) -> dict[str, object]:
    """The constructor's arguments for the path 0-1-2."""
    good: dict[str, object] = {
        "indptr": np.array([0, 1, 3, 4]),
        "indices": np.array([1, 0, 2, 1], np.int32),
        "features": np.ones((3, 2), np.float32),
        "labels": np.array([0, 1, 0]),
        "classes": 2,
        "node_ids": np.arange(3),
        "split": np.zeros(3, np.int8),
    }
    return good | changes


def test_neighbour_lists_are_sorted_and_both_ways():
    graph = kite()
    assert graph.indptr.tolist() == [0, 2, 4, 7, 8, 8]
    assert graph.indices.tolist() == [1, 2, 0, 2, 0, 1, 3, 2]


def test_counts():
    graph = kite()
    assert (graph.nodes, graph.edges, graph.feature_count, graph.classes) == (5, 4, 2, 2)
    assert graph.degrees.tolist() == [2, 2, 3, 1, 0]
    assert repr(graph) == "Graph('graph', nodes=5, edges=4, features=2, classes=2)"


def test_direction_repeats_and_self_loops_are_dropped():
    messy = [*EDGES, (1, 0), (2, 0), (0, 1), (3, 3)]
    assert np.array_equal(kite(edges=messy).indices, kite().indices)


def test_a_graph_may_have_no_edges():
    graph = kite(edges=[])
    assert graph.edges == 0
    assert graph.edge_list().shape == (0, 2)


def test_edge_list_names_every_edge_once():
    assert kite().edge_list().tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]


def test_split_members_and_mask():
    graph = kite()
    assert graph.members(Part.TRAIN).tolist() == [0, 3]
    assert graph.mask(Part.TEST).tolist() == [False, False, True, False, False]


def test_with_split_changes_nothing_else():
    graph = kite().with_split([0, 0, 0, 1, 0])
    assert graph.members(Part.TRAIN).tolist() == [3]
    assert graph.edge_list().tolist() == kite().edge_list().tolist()


@pytest.mark.parametrize("features", [FEATURES, sp.csr_array(np.array(FEATURES))])
def test_subgraph_renumbers_in_the_order_given(features):
    graph = kite(features=features, node_ids=["a", "b", "c", "d", "e"])
    part = graph.subgraph([3, 2, 0], name="part")
    assert part.name == "part"
    assert part.edge_list().tolist() == [[0, 1], [1, 2]]  # d-c and c-a; a-b and b-c are gone
    assert part.node_ids.tolist() == ["d", "c", "a"]
    assert part.labels.tolist() == [1, 1, 0]
    assert part.split.tolist() == [Part.TRAIN, Part.TEST, Part.TRAIN]
    rows = part.features if isinstance(part.features, np.ndarray) else part.features.toarray()
    assert rows.tolist() == [[0, 0], [1, 1], [1, 0]]
    assert part.classes == graph.classes


def test_sparse_features_stay_sparse_and_dense_ones_dense():
    sparse = kite(features=sp.coo_array(np.array(FEATURES)))
    assert isinstance(sparse.features, sp.csr_array)
    assert sparse.features.dtype == np.float32
    assert isinstance(kite().features, np.ndarray)


def test_nbytes_adds_up_the_arrays():
    assert kite().nbytes == 6 * 8 + 8 * 4 + 10 * 4 + 5 * 8 + 5 * 8 + 5


@pytest.mark.parametrize("array", ["indptr", "indices", "features", "labels", "node_ids", "split"])
def test_arrays_cannot_be_changed(array):
    with pytest.raises(ValueError, match="read-only"):
        getattr(kite(), array)[0] = 1


@pytest.mark.parametrize("array", ["indptr", "indices", "data"])
def test_sparse_features_cannot_be_changed(array):
    graph = kite(features=sp.csr_array(np.array(FEATURES)))
    with pytest.raises(ValueError, match="read-only"):
        getattr(graph.features, array)[0] = 1


def test_the_callers_arrays_are_copied():
    features, labels = np.array(FEATURES, np.float32), np.array(LABELS)
    graph = kite(features=features, labels=labels)
    features[0], labels[0] = 9, 1
    assert graph.features[0].tolist() == [1, 0]
    assert graph.labels[0] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": [(0, 5)]}, r"edge \(0, 5\) names .* nodes are 0 to 4"),
        ({"edges": [(-1, 0)]}, r"edge \(-1, 0\) names"),
        ({"edges": [(0, 1, 2)]}, r"shape \(E, 2\)"),
        ({"edges": [(0.0, 1.0)]}, "whole numbers"),
        ({"features": [1, 2, 3, 4, 5]}, "nodes × columns"),
        ({"features": [["x"]] * 5}, "features must be numbers"),
        ({"features": [[1.0], [2.0], [np.nan], [4.0], [np.inf]]}, "2 values are NaN.*row 2"),
        ({"features": np.empty((5, 0))}, "expected features of 5 nodes"),
        ({"features": sp.csr_array([[0, 0], [0, np.inf], [0, 0], [0, 0], [0, 0]])}, "in row 1"),
        ({"labels": [0, 0, 1, 1]}, "a label and a part for each of 5 nodes"),
        ({"classes": 1}, "labels must be 0 to 0"),
        ({"labels": [0, 0, 1, 1, -2]}, "or -1 where unknown"),
        ({"split": [0, 0, 0, 0, 4]}, "the split must hold 0 to 3"),
        ({"split": [1, 1, 1, 1, 1]}, "node 4 has no label but is in the split"),
        ({"node_ids": [1, 2, 3]}, "one node id per node, 5"),
        ({"node_ids": ["a", "b", "c", "d", "b"]}, "'b' repeats"),
    ],
)
def test_what_makes_no_graph_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        kite(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indptr": np.array([0])}, "at least one node"),
        ({"indptr": np.array([0, 3, 1, 4])}, "indptr must rise"),
        ({"indptr": np.array([0, 1, 3, 3])}, "indptr must rise"),
        ({"indices": np.array([1, 2, 0, 1], np.int32)}, "sorted"),
        ({"indices": np.array([1, 0, 0, 1], np.int32)}, "without repeats"),
        ({"indices": np.array([1, 0, 3, 1], np.int32)}, "an edge names"),
        ({"indices": np.array([0, 0, 2, 1], np.int32)}, "self-loops"),
        ({"indices": np.array([2, 0, 2, 1], np.int32)}, "both directions"),
        ({"features": np.ones((3, 2))}, "float32"),
    ],
)
def test_the_constructor_checks_what_it_is_given(changes, message):
    Graph(**parts())  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        Graph(**parts(**changes))  # type: ignore[arg-type]


pairs = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=40)


@given(pairs)
def test_from_edges_keeps_exactly_the_undirected_edges(edges):
    graph = Graph.from_edges(edges, np.ones((8, 1)), np.zeros(8))
    wanted = {tuple(sorted(edge)) for edge in edges if edge[0] != edge[1]}
    found = [tuple(edge) for edge in graph.edge_list().tolist()]
    assert found == sorted(wanted)
    dense = np.zeros((8, 8), int)
    dense[np.repeat(np.arange(8), graph.degrees), graph.indices] += 1
    assert np.array_equal(dense, dense.T)
    assert graph.edges == len(wanted)
    assert graph.degrees.sum() == 2 * len(wanted)


@given(pairs, st.permutations(range(8)), st.integers(1, 8))
def test_subgraph_keeps_exactly_the_edges_inside(edges, order, size):
    graph = Graph.from_edges(edges, np.arange(8.0)[:, None], np.zeros(8))
    chosen = order[:size]
    part = graph.subgraph(chosen)
    inside = {frozenset(e) for e in graph.edge_list().tolist() if set(e) <= set(chosen)}
    assert {frozenset(part.node_ids[e].tolist()) for e in part.edge_list()} == inside
    assert part.features[:, 0].tolist() == chosen


def test_node_ids_of_python_objects_are_refused():
    with pytest.raises(InputError, match=r"whole numbers or text \(got object\)"):
        Graph.from_edges([[0, 1]], np.eye(2), [0, 1], node_ids=np.array([1, "a"], dtype=object))
