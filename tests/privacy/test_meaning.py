"""What ε and δ mean on a graph of a given size."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddep.graph.graph import Graph
from feddep.privacy.meaning import GraphSize, delta_to_set, largest_delta, meaning, real_share
from feddep.privacy.perturb import randomised_response

CLIENT = GraphSize(542, 945)  # of Cora, of five


@pytest.mark.parametrize(
    ("epsilon", "share"),
    [
        (0, 945 / 146_611),  # guessing
        (1, 691 / (691 + 39_176)),  # edges kept, and false edges
        (4, 928 / (928 + 2_620)),
        (8, 945 / (945 + 49)),
    ],
)
def test_shares_worked_by_hand(epsilon, share):
    assert real_share(epsilon, CLIENT) == pytest.approx(share, rel=2e-3)


def test_a_flipped_graph_shows_that_share():
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 300, (600, 2))
    graph = Graph.from_edges(edges, np.ones((300, 1), np.float32), np.zeros(300, int))
    true = set(map(tuple, graph.edge_list().tolist()))
    flipped = randomised_response(graph, 4.0, rng).edge_list().tolist()
    share = sum(tuple(edge) in true for edge in flipped) / len(flipped)
    expected = real_share(4.0, GraphSize(graph.nodes, graph.edges))
    spread = math.sqrt(expected * (1 - expected) / len(flipped))
    assert share == pytest.approx(expected, abs=4 * spread)


@given(st.floats(0, 20), st.integers(2, 10**6), st.floats(0, 1))
def test_it_is_a_share_that_epsilon_only_raises(epsilon, nodes, density):
    size = GraphSize(nodes, round(density * GraphSize(nodes).pairs))
    assert size.density * (1 - 1e-12) <= real_share(epsilon, size) <= 1


@pytest.mark.parametrize(
    ("epsilon", "size", "said"),
    [
        (4.0, CLIENT, "about 26 are real (guessing: 0.6)."),
        (1.0, CLIENT, "about 1.7 are real (guessing: 0.6)."),
        (20.0, CLIENT, "nearly all are real (guessing: 0.6)."),
        (0.0, GraphSize(3, 3), "nearly all are real (guessing: 100)."),
        (2.0, GraphSize(10**6, 5 * 10**6), "about 0.007 are real (guessing: 0.001)."),
    ],
)
def test_in_words(epsilon, size, said):
    assert meaning(epsilon, [size]).endswith(said)


@pytest.mark.parametrize(
    ("nodes", "most"), [(1, 1e-5), (2, 1e-5), (141, 1e-5), (542, 6.82e-7), (2708, 2.73e-8)]
)
def test_the_largest_delta(nodes, most):
    assert largest_delta(nodes) == pytest.approx(most, rel=2e-3)


@given(st.integers(1, 10**7))
def test_what_is_to_be_set_is_never_too_large_and_hardly_too_small(nodes):
    assert 0.9 * largest_delta(nodes) <= float(delta_to_set(nodes)) <= largest_delta(nodes)
