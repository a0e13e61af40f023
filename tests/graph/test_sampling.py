"""Neighbour sampling: its exact distribution, and the bookkeeping of the ego-graphs."""

from collections import Counter
from itertools import chain, combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from feddep.graph.graph import Graph
from feddep.graph.sampling import (
    NeighbourSampler,
    full_ego_graphs,
    separate_ego_graphs,
    whole_graph,
)


def graph_of(nodes, edges):
    return Graph.from_edges(edges, np.ones((nodes, 1)), np.zeros(nodes, int), classes=1)


def stars(count, leaves):
    """Stars side by side: centre i is node i, so one batch holds many lists of one length."""
    centres = np.repeat(np.arange(count), leaves)
    return graph_of(count * (leaves + 1), np.stack([centres, count + np.arange(len(centres))], 1))


def drawn_lists(leaves, fanout, seed, count=30_000):
    """Samples of ``{0, …, leaves-1}``, drawn as the neighbour lists of ``count`` centres."""
    sampler = NeighbourSampler(stars(count, leaves), fanout, layers=1)
    ego = sampler.sample(np.arange(count), np.random.default_rng(seed))
    leaf = ego.nodes[ego.blocks[0].indices] - count
    return (leaf % leaves).reshape(count, fanout)


def p_value(outcomes, possible):
    """Of the hypothesis that all possible outcomes are equally likely."""
    counts = Counter(outcomes)
    assert set(counts) <= set(possible)
    return chisquare([counts[outcome] for outcome in possible]).pvalue


# Two layers of two on the path 0-1-2-3 with a lonely node 4.
PATH = graph_of(5, [(0, 1), (1, 2), (2, 3)])


def ego_graphs(nodes=PATH, seeds=(0, 4), fanout=2, layers=2, seed=0):
    return NeighbourSampler(nodes, fanout, layers).sample(
        np.array(seeds, dtype=np.int64), np.random.default_rng(seed)
    )


class TestDistribution:
    @pytest.mark.parametrize(("leaves", "fanout"), [(2, 1), (4, 3), (5, 2), (6, 5), (7, 3)])
    def test_a_long_list_gives_every_subset_equally_often(self, leaves, fanout):
        lists = drawn_lists(leaves, fanout, seed=leaves * 10 + fanout)
        subsets = [tuple(sorted(row)) for row in lists.tolist()]
        assert p_value(subsets, list(combinations(range(leaves), fanout))) > 0.001

    @pytest.mark.parametrize(("leaves", "fanout"), [(2, 2), (3, 3), (2, 5), (3, 4), (4, 4)])
    def test_a_short_list_gives_every_tuple_equally_often(self, leaves, fanout):
        lists = drawn_lists(leaves, fanout, seed=leaves * 10 + fanout)
        tuples = [tuple(row) for row in lists.tolist()]
        assert p_value(tuples, list(product(range(leaves), repeat=fanout))) > 0.001

    def test_the_check_notices_a_neighbour_that_is_a_tenth_more_likely(self):
        favour = np.log([1.1, 1, 1, 1, 1])
        keys = favour + np.random.default_rng(0).gumbel(size=(30_000, 5))
        subsets = [tuple(sorted(row)) for row in np.argsort(keys)[:, -2:].tolist()]
        assert p_value(subsets, list(combinations(range(5), 2))) < 1e-6

    def test_the_check_notices_lists_without_replacement(self):
        # What the authors' code does where the theorem needs repeats.
        rng = np.random.default_rng(0)
        tuples = [tuple(rng.permutation(3).tolist()) for _ in range(30_000)]
        assert p_value(tuples, list(product(range(3), repeat=3))) < 1e-9

    def test_two_layers_draw_independently_for_the_same_node(self):
        count = 20_000
        sampler = NeighbourSampler(stars(count, 3), fanout=1, layers=2)
        ego = sampler.sample(np.arange(count), np.random.default_rng(3))
        drawn = [(ego.nodes[block.indices[:count]] - count) % 3 for block in ego.blocks]
        pairs = list(zip(*(layer.tolist() for layer in drawn), strict=True))
        assert p_value(pairs, list(product(range(3), repeat=2))) > 0.001


