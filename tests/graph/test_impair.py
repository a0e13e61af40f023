import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddep.graph.graph import Graph
from feddep.graph.impair import impair


class Choose:
    """A generator that hides the nodes it is told to."""

    def __init__(self, nodes):
        self.nodes = nodes

    def choice(self, pool, size, replace):
        assert size == len(self.nodes)
        assert not replace
        return np.array(self.nodes)


@pytest.fixture
def house():
    #   4
    #  / \
    # 0 - 1
    # |   |
    # 3 - 2
    edges = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 4], [1, 4]]
    return Graph.from_edges(edges, np.eye(5), [0] * 5)


def test_what_the_remaining_nodes_miss_is_told(house):
    found = impair(house, np.arange(5), 0.4, Choose([1, 3]))
    assert found.remaining.tolist() == [0, 2, 4]
    assert found.missing_degree.tolist() == [2, 2, 1]
    lists = np.split(found.hidden, found.start[1:-1])
    assert [part.tolist() for part in lists] == [[1, 3], [1, 3], [1]]
    assert found.graph.edge_list().tolist() == [[0, 2]]


def test_only_the_pool_is_hidden(house):
    for seed in range(5):
        found = impair(house, np.array([3, 4]), 0.5, np.random.default_rng(seed))
        assert {0, 1, 2} < set(found.remaining.tolist())
        assert len(found.remaining) == 4


def test_one_node_always_remains(house):
    assert len(impair(house, np.arange(5), 1.0, np.random.default_rng(0)).remaining) == 1


@given(st.integers(0, 1000), st.floats(0.1, 0.9))
def test_kept_and_missing_edges_are_all_edges_of_the_remaining_nodes(seed, share):
    rng = np.random.default_rng(seed)
    graph = Graph.from_edges(rng.integers(0, 12, (20, 2)), np.eye(12), [0] * 12)
    found = impair(graph, np.arange(12), share, rng)
    np.testing.assert_array_equal(
        found.graph.degrees + found.missing_degree, graph.degrees[found.remaining]
    )
    assert not set(found.hidden.tolist()) & set(found.remaining.tolist())
