"""The cap on occurrences: which lists it leaves, and that an edge touches no more than it says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddep.graph.graph import Graph
from feddep.graph.sampling import full_ego_graphs
from feddep.privacy.occurrences import capped_lists, touched_examples

NODES = 14


def graph_of(edges, nodes=NODES):
    return Graph.from_edges(edges, np.ones((nodes, 1), np.float32), np.zeros(nodes, int))


def capped(graph, most, keys):
    """The lists under a number for every ordered pair: the coupling of the proof."""
    node = np.repeat(np.arange(graph.nodes), graph.degrees)
    return capped_lists(graph, most, keys[node, graph.indices])


def as_sets(lists):
    return [set(lists.indices[a:b]) for a, b in zip(lists.indptr, lists.indptr[1:], strict=False)]


def what_is_read(graph, inner, node, hops):
    ego = full_ego_graphs(graph, np.array([node]), hops, inner)
    blocks = [(block.indptr.tolist(), block.indices.tolist()) for block in ego.blocks]
    return ego.nodes.tolist(), blocks


def changed(graph, edge, most, hops, keys):
    """Nodes whose example is another one with the edge than without."""
    more = graph.with_edges([*graph.edge_list().tolist(), edge])
    before, after = capped(graph, most, keys), capped(more, most, keys)
    return [
        node
        for node in range(graph.nodes)
        if what_is_read(graph, before, node, hops) != what_is_read(more, after, node, hops)
    ]


@pytest.mark.parametrize(
    ("occurrences", "hops", "touched"),
    [(1, 1, 2), (9, 1, 2), (1, 2, 4), (2, 2, 6), (3, 2, 8), (5, 2, 12), (10, 2, 22), (2, 3, 14)],
)
def test_touched_examples_worked_by_hand(occurrences, hops, touched):
    assert touched_examples(occurrences, hops) == touched


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 60))
def test_no_node_occurs_more_often_than_it_may(seed, most, edges):
    rng = np.random.default_rng(seed)
    graph = graph_of(rng.integers(0, NODES, (edges, 2)))
    lists = capped(graph, most, rng.random((NODES, NODES)))
    occurs = np.bincount(lists.indices, minlength=NODES)
    np.testing.assert_array_equal(occurs, np.minimum(graph.degrees, most))
    full = as_sets(graph)
    assert all(some <= whole for some, whole in zip(as_sets(lists), full, strict=True))


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 3), st.integers(5, 60))
def test_an_edge_changes_no_more_examples_than_it_is_priced_for(seed, most, hops, edges):
    rng = np.random.default_rng(seed)
    graph = graph_of(rng.integers(0, NODES, (edges, 2)))
    a, b = rng.choice(NODES, 2, replace=False).tolist()
    if b in as_sets(graph)[a]:
        return
    found = changed(graph, [a, b], most, hops, rng.random((NODES, NODES)))
    assert len(found) <= touched_examples(most, hops)
    assert {a, b} <= set(found)


def test_the_number_is_reached():
    """Each end of the edge is named by K others, and by these alone."""
    for most in (1, 2, 3):
        edges = [[0, 2 + i] for i in range(most)] + [[1, 2 + most + i] for i in range(most)]
        keys = np.zeros((NODES, NODES))
        keys[0, 1] = keys[1, 0] = 1  # the new edge takes nobody's place
        assert len(changed(graph_of(edges), [0, 1], most, 2, keys)) == touched_examples(most, 2)


def test_without_a_cap_an_edge_touches_all_that_a_hub_touches():
    hub = [[0, i] for i in range(2, NODES)]
    keys = np.random.default_rng(0).random((NODES, NODES))
    assert len(changed(graph_of(hub), [0, 1], NODES, 2, keys)) == NODES
    assert len(changed(graph_of(hub), [0, 1], 2, 2, keys)) <= touched_examples(2, 2)


def test_who_keeps_a_node_is_left_to_chance():
    star = graph_of([[0, i] for i in range(1, 6)], nodes=6)
    rng = np.random.default_rng(0)
    counts = np.zeros(6)
    for _ in range(2000):
        lists = as_sets(capped_lists(star, 2, rng.random(len(star.indices))))
        counts += [0 in own for own in lists]
    assert counts[1:] == pytest.approx(2000 * 2 / 5, abs=5 * (2000 * 0.24) ** 0.5)


def test_only_inner_hops_read_capped_lists():
    path = graph_of([[0, 1], [1, 2], [2, 3]], nodes=4)
    nobody = capped_lists(path, 0, np.zeros(len(path.indices)))
    ego = full_ego_graphs(path, np.array([1]), 2, nobody)
    assert ego.nodes.tolist() == [1, 0, 2]  # the whole list of node 1 itself, and no more
    assert [block.targets for block in ego.blocks] == [1, 1]
    assert ego.blocks[1].indices.tolist() == []
    one = full_ego_graphs(path, np.array([1]), 1, nobody)
    assert one.nodes.tolist() == [1, 0, 2]
