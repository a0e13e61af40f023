"""Noised sums: what one edge, or several of one node, can change; price, noise and numbers."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import kstest, norm

from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.privacy.accountant import price
from feddep.privacy.aggregation import (
    edge_epsilon,
    exact_sums,
    noised_hop,
    noised_sums,
    sensitivity,
    sums_epsilon,
    sums_event,
    unit_rows,
    whole_rows,
)
from feddep.privacy.audit_statistics import guess
from feddep.privacy.events import Message, NoisedSums
from feddep.privacy.secret_stream import SecretStream
from feddep.privacy.spec import PrivacySpec
from feddep.seeding import Seeds

UNIT = 2**20
HOUSE = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)]
NODES = 5
SAME = np.tile([1.0, 0.0], (NODES, 1))  # all rows alike: changes add up
OTHERS = np.random.default_rng(0).standard_normal((NODES, 2))


def graph_of(edges, nodes=NODES):
    return Graph.from_edges(list(edges), np.ones((nodes, 1), np.float32), np.zeros(nodes, int))


def spec_of(epsilon=4.0, delta=1e-7, **parameters):
    return PrivacySpec(
        mechanism="aggregation-perturbation", epsilon=epsilon, delta=delta, **parameters
    )


class TestSums:
    def test_a_path_by_hand(self):
        rows = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]])
        found = noised_hop(graph_of([(0, 1), (1, 2)], 3), rows, 1.0, None)
        assert found == pytest.approx(np.array([[0, 1], [1.6, 0.8], [0, 1]]), abs=3e-6)

    def test_a_hop_sums_what_the_hop_before_left(self):
        graph = graph_of(HOUSE)
        first, second = noised_sums(graph, OTHERS, 2, 0.5, Seeds(1).stream)
        assert np.linalg.norm(first, axis=1) == pytest.approx(np.ones(NODES))
        alone = noised_hop(graph, first, 0.5, Seeds(1).stream)
        assert np.array_equal(second, unit_rows(alone))

    def test_the_order_of_the_nodes_does_not_change_a_bit(self):
        """So nothing is told by how a sum was rounded."""
        rng = np.random.default_rng(2)
        graph = graph_of([(0, v) for v in range(1, 300)], 300)
        rows = rng.standard_normal((300, 3))
        order = np.concatenate([[0], 1 + rng.permutation(299)])
        there = exact_sums(graph.subgraph(order), whole_rows(rows[order]))
        assert np.array_equal(there[0], exact_sums(graph, whole_rows(rows))[0])


def largest_change(rows, changed_edges):
    """Over all graphs of a few, and all changes of so many edges at one node: brute force."""
    most = 0.0
    for edges in (HOUSE, [], [(0, 1), (0, 2), (0, 3), (0, 4)], list(combinations(range(5), 2))):
        before = exact_sums(graph_of(edges), whole_rows(rows))
        for v in range(NODES):
            own = [tuple(sorted((v, u))) for u in range(NODES) if u != v]
            for count in range(1, changed_edges + 1):
                for some in combinations(own, count):
                    after = graph_of({tuple(sorted(e)) for e in edges} ^ set(some))
                    change = exact_sums(after, whole_rows(rows)) - before
                    most = max(most, math.sqrt((change.astype(float) ** 2).sum()) / UNIT)
    return most


class TestSensitivity:
    @pytest.mark.parametrize(("edges", "bound"), [(1, 1.4142136), (2, 2.4494897), (3, 3.4641016)])
    def test_no_change_of_so_many_edges_goes_beyond_and_some_reach_it(self, edges, bound):
        assert sensitivity(edges) == pytest.approx(bound)
        assert largest_change(SAME, edges) == pytest.approx(bound, rel=1e-5)
        for rows in (SAME, OTHERS):
            assert largest_change(rows, edges) <= sensitivity(edges)

    def test_sampled_lists_would_not_bound_what_a_node_changes(self):
        """Why no promise is made for nodes of any degree: in a star, every list changes."""
        leaves = 20

        def sampled(edges):
            """Each node keeps its smallest neighbour, a rule that any seed may give."""
            kept = {}
            for u, v in sorted(edges):
                kept.setdefault(u, v)
                kept.setdefault(v, u)
            return kept

        pairs = [(v, v + 1) for v in range(1, leaves, 2)]
        star = [(0, v) for v in range(1, leaves + 1)]
        with_centre, without = sampled([*star, *pairs]), sampled(pairs)
        assert sum(with_centre.get(v) != without[v] for v in without) == leaves

    @given(
        arrays(
            np.float64,
            (4, 3),
            elements=st.one_of(
                st.floats(width=64), st.sampled_from([np.inf, -np.inf, np.nan, 1e308, 5e-324])
            ),
        )
    )
    @settings(max_examples=300, deadline=None)
    def test_no_row_is_longer_than_one_whatever_it_was(self, rows):
        found = whole_rows(rows)
        squares = [sum(int(x) ** 2 for x in row) for row in found]
        assert max(squares) <= UNIT**2
        usable = np.isfinite(rows).all(axis=1) & rows.any(axis=1)
        assert [square > 0.999 * UNIT**2 for square in squares] == usable.tolist()


def delta_of(epsilon, mu):
    """Balle and Wang 2018, theorem 8, written out again."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


