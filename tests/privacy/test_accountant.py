"""Prices against the numbers worked by hand, against dp_accounting, and how they move."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddep.errors import DataError, InputError
from feddep.privacy.accountant import (
    dp_sgd_event,
    example_level,
    noise_for,
    price,
    worst_of,
)
from feddep.privacy.events import (
    BernoulliSelection,
    FullNeighbours,
    KnownCrossings,
    Message,
    NeighbourSampling,
    NoisedGradients,
    OneShotSampling,
    RandomisedResponse,
    from_plain,
    to_plain,
)
from feddep.privacy.sampling import as_printed, compose, draw_delta, one_shot_delta, paper_step
from feddep.privacy.spec import PrivacySpec

LEFT = Message("averaging", "classifier", 50, 1000)


def sampled(degree=10, fanout=5, hops=2, epochs=50):
    return NeighbourSampling("embeddings", fanout, hops, epochs, ((degree, 1),))


@pytest.mark.parametrize(
    ("degree", "epsilon", "delta"),
    [
        (15, 0.3747, 0.3333),
        (10, 0.6061, 0.5),
        (3, 1.4384, 0.8683),
        (1, 3.4657, 1),
        (6, 1.2528, 0.8333),
        (4, 1.1157, 0.7627),
    ],
)
def test_a_step_has_the_paper_s_price(degree, epsilon, delta):
    assert paper_step(degree, 5) == pytest.approx((epsilon, delta), abs=5e-5)


@pytest.mark.parametrize(
    ("degree", "epsilon"), [(15, 24.92), (10, 46.91), (3, 143.84), (1, 346.57)]
)
def test_a_hundred_steps_compose(degree, epsilon):
    found = compose(*paper_step(degree, 5), 100, 1e-5)
    assert found[0] == pytest.approx(epsilon, abs=5e-3)
    assert found[1] == pytest.approx(1)


def test_the_printed_delta_goes_to_zero_where_the_true_one_goes_to_one():
    step = paper_step(10, 5)
    assert as_printed(*step, 100, 1e-5, 1.0)[1] < 1e-20
    assert compose(*step, 100, 1e-5)[1] == 1


def test_the_sampler_of_outputs_lowers_the_printed_price_only():
    with_it = [sampled(), BernoulliSelection(0.5), LEFT]
    without = [sampled(), LEFT]
    assert price(with_it, 100).paper.epsilon < price(without, 100).paper.epsilon
    assert price(with_it, 100).composed == price(without, 100).composed


@pytest.mark.parametrize(
    ("degree", "delta"),
    [(6, 0.9616), (5, 1 - 0.8**5), (1, 1), (0, 0), (10, 0.5), (20, 0.25)],
)
def test_the_exact_delta_of_a_draw_prices_the_switch_of_rules(degree, delta):
    assert draw_delta(degree, 5) == pytest.approx(delta, abs=5e-5)


@pytest.mark.parametrize(("degree", "delta"), [(0, 0), (3, 1), (5, 1), (10, 0.5)])
def test_a_one_shot_sample_shows_short_lists_whole(degree, delta):
    assert one_shot_delta(degree, 5) == delta


class TestSound:
    def test_sampling_again_and_again_promises_nothing(self):
        found = price([sampled(10_000), LEFT], 100).sound
        assert (found.epsilon, found.delta, found.verdict) == (None, 1, "none")

    def test_randomised_response_bounds_everything_after_it(self):
        found = price([RandomisedResponse(3.0), sampled(), LEFT], 100).sound
        assert (found.epsilon, found.delta, found.verdict) == (3.0, 0, "holds")

    def test_drawn_twice_it_costs_twice(self):
        assert price([RandomisedResponse(3.0)] * 2 + [LEFT], 100).sound.epsilon == 6.0

    def test_a_large_epsilon_is_none(self):
        found = price([RandomisedResponse(21.0), LEFT], 100).sound
        assert (found.epsilon, found.verdict) == (None, "none")

    @pytest.mark.parametrize(
        ("nodes", "delta", "verdict"),
        [
            (2, 0.9, "none"),
            (2, 1.01e-5, "none"),  # 1e-5, however few the pairs
            (2, 0.99e-5, "holds"),
            (100, 0.99e-5, "holds"),
            (542, 6.9e-7, "none"),  # 1/(10 · 146,611) = 6.82e-7
            (542, 6.8e-7, "holds"),
        ],
    )
    def test_only_a_small_delta_promises_anything(self, nodes, delta, verdict):
        found = price([OneShotSampling(5, delta, delta), LEFT], nodes).sound
        assert (found.delta, found.verdict) == (pytest.approx(delta), verdict)

    def test_noise_on_the_local_gnn_alone_promises_nothing(self):
        noised = NoisedGradients("embeddings", 2.0, 1.0, 0.1, 500)
        assert price([FullNeighbours("embeddings"), noised, LEFT], 100).sound.verdict == "none"

    def test_where_nothing_leaves_nothing_is_shown(self):
        assert price([sampled()], 100).sound.verdict == "holds"


def test_the_worst_degree_that_exists_counts_not_the_smallest():
    both = NeighbourSampling("embeddings", 5, 1, 1, ((4, 1), (6, 1)))
    assert price([both, LEFT], 10).composed.epsilon == pytest.approx(1.2528, abs=5e-5)
    assert price([both, LEFT], 10).paper.epsilon == pytest.approx(1.1157, abs=5e-5)


def test_isolated_nodes_show_nothing():
    lonely = NeighbourSampling("embeddings", 5, 2, 50, ((0, 7), (10, 1)))
    found = price([lonely, LEFT], 10)
    assert found.quantiles[0] == (0.0, 0.0)
    assert found.composed.epsilon == pytest.approx(46.91, abs=5e-3)


def test_the_client_that_is_worst_off_counts():
    prices = [price([RandomisedResponse(e), LEFT], 10) for e in (1.0, 3.0, 2.0)]
    assert worst_of(prices).sound.epsilon == 3.0
    assert worst_of([*prices, price([sampled(), LEFT], 10)]).sound.epsilon is None


def test_among_clients_without_an_epsilon_the_largest_delta_counts():
    prices = [price([OneShotSampling(5, d, d), LEFT], 100) for d in (0.1, 1.0, 0.5)]
    assert [found.sound.epsilon for found in prices] == [None] * 3
    assert worst_of(prices).sound.delta == 1.0
    assert worst_of(reversed(prices)).sound.delta == 1.0


def test_with_the_same_sound_price_the_composed_one_decides():
    prices = [price([RandomisedResponse(2.0), sampled(d), LEFT], 10) for d in (15, 10, 30)]
    assert worst_of(prices).composed.epsilon == pytest.approx(46.91, abs=5e-3)


def test_edges_between_clients_change_no_price():
    flipped = [RandomisedResponse(3.0), LEFT]
    assert price([KnownCrossings(), *flipped], 10) == price(flipped, 10)


def test_an_unknown_event_is_refused():
    with pytest.raises(InputError, match="no price for str"):
        price(["noise"], 10)
    with pytest.raises(DataError, match="unknown privacy event: 'Magic'"):
        from_plain([{"event": "Magic"}])
    with pytest.raises(DataError, match="Message"):
        from_plain([{"event": "Message", "wrong": 1}])


def test_events_survive_as_plain_data():
    events = [
        sampled(),
        BernoulliSelection(0.5),
        OneShotSampling(5, 0.5, 0.75),
        RandomisedResponse(1.0),
        NoisedGradients("updates", 2.0, 0.1, 1.0, 50),
        FullNeighbours("embeddings"),
        KnownCrossings(),
        LEFT,
    ]
    assert from_plain(to_plain(events)) == events


class TestDpSgd:
    def test_the_price_is_that_of_dp_accounting_s_other_accountant(self):
        import dp_accounting
        from dp_accounting import pld

        event = NoisedGradients("embeddings", 2.0, 1.0, 0.05, 400)
        tight = pld.PLDAccountant()
        step = dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(2.0))
        tight.compose(step, 400)
        bound = example_level(event, 1e-5)
        assert tight.get_epsilon(1e-5) <= bound <= 1.3 * tight.get_epsilon(1e-5)

    def test_noise_is_found_for_an_epsilon_and_gives_it(self):
        noise = noise_for(2.0, 1e-5, 0.05, 400)
        event = NoisedGradients("embeddings", noise, 1.0, 0.05, 400)
        assert example_level(event, 1e-5) == pytest.approx(2.0, rel=1e-3)

    def test_a_spec_with_an_epsilon_gets_the_noise_for_it(self):
        asked = dp_sgd_event(
            PrivacySpec(mechanism="dp-sgd", epsilon=2.0), "classifier", 320, 32, 10
        )
        assert (asked.purpose, asked.rate, asked.steps) == ("classifier", 0.1, 100)
        assert example_level(asked, 1e-5) == pytest.approx(2.0, rel=1e-3)
        given_noise = dp_sgd_event(
            PrivacySpec(mechanism="dp-sgd", noise=7.0), "embeddings", 320, 32, 10
        )
        assert (given_noise.purpose, given_noise.noise) == ("embeddings", 7.0)

    @pytest.mark.parametrize("steps", [1, 100])
    def test_more_noise_costs_less_and_more_steps_more(self, steps):
        def cost(noise, steps):
            return example_level(NoisedGradients("embeddings", noise, 1.0, 0.1, steps), 1e-5)

        assert cost(3.0, steps) < cost(2.0, steps) < cost(2.0, 2 * steps)

    def test_without_noise_there_is_no_bound(self):
        assert math.isinf(example_level(NoisedGradients("embeddings", 0.0, 1, 0.1, 5), 1e-5))


steps = st.tuples(st.integers(1, 60), st.integers(1, 30))


@given(steps, st.integers(1, 200), st.integers(1, 200))
def test_composition_grows_with_the_number_of_steps(step, one, more):
    few = compose(*paper_step(*step), one, 1e-5)
    many = compose(*paper_step(*step), one + more, 1e-5)
    assert few[0] <= many[0] + 1e-12
    assert few[1] <= many[1] + 1e-12


@given(steps, st.integers(1, 200))
def test_composition_is_never_below_a_single_step(step, times):
    single = paper_step(*step)
    composed = compose(*single, times, 1e-5)
    assert composed[0] >= min(single[0], composed[0])
    assert composed[0] >= single[0] - 1e-12 or times == 1
    assert composed[1] >= single[1] - 1e-12


@given(st.integers(2, 60), st.integers(1, 58))
def test_a_larger_fanout_costs_more_within_each_rule(degree, fanout):
    same_rule = (fanout + 1 < degree) == (fanout < degree)
    if same_rule:
        small, large = paper_step(degree, fanout), paper_step(degree, fanout + 1)
        assert small[0] < large[0]
        assert small[1] <= large[1]
