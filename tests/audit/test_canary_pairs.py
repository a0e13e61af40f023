"""Canaries and decoys: who they are and what they must not be."""

import numpy as np
import pytest

from feddep.audit.pairs import Pairs, draw_canaries, draw_decoys, with_edges
from feddep.graph.graph import Graph, Part


@pytest.fixture
def graphs(small_shards):
    return list(small_shards)


def is_edge(graph, ends):
    u, v = ends
    return v in graph.indices[graph.indptr[u] : graph.indptr[u + 1]]


def as_set(pairs):
    return {(c, *ends) for c, ends in zip(pairs.client.tolist(), pairs.ends.tolist(), strict=True)}


def test_canaries_are_disjoint_pairs_that_are_no_edges(graphs):
    found = draw_canaries(graphs, None, np.random.default_rng(0))
    assert not any(
        is_edge(graphs[c], ends) for c, ends in zip(found.client, found.ends, strict=True)
    )
    for client, graph in enumerate(graphs):
        nodes = found.ends[found.client == client]
        assert len(np.unique(nodes)) == nodes.size >= graph.nodes - 4
        assert nodes.max() < graph.nodes


def test_asked_for_fewer_those_with_training_nodes_are_taken(graphs):
    found = draw_canaries(graphs, 15, np.random.default_rng(0))
    assert len(found) == 15
    for client, ends in zip(found.client, found.ends, strict=True):
        assert (graphs[client].split[ends] == Part.TRAIN).all()


def test_a_complete_graph_has_no_room_for_canaries():
    edges = [[u, v] for u in range(4) for v in range(u)]
    complete = Graph.from_edges(edges, np.eye(4), [0, 1, 0, 1], split=[1, 1, 2, 3])
    assert len(draw_canaries([complete], None, np.random.default_rng(0))) == 0


def test_decoys_are_new_pairs_of_the_canaries_nodes_disjoint_in_each_batch(graphs):
    canaries = draw_canaries(graphs, 30, np.random.default_rng(0))
    decoys = draw_decoys(graphs, canaries, 200, np.random.default_rng(1))
    assert len(decoys) >= 200
    assert len(as_set(decoys)) == len(decoys)
    assert not as_set(decoys) & as_set(canaries)
    assert not any(
        is_edge(graphs[c], ends) for c, ends in zip(decoys.client, decoys.ends, strict=True)
    )
    for client in range(len(graphs)):
        own = decoys.where(decoys.client == client)
        assert np.isin(own.ends, canaries.ends[canaries.client == client]).all()
        for batch in np.unique(own.batch):
            nodes = own.ends[own.batch == batch]
            assert len(np.unique(nodes)) == nodes.size
    assert decoys.batch.min() > canaries.batch.max()  # or a batch would not be disjoint


def test_a_graph_too_small_for_so_many_decoys_gives_what_it_has(graphs):
    canaries = draw_canaries(graphs, 3, np.random.default_rng(0))
    assert len(draw_decoys(graphs, canaries, 1000, np.random.default_rng(1))) < 20


def test_edges_are_put_in_at_the_client_and_nowhere_else(small_shards, graphs):
    canaries = draw_canaries(graphs, 20, np.random.default_rng(0))
    included = np.arange(20) % 2 == 0
    planted = with_edges(small_shards, canaries.where(included))
    assert planted.graph.edges == small_shards.graph.edges + 10
    assert np.array_equal(planted.owner, small_shards.owner)
    for client, ends, there in zip(canaries.client, canaries.ends, included, strict=True):
        assert is_edge(planted[client], ends) == there
    nothing = with_edges(small_shards, canaries.where(np.zeros(20, bool)))
    assert np.array_equal(nothing.graph.indices, small_shards.graph.indices)


def test_pairs_can_be_joined_and_chosen():
    one = Pairs(np.array([0]), np.array([[1, 2]]), np.array([0]))
    both = Pairs.joined([one, one])
    assert len(both) == 2
    assert len(both.where(np.array([True, False]))) == 1
