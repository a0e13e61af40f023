"""DP-SGD priced for one edge: against other accountants, numbers of docs/privacy.md, verdicts."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

from feddep.privacy.accountant import capped_event, edge_level, price
from feddep.privacy.edge_level import edge_epsilon, edge_noise
from feddep.privacy.events import (
    CappedGradients,
    FullNeighbours,
    Message,
    NeighbourSampling,
    from_plain,
    to_plain,
)
from feddep.privacy.spec import PrivacySpec

LEFT = Message("averaging", "classifier", 50, 100)
NUMBERS = Message("averaging", "numbers", 51, 0)
DELTA = 1e-5


def gradients(
    noise=20.0, touched=6, phase="averaging", purpose="classifier", steps=500, trainings=50
):
    return CappedGradients(
        purpose,
        noise,
        1.0,
        0.1,
        steps,
        phase=phase,
        occurrences=2,
        touched=touched,
        delta=DELTA,
        edges=1000,
        trainings=trainings,
    )


@pytest.mark.parametrize(
    ("touched", "noise", "epsilon"),
    [
        (2, 10.0, 4.01),
        (4, 10.0, 9.65),
        (6, 20.0, 6.57),
        (8, 20.0, 9.57),
        (12, 50.0, 4.95),
        (6, 2.0, 371.7),
    ],
)
def test_the_numbers_in_the_documents(touched, noise, epsilon):
    assert edge_epsilon(noise, 0.1, 500, touched, DELTA) == pytest.approx(epsilon, rel=2e-3)


def test_in_a_large_silo_little_noise_goes_a_long_way():
    assert edge_epsilon(2.0, 0.001, 20_000, 6, DELTA) == pytest.approx(4.38, rel=2e-3)


def test_a_delta_as_small_as_many_nodes_need_costs_little_more():
    """53,000 nodes; what the accountant cuts off must not count for more than it is."""
    deltas = (1e-5, 1e-7, 1e-9, 7e-11)
    found = [edge_epsilon(2.0, 0.001, 20_000, 6, delta) for delta in deltas]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(6.6, abs=0.1)


def test_no_epsilon_is_read_off_the_rounding_of_a_delta():
    assert edge_epsilon(10.0, 0.001, 20_000, 6, 1e-14) > edge_epsilon(10.0, 0.001, 20_000, 6, 1e-12)


def test_noise_is_found_for_an_epsilon_and_keeps_to_it():
    noise = edge_noise(8.0, DELTA, 0.1, 500, 4)
    assert noise == pytest.approx(11.5, rel=2e-3)
    assert edge_epsilon(noise, 0.1, 500, 4, DELTA) <= 8.0
    assert edge_epsilon(noise / 1.002, 0.1, 500, 4, DELTA) > 8.0


def test_a_group_of_one_costs_at_least_what_dp_accounting_says_of_an_example_that_is_replaced():
    """The exact price of a replaced example, by another relation of the same library."""
    import dp_accounting
    from dp_accounting import NeighboringRelation, pld

    exact = pld.PLDAccountant(NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-3)
    step = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(5.0))
    exact.compose(step, 500)
    found = edge_epsilon(5.0, 0.1, 500, 1, DELTA)
    assert exact.get_epsilon(DELTA) <= found <= 1.2 * exact.get_epsilon(DELTA)


@pytest.mark.parametrize(("noise", "touched"), [(80.0, 8), (200.0, 8), (40.0, 2)])
def test_without_sampling_it_is_a_gaussian_mechanism_of_sensitivity_twice_k(noise, touched):
    epsilon, spread = edge_epsilon(noise, 1.0, 50, touched, DELTA), noise / math.sqrt(50)
    shift = 2 * touched / spread
    exact = norm.cdf(shift / 2 - epsilon / shift)
    exact -= math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift)
    assert DELTA / 10 < exact <= DELTA


@pytest.mark.parametrize(
    ("noise", "rate", "touched"), [(3.0, 0.1, 6), (10.0, 0.5, 8), (1.0, 0.1, 2)]
)
def test_one_step_on_gradients_that_all_turn_round_keeps_to_it(noise, rate, touched):
    """The worst that one edge can do by the look of it, integrated: Σ_j N(-j) against Σ_j N(j)."""
    x = np.linspace(-touched - 12 * noise, touched + 12 * noise, 200_001)
    chance = binom.pmf(np.arange(touched + 1), touched, rate)
    here, there = (
        sum(p * norm.pdf(x, sign * j, noise) for j, p in enumerate(chance)) for sign in (1, -1)
    )
    epsilon = edge_epsilon(noise, rate, 1, touched, DELTA)
    shown = np.maximum(here - math.exp(epsilon) * there, 0).sum() * (x[1] - x[0])
    assert shown <= DELTA


def test_a_batch_that_holds_all_examples_is_never_cheaper():
    sampled = edge_epsilon(80.0, 0.5, 50, 8, DELTA)
    assert sampled < edge_epsilon(80.0, 1.0, 50, 8, DELTA)


@pytest.mark.parametrize("better", [(24.0, 200, 6), (20.0, 100, 6), (20.0, 200, 4)])
def test_more_noise_fewer_steps_and_fewer_examples_cost_less(better):
    noise, steps, touched = better
    assert edge_epsilon(noise, 0.1, steps, touched, DELTA) < edge_epsilon(20.0, 0.1, 200, 6, DELTA)


def test_composition_is_never_below_a_single_step():
    assert edge_epsilon(20.0, 0.1, 1, 6, DELTA) <= edge_epsilon(20.0, 0.1, 50, 6, DELTA)


def test_ends_of_the_scale():
    assert edge_epsilon(0.0, 0.1, 500, 6, DELTA) == math.inf
    assert edge_epsilon(2.0, 0.1, 0, 6, DELTA) == 0
    assert edge_epsilon(2.0, 0.1, 500, 0, DELTA) == 0


class TestVerdict:
    def test_it_holds_where_all_that_left_was_noised(self):
        found = price([gradients(), LEFT, NUMBERS], 100).sound
        assert found.epsilon == edge_level(gradients())
        assert (found.delta, found.verdict) == (DELTA, "holds")

    @pytest.mark.parametrize(
        "more",
        [
            FullNeighbours("embeddings"),
            NeighbourSampling("classifier", 5, 2, 50, ((4, 10),)),
            Message("prototype_exchange", "prototypes", 1, 100),
        ],
    )
    def test_it_is_none_where_edges_were_used_without_noise(self, more):
        found = price([gradients(), more, LEFT], 100).sound
        assert (found.epsilon, found.delta, found.verdict) == (None, 1.0, "none")

    def test_it_is_none_above_an_epsilon_of_20_and_where_delta_is_too_large(self):
        assert price([gradients(noise=5.0), LEFT], 100).sound.verdict == "none"
        assert price([gradients(), LEFT], 1000).sound.verdict == "none"

    def test_two_trainings_add_up(self):
        twice = [gradients(), gradients(phase="local_gnn", purpose="embeddings"), LEFT]
        found = price([replace(event, delta=DELTA / 2) for event in twice[:2]] + [LEFT], 100).sound
        halved = replace(gradients(), delta=DELTA / 2)
        assert found.epsilon == pytest.approx(2 * edge_level(halved))
        assert (found.delta, found.verdict) == (DELTA, "holds")
        assert price(twice, 100).sound.verdict == "none", "twice as large a δ is too large"


class TestNumberOfTrainings:
    """The price is for 50 trainings of 10 steps each."""

    def verdict(self, *messages, **about):
        found = price([gradients(**about), *messages], 100).sound
        assert (found.verdict == "none") == (found.epsilon is None)
        return found.verdict

    @pytest.mark.parametrize(
        ("times", "verdict"), [(1, "holds"), (50, "holds"), (51, "none"), (1000, "none")]
    )
    def test_weights_of_more_trainings_than_were_priced_are_not_covered(self, times, verdict):
        assert self.verdict(Message("averaging", "classifier", times, 100)) == verdict

    def test_scores_are_computed_without_edges_and_may_be_sent_more_often(self):
        assert self.verdict(LEFT, Message("averaging", "numbers", 1000, 8000)) == "holds"

    def test_two_prices_of_one_phase_cover_the_trainings_of_both(self):
        both = [replace(gradients(noise=noise), delta=DELTA / 2) for noise in (60.0, 50.0)]
        for times, verdict in ((100, "holds"), (101, "none")):
            left = Message("averaging", "classifier", times, 100)
            assert price([*both, left], 100).sound.verdict == verdict

    def test_a_silo_without_examples_sends_weights_back_as_they_came(self):
        left = Message("averaging", "classifier", 1000, 100)
        assert self.verdict(left, steps=0) == "holds"
        assert self.verdict(left, steps=0, trainings=None) == "holds"

    def test_an_older_event_is_read_and_covers_no_more_trainings_than_steps(self):
        row = to_plain([gradients()])[0]
        del row["trainings"]
        (older,) = from_plain([row])
        assert older == gradients(trainings=None)
        assert price([older, LEFT], 100) == price([gradients(), LEFT], 100)
        assert self.verdict(Message("averaging", "classifier", 501, 9), trainings=None) == "none"


def test_the_event_survives_as_plain_data():
    assert from_plain(to_plain([gradients()])) == [gradients()]


def test_a_spec_with_an_epsilon_gets_the_noise_that_an_edge_needs():
    spec = PrivacySpec(mechanism="dp-sgd", occurrences=2, epsilon=6.0)
    about = {"purpose": "classifier", "phase": "averaging", "batch": 32, "hops": 2, "edges": 900}
    about["trainings"] = 5
    event = capped_event(spec, examples=320, epochs=10, **about)
    assert (event.rate, event.steps, event.touched, event.occurrences) == (0.1, 100, 6, 2)
    assert event.trainings == 5
    assert 5.9 < edge_level(event) <= 6.0
    tiny = capped_event(spec, examples=3, epochs=10, **about)
    assert (tiny.rate, tiny.steps, tiny.touched) == (1.0, 10, 3)
    idle = capped_event(spec, examples=0, epochs=10, **about)
    assert (idle.steps, edge_level(idle)) == (0, 0.0)
    by_noise = PrivacySpec(mechanism="dp-sgd", occurrences=2, noise=7.0)
    assert capped_event(by_noise, examples=320, epochs=10, **about).noise == 7.0
