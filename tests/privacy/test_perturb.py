"""Mechanisms that act on the graph: exact rates, valid graphs, cost and refusals."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.privacy import perturb
from feddep.privacy.perturb import (
    bernoulli_positions,
    one_shot,
    perturbed,
    randomised_response,
    sparse_response,
)
from feddep.privacy.response import smallest_create
from feddep.privacy.sampling import one_shot_delta
from feddep.privacy.spec import PrivacySpec

NODES = 40


def graph_of(edges, nodes=NODES):
    return Graph.from_edges(edges, np.ones((nodes, 1), np.float32), np.zeros(nodes, int))


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    edges = rng.integers(0, NODES, (90, 2))
    return graph_of(edges[edges[:, 0] != edges[:, 1]])


def matrix(graph):
    found = np.zeros((graph.nodes, graph.nodes), bool)
    found[np.repeat(np.arange(graph.nodes), graph.degrees), graph.indices] = True
    return found


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_pairs_are_flipped_at_the_rate_that_epsilon_fixes(graph, epsilon):
    upper = np.triu_indices(NODES, 1)
    true = matrix(graph)[upper]
    lost = added = runs = 0
    for seed in range(60):
        found = matrix(randomised_response(graph, epsilon, np.random.default_rng(seed)))[upper]
        lost += int((true & ~found).sum())
        added += int((~true & found).sum())
        runs += 1
    p = 1 / (1 + math.exp(epsilon))
    assert binomtest(lost, runs * int(true.sum()), p).pvalue > 1e-4
    assert binomtest(added, runs * int((~true).sum()), p).pvalue > 1e-4


@pytest.mark.parametrize(
    ("epsilon", "keep"), [(1.0, 0.2), (2.0, 0.5), (4.0, 0.9), (1.0, 0.8), (2.0, 0.95)]
)
def test_the_sparse_form_keeps_and_creates_edges_at_its_two_rates(graph, epsilon, keep):
    upper = np.triu_indices(NODES, 1)
    true = matrix(graph)[upper]
    kept = created = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        found = matrix(sparse_response(graph, epsilon, keep, rng))[upper]
        kept += int((true & found).sum())
        created += int((~true & found).sum())
    create = smallest_create(epsilon, keep)
    assert binomtest(kept, 60 * int(true.sum()), keep).pvalue > 1e-4
    assert binomtest(created, 60 * int((~true).sum()), create).pvalue > 1e-4


def test_every_pair_has_its_own_coin_in_the_sparse_form(graph):
    counts = np.zeros((NODES, NODES), int)
    for seed in range(400):
        counts += matrix(sparse_response(graph, 1.0, 0.5, np.random.default_rng(seed)))
    upper = np.triu_indices(NODES, 1)
    rates = np.where(matrix(graph), 0.5, smallest_create(1.0, 0.5))
    spread = (counts - 400 * rates)[upper] / np.sqrt(400 * rates * (1 - rates))[upper]
    assert np.abs(spread).max() < 5
    assert spread.std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("epsilon", "digest"),
    [(0.5, "e51de140d8fbd3a7"), (2.0, "6f9f81adc7b053d9"), (8.0, "3a6e962582368988")],
)
def test_the_symmetric_form_gives_the_graphs_that_stored_records_were_made_with(
    graph, epsilon, digest
):
    spec = PrivacySpec(mechanism="randomised-response", epsilon=epsilon)
    found = perturbed(graph, spec, 5, np.random.default_rng(7))
    content = found.indptr.astype("<i8").tobytes() + found.indices.astype("<i4").tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == digest


def test_the_spec_asks_for_the_sparse_form(graph):
    spec = PrivacySpec(mechanism="randomised-response", epsilon=2.0, keep_edge=0.3)
    found = perturbed(graph, spec, 5, np.random.default_rng(0))
    expected = sparse_response(graph, 2.0, 0.3, np.random.default_rng(0))
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert found.features is graph.features


def test_flips_of_different_pairs_are_independent(graph):
    rows = [
        matrix(randomised_response(graph, 0.0, np.random.default_rng(seed)))[0, 1:]
        for seed in range(400)
    ]
    correlation = np.corrcoef(np.array(rows).T) - np.eye(NODES - 1)
    assert np.abs(correlation).max() < 5 / math.sqrt(400)


def test_the_rest_of_the_graph_stays(graph):
    found = randomised_response(graph, 1.0, np.random.default_rng(0))
    assert found.features is graph.features
    np.testing.assert_array_equal(found.labels, graph.labels)
    np.testing.assert_array_equal(found.split, graph.split)


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_tiny_graphs_work(nodes):
    found = [
        randomised_response(graph_of([], nodes), 0.1, np.random.default_rng(seed)).edges
        for seed in range(20)
    ]
    assert max(found) <= nodes * (nodes - 1) // 2
    assert (max(found) > 0) == (nodes > 1)


def test_hardly_any_noise_leaves_the_graph_alone(graph):
    found = randomised_response(graph, 40.0, np.random.default_rng(0))
    np.testing.assert_array_equal(found.indices, graph.indices)


def test_too_many_flips_are_refused_with_the_smallest_epsilon_that_fits(graph, monkeypatch):
    monkeypatch.setattr(perturb, "MOST_FLIPS", 50)
    with pytest.raises(InputError, match="use ε of at least") as caught:
        randomised_response(graph, 1.0, np.random.default_rng(0))
    least = float(str(caught.value).rsplit(" ", 1)[1])
    pairs = NODES * (NODES - 1) / 2
    assert pairs / (1 + math.exp(least)) == pytest.approx(50, rel=0.05)
    randomised_response(graph, least + 0.01, np.random.default_rng(0))


@pytest.mark.parametrize("keep", [0.2, 0.5])
def test_the_sparse_form_is_refused_with_what_fits(graph, monkeypatch, keep):
    monkeypatch.setattr(perturb, "MOST_FLIPS", 20)
    with pytest.raises(InputError, match="use ε of at least") as caught:
        sparse_response(graph, 1.0, keep, np.random.default_rng(0))
    words = str(caught.value).replace(")", "").split()
    least, most = float(words[-1]), float(words[words.index("most") + 1])
    pairs = NODES * (NODES - 1) / 2
    assert pairs * smallest_create(least, keep) == pytest.approx(20, rel=0.01)
    sparse_response(graph, least, keep, np.random.default_rng(0))
    sparse_response(graph, 1.0, most, np.random.default_rng(0))


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_the_sparse_form_works_on_tiny_graphs(nodes):
    for edges in ([], [[0, 1]] * (nodes > 1)):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            found = sparse_response(graph_of(edges, nodes), 0.1, 0.5, rng)
            assert found.edges <= nodes * (nodes - 1) // 2


def test_randomised_response_needs_its_epsilon(graph):
    spec = PrivacySpec(mechanism="randomised-response")
    with pytest.raises(InputError, match="--epsilon"):
        perturbed(graph, spec, 5, np.random.default_rng(0))


@pytest.mark.parametrize("mechanism", ["nfdp", "dp-sgd", "none"])
def test_other_mechanisms_leave_the_graph_as_it_is(graph, mechanism):
    spec = PrivacySpec(mechanism=mechanism)
    assert perturbed(graph, spec, 5, np.random.default_rng(0)) is graph


@given(st.integers(0, 400), st.floats(0.01, 0.99), st.integers(0, 9))
def test_positions_ascend_below_the_end(count, p, seed):
    found = bernoulli_positions(count, p, np.random.default_rng(seed))
    assert (np.diff(found) > 0).all()
    assert ((found >= 0) & (found < count)).all()


@pytest.mark.parametrize("at_once", [1, 7])
def test_flips_drawn_some_at_a_time_are_the_same(graph, monkeypatch, at_once):
    def results():
        rngs = [np.random.default_rng(seed) for seed in range(20)]
        return [matrix(randomised_response(graph, 1.0, rng)) for rng in rngs]

    together = results()
    monkeypatch.setattr(perturb, "_AT_ONCE", at_once)
    assert all(map(np.array_equal, together, results()))


def test_every_position_has_the_same_chance():
    counts = np.zeros(10)
    for seed in range(2000):
        counts[bernoulli_positions(10, 0.3, np.random.default_rng(seed))] += 1
    assert all(binomtest(int(count), 2000, 0.3).pvalue > 1e-4 for count in counts)


def test_a_one_shot_sample_keeps_an_edge_that_either_end_drew():
    # Two hubs of degree 9 that share an edge; every other node is a leaf and shows its one edge.
    edges = [[0, 1], *([0, k] for k in range(2, 10)), *([1, k] for k in range(10, 18))]
    graph = graph_of(edges)
    kept = 0
    for seed in range(500):
        found = matrix(one_shot(graph, 3, np.random.default_rng(seed)))
        assert found.sum() >= 2 * 16
        kept += int(found[0, 1])
    delta = one_shot_delta(9, 3)
    assert binomtest(kept, 500, 1 - (1 - delta) ** 2).pvalue > 1e-4
