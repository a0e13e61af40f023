"""Randomised response with two rates: what they cost, and which rates an ε allows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddep.privacy.accountant import price
from feddep.privacy.events import Message, RandomisedResponse, SparseResponse, from_plain, to_plain
from feddep.privacy.response import largest_keep, response_epsilon, smallest_create

LEFT = Message("averaging", "classifier", 50, 1000)

epsilons = st.floats(0.01, 25)
keeps = st.floats(1e-6, 1 - 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "keep", "create"),
    [
        (1.0, 0.1, 0.036788),  # q₁e^-ε
        (4.0, 0.5, 0.0091578),
        (4.0, 0.2, 0.0036631),
        (4.0, 0.99, 0.4540185),  # 1 - (1 - q₁)e^ε
    ],
)
def test_rates_worked_by_hand(epsilon, keep, create):
    assert smallest_create(epsilon, keep) == pytest.approx(create, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0, 20.0])
def test_both_bounds_meet_at_the_symmetric_form(epsilon):
    keep = 1 / (1 + math.exp(-epsilon))
    assert smallest_create(epsilon, keep) == pytest.approx(1 - keep, rel=1e-6)
    assert response_epsilon(keep, 1 - keep) == pytest.approx(epsilon)


@given(epsilons, keeps)
def test_the_price_is_never_above_the_epsilon_asked_for(epsilon, keep):
    create = smallest_create(epsilon, keep)
    priced = price([SparseResponse(keep, create), LEFT], 10**6).sound
    assert response_epsilon(keep, create) <= epsilon
    assert 0 < create <= keep
    if response_epsilon(keep, create) <= 20:
        assert priced.epsilon == response_epsilon(keep, create)
        assert (priced.delta, priced.verdict) == (0, "holds")
    else:
        assert (priced.epsilon, priced.verdict) == (None, "none")


@given(epsilons, keeps)
def test_no_smaller_rate_of_false_edges_would_do(epsilon, keep):
    create = smallest_create(epsilon, keep)
    assert response_epsilon(keep, create * (1 - 1e-6) - 1e-12) > epsilon - 1e-9


@given(epsilons, keeps)
def test_the_price_is_the_largest_ratio_of_an_outcome_s_probabilities(epsilon, keep):
    create = smallest_create(epsilon, keep)
    ratios = (keep / create, create / keep, (1 - keep) / (1 - create), (1 - create) / (1 - keep))
    assert math.log(max(ratios)) == pytest.approx(response_epsilon(keep, create), abs=1e-6)


@given(epsilons, st.floats(1e-6, 0.999))
def test_a_rate_of_false_edges_allows_edges_to_be_kept_just_so_often(epsilon, create):
    keep = largest_keep(epsilon, create)
    assert response_epsilon(keep, create) == pytest.approx(epsilon, rel=1e-6)


def test_an_outcome_that_proves_the_bit_has_no_price():
    assert response_epsilon(0.5, 0.0) == math.inf
    assert response_epsilon(1.0, 0.5) == math.inf
    assert response_epsilon(0.3, 0.3) == 0
    assert smallest_create(5000.0, 0.5) > 0


def test_drawn_twice_the_two_forms_add_up():
    sparse = SparseResponse(0.5, smallest_create(3.0, 0.5))
    events = [RandomisedResponse(2.0), sparse, LEFT]
    assert price(events, 100).sound.epsilon == pytest.approx(5.0)
    assert from_plain(to_plain(events)) == events


def test_events_of_the_symmetric_form_are_read_and_priced_as_before():
    stored = [{"event": "RandomisedResponse", "epsilon": 3.3, "noise_from": "seed"}]
    assert to_plain(from_plain(stored)) == stored
    assert price([*from_plain(stored), LEFT], 100).sound.epsilon == 3.3