class TestPrice:
    @pytest.mark.parametrize(
        ("noise", "hops", "edges"), [(2.0, 1, 1), (3.0, 2, 1), (20.0, 1, 10), (50.0, 3, 10)]
    )
    def test_it_is_that_of_one_gaussian(self, noise, hops, edges):
        found = sums_epsilon(NoisedSums(noise, hops, edges, 1e-7))
        mu = math.sqrt(hops * edges * (edges + 1)) / noise
        assert delta_of(found, mu) == pytest.approx(1e-7, rel=1e-6)

    def test_the_library_s_composition_of_hops_agrees(self):
        import dp_accounting
        from dp_accounting import pld

        accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
        accountant.compose(dp_accounting.GaussianDpEvent(3.0 / math.sqrt(2)), 2)
        found = sums_epsilon(NoisedSums(3.0, 2, 1, 1e-7))
        assert found == pytest.approx(accountant.get_epsilon(1e-7), rel=2e-3)

    def test_worked_numbers(self):
        assert sums_epsilon(NoisedSums(2.0, 1, 1, 1e-7)) == pytest.approx(3.6381, abs=1e-4)
        assert sums_event(spec_of(4.0)).noise == pytest.approx(2 ** (-4 + 79 / 16))

    @given(
        st.floats(0.05, 20),
        st.floats(1e-12, 1e-5),
        st.integers(1, 8),
        st.integers(0, 100),
    )
    @settings(max_examples=60, deadline=None)
    def test_the_noise_is_enough_and_a_level_less_would_not_be(self, epsilon, delta, hops, degree):
        event = sums_event(spec_of(epsilon, delta, summed_hops=hops, max_degree=degree))
        assert (event.hops, event.edges, event.delta) == (hops, max(1, degree), delta)
        assert sums_epsilon(event) <= epsilon
        less = NoisedSums(event.noise / 2 ** (1 / 16), hops, event.edges, delta)
        assert sums_epsilon(less) > epsilon

    def test_it_bounds_all_that_left_and_two_of_them_add_up(self):
        event, left = sums_event(spec_of(4.0)), Message("averaging", "classifier", 50, 1000)
        once = price([event, left], 100).sound
        assert once.verdict == "holds"
        assert (once.epsilon, once.delta) == (sums_epsilon(event), 1e-7)
        assert price([event, event, left], 100).sound.epsilon == pytest.approx(2 * once.epsilon)
        assert price([event], 100).sound.epsilon == 0, "nothing left"
        large = price([sums_event(spec_of(4.0, 1e-5)), left], 1000).sound
        assert (large.epsilon, large.verdict) == (None, "none"), "δ is too large for 1,000 nodes"

    def test_several_releases_together_are_one_gaussian(self):
        once, twice = NoisedSums(3.0, 1, 1, 1e-7), NoisedSums(3.0, 2, 1, 1e-7)
        assert edge_epsilon([once, once], 1e-7) == pytest.approx(sums_epsilon(twice))
        assert edge_epsilon([once], 1e-7) == pytest.approx(sums_epsilon(once))
        wide = NoisedSums(3.0, 1, 10, 1e-7)
        assert edge_epsilon([wide], 1e-7) == edge_epsilon([once], 1e-7), "of one edge"
        assert edge_epsilon([], 0.0) == 0
        assert edge_epsilon([once], 0.0) == math.inf

    @pytest.mark.parametrize(
        ("spec", "says"),
        [
            (spec_of(0.0), "needs ε; give --epsilon"),
            (spec_of(1e-9), "would take noise of standard deviation"),
            (spec_of(1.0, max_degree=10**7), "a smaller privacy.max_degree"),
        ],
    )
    def test_what_cannot_be_is_refused(self, spec, says):
        with pytest.raises(InputError, match=says):
            sums_event(spec)