class TestEgoGraphs:
    def test_an_isolated_node_has_an_empty_list(self):
        ego = ego_graphs(seeds=(4,))
        assert ego.nodes.tolist() == [4]
        for block in ego.blocks:
            assert (block.targets, block.indptr.tolist(), block.indices.tolist()) == (1, [0, 0], [])

    def test_a_node_with_one_neighbour_gets_it_as_often_as_asked(self):
        ego = ego_graphs(seeds=(0,), fanout=3, layers=1)
        assert ego.nodes.tolist() == [0, 1]
        assert ego.blocks[0].indices.tolist() == [1, 1, 1]

    def test_the_same_stream_gives_the_same_sample(self):
        one, same, other = ego_graphs(seed=1), ego_graphs(seed=1), ego_graphs(seed=2)
        assert np.array_equal(one.blocks[0].indices, same.blocks[0].indices)
        assert not np.array_equal(one.blocks[0].indices, other.blocks[0].indices)

    def test_no_seeds_give_an_empty_sample(self):
        ego = ego_graphs(seeds=())
        assert len(ego.nodes) == 0
        assert [block.targets for block in ego.blocks] == [0, 0]

    def test_node_numbers_that_collide_in_the_table_are_told_apart(self):
        # Multiples of the table's size all fall on its first slot.
        leaves = [1024 * i for i in range(1, 8)]
        star = graph_of(8 * 1024, [(0, leaf) for leaf in leaves])
        ego = ego_graphs(star, seeds=(0, 1024, 2048), fanout=4, layers=1)
        assert ego.nodes[:3].tolist() == [0, 1024, 2048]
        assert set(ego.nodes[ego.blocks[0].indices[:4]]) <= set(leaves)
        assert ego.nodes[ego.blocks[0].indices[4:]].tolist() == [0] * 8

    def test_the_whole_graph_is_every_list_in_every_layer(self):
        ego = whole_graph(PATH, layers=3)
        assert ego.nodes.tolist() == [0, 1, 2, 3, 4]
        assert len(ego.blocks) == 3
        for block in ego.blocks:
            assert block.targets == 5
            assert block.indptr.tolist() == [0, 1, 3, 5, 6, 6]
            assert block.indices.tolist() == [1, 0, 2, 1, 3, 2]

    def test_full_ego_graphs_hold_every_neighbour_within_reach(self):
        ego = full_ego_graphs(PATH, np.array([0, 4]), layers=2)
        assert ego.nodes.tolist() == [0, 4, 1, 2]
        assert ego.targets.tolist() == [0, 4]
        outer, inner = ego.blocks
        assert (inner.indptr.tolist(), inner.indices.tolist()) == ([0, 1, 1], [2])
        assert (outer.indptr.tolist(), outer.indices.tolist()) == ([0, 1, 1, 3], [2, 0, 3])

    def test_separate_ego_graphs_share_no_node(self):
        ego, owner = separate_ego_graphs(PATH, np.array([0, 1]), layers=2)
        assert ego.nodes.tolist() == [0, 1, 1, 0, 2, 2, 3]
        assert owner.tolist() == [0, 1, 0, 1, 1, 0, 1]
        outer, inner = ego.blocks
        assert (inner.indptr.tolist(), inner.indices.tolist()) == ([0, 1, 3], [2, 3, 4])
        assert outer.indptr.tolist() == [0, 1, 3, 5, 6, 8]
        assert outer.indices.tolist() == [2, 3, 4, 0, 5, 1, 1, 6]


class TestBatches:
    def batches(self, nodes, size, seed=0):
        sampler = NeighbourSampler(PATH, fanout=2, layers=2)
        egos = list(sampler.batches(np.array(nodes), size, np.random.default_rng(seed)))
        return [ego.nodes[: ego.blocks[-1].targets].tolist() for ego in egos]

    def test_every_node_comes_once(self):
        batches = self.batches([0, 2, 3, 4, 1], size=2)
        assert [len(batch) for batch in batches] == [2, 2, 1]
        assert sorted(chain(*batches)) == [0, 1, 2, 3, 4]

    def test_the_order_is_random(self):
        orders = {tuple(self.batches([0, 1, 2], 3, seed)[0]) for seed in range(60)}
        assert len(orders) == 6

    def test_a_silo_without_nodes_has_no_batch(self):
        assert self.batches(np.empty(0, np.int64), size=2) == []


@st.composite
def samples(draw):
    """A small graph, some of its nodes, a fan-out and a depth."""
    nodes = draw(st.integers(1, 12))
    node = st.integers(0, nodes - 1)
    graph = graph_of(nodes, draw(st.lists(st.tuples(node, node), max_size=30)))
    seeds = draw(st.lists(node, unique=True))
    fanout, layers, seed = draw(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 99)))
    return graph, seeds, fanout, ego_graphs(graph, seeds, fanout, layers, seed)


def sources_of(ego):
    """The number of sources of each block, in the order of computation."""
    return [len(ego.nodes), *(block.targets for block in ego.blocks[:-1])]


class TestEverySample:
    @given(samples())
    def test_sources_start_with_the_targets_and_hold_no_node_twice(self, sample):
        _, seeds, _, ego = sample
        assert ego.nodes[: len(seeds)].tolist() == seeds
        assert len(set(ego.nodes.tolist())) == len(ego.nodes)
        assert ego.blocks[-1].targets == len(seeds)
        sizes = [*sources_of(ego), len(seeds)]
        assert all(outer >= inner for outer, inner in pairwise(sizes))

    @given(samples())
    def test_positions_are_valid_and_every_further_source_is_used(self, sample):
        _, _, _, ego = sample
        for block, sources in zip(ego.blocks, sources_of(ego), strict=True):
            assert len(block.indptr) == block.targets + 1
            assert block.indptr[-1] == len(block.indices)
            assert ((block.indices >= 0) & (block.indices < sources)).all()
            assert set(range(block.targets, sources)) <= set(block.indices.tolist())

    @given(samples())
    def test_lists_hold_real_neighbours_as_many_as_asked(self, sample):
        graph, _, fanout, ego = sample
        for block in ego.blocks:
            for target in range(block.targets):
                node = ego.nodes[target]
                real = graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist()
                drawn = ego.nodes[block.indices[block.indptr[target] : block.indptr[target + 1]]]
                assert len(drawn) == (fanout if real else 0)
                assert set(drawn) <= set(real)
                if fanout < len(real):
                    assert len(set(drawn)) == fanout