EMPTY = graph_of([], 400)
ROWS = np.ones((400, 5))


def secret(*names):
    return SecretStream(Seeds(3).key(*names))


class TestNoise:
    @pytest.mark.parametrize("draw", [Seeds(3).stream, secret])
    @pytest.mark.parametrize("epsilon", [1.0, 8.0])
    def test_it_is_normal_with_the_standard_deviation_that_is_priced(self, epsilon, draw):
        noise = sums_event(spec_of(epsilon)).noise
        found = noised_hop(EMPTY, ROWS, noise, draw).ravel()
        assert kstest(found / noise, "norm").pvalue > 1e-3

    def test_more_of_it_is_less_of_it_and_something_independent(self):
        """Many releases together show no more than the one with the least noise."""
        levels = [sums_event(spec_of(epsilon)).noise for epsilon in (8.0, 4.0, 1.0)]
        finest, *coarser = (
            noised_hop(EMPTY, ROWS, noise, Seeds(4).stream).ravel() for noise in levels
        )
        for found, noise in zip(coarser, levels[1:], strict=True):
            added = found - finest
            assert kstest(added / math.sqrt(noise**2 - levels[0] ** 2), "norm").pvalue > 1e-3
            assert abs(np.corrcoef(added, finest)[0, 1]) < 4 / math.sqrt(len(added))

    def test_other_rows_have_noise_of_their_own(self):
        """Otherwise the difference of two releases would be an exact sum."""
        one = noised_hop(EMPTY, ROWS, 2.0, Seeds(5).stream).ravel()
        nearly = ROWS.copy()
        nearly[0, 0] += 1e-5
        other = noised_hop(EMPTY, nearly, 2.0, Seeds(5).stream).ravel()
        assert abs(np.corrcoef(one, other)[0, 1]) < 4 / math.sqrt(len(one))

    def test_what_is_released_is_a_whole_multiple(self):
        found = noised_hop(graph_of(HOUSE), OTHERS, 2.0, Seeds(6).stream) * UNIT
        assert np.array_equal(found, np.rint(found))


class TestAttack:
    """Whoever knows all rows and all other edges guesses planted edges from the sums."""

    def guesses(self, noise, pairs=3000):
        rng = np.random.default_rng(7)
        ends = np.arange(2 * pairs).reshape(-1, 2)
        included = rng.random(pairs) < 0.5
        rows = unit_rows(rng.standard_normal((2 * pairs, 4)))
        graph = graph_of(ends[included].tolist(), 2 * pairs)
        seen = noised_hop(graph, rows, noise, Seeds(8).stream)
        u, v = ends.T
        scores = (seen[u] * rows[v]).sum(axis=1) + (seen[v] * rows[u]).sum(axis=1)
        return guess(scores, included, threshold=1.0)

    @pytest.mark.parametrize(("epsilon", "found"), [(0.5, 0.0), (1.0, 0.0), (4.0, 0.5)])
    def test_it_does_not_refute_the_price(self, epsilon, found):
        event = sums_event(spec_of(epsilon))
        assert found <= self.guesses(event.noise).lower_bound(event.delta) < sums_epsilon(event)

    def test_it_refutes_a_price_for_an_eighth_of_the_noise(self):
        event = sums_event(spec_of(1.0))
        assert self.guesses(event.noise / 8).lower_bound(event.delta) > 1.0
