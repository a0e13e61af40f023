"""The one-run audit, against the paper's printed numbers and against simulated attackers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from feddep.errors import InputError
from feddep.privacy.audit_statistics import Guesses, guess, pooled


def test_the_paper_s_p_value():
    assert Guesses(75, 100, 100).p_value(math.log(3)) == pytest.approx(0.553, abs=1e-3)


@pytest.mark.parametrize(
    ("canaries", "made", "right", "delta", "printed"),
    [
        (100, 100, 75, 0, 0.702),
        (100, 100, 75, 1e-4, 0.699),
        (1000, 100, 75, 1e-4, 0.673),
        (100_000, 1510, 1439, 1e-5, 2.675),
    ],
)
def test_the_paper_s_lower_bounds(canaries, made, right, delta, printed):
    bound = Guesses(right, made, canaries).lower_bound(delta)
    assert bound == pytest.approx(printed, abs=1e-3)


def test_485_of_500_are_needed_for_a_bound_above_3():
    assert Guesses(485, 500, 500).lower_bound() > 3
    assert Guesses(484, 500, 500).lower_bound() < 3


def test_1355_right_guesses_prove_about_6():
    bound = Guesses(1355, 1355, 1355).lower_bound()
    assert bound == pytest.approx(6.1, abs=0.05)
    assert bound == pytest.approx(-math.log(0.05 ** (-1 / 1355) - 1))  # q^r = 0.05


def test_chance_and_silence_prove_nothing():
    assert Guesses(250, 500, 500).lower_bound() == 0
    assert Guesses(0, 500, 500).lower_bound(delta=1e-5) == 0
    assert Guesses(0, 0, 500).lower_bound() == 0
    assert Guesses(0, 0, 500).p_value(0) == 1


@given(
    st.integers(1, 300),
    st.floats(0, 1),
    st.floats(0, 8),
    st.sampled_from([0, 1e-6, 1e-3, 0.3]),
)
def test_p_values_are_the_sum_that_the_paper_writes(made, share, epsilon, delta):
    right, canaries = round(share * made), made + 50
    q = 1 / (1 + math.exp(-epsilon))
    tail = binom.sf(right - 1, made, q)
    steps = [(binom.sf(right - i - 1, made, q) - tail) / i for i in range(1, right + 1)]
    expected = min(1, tail + 2 * canaries * delta * max(steps, default=0))
    assert Guesses(right, made, canaries).p_value(epsilon, delta) == pytest.approx(expected)


@given(st.integers(1, 400), st.floats(0, 1), st.sampled_from([0, 1e-6, 1e-4]))
def test_the_bound_is_where_the_p_value_crosses_the_level(made, share, delta):
    guesses = Guesses(round(share * made), made, made)
    bound = guesses.lower_bound(delta)
    assert guesses.p_value(bound + 1e-6, delta) >= 0.05 - 1e-9
    if bound > 0:
        assert guesses.p_value(bound, delta) <= 0.05 + 1e-9


@given(st.integers(2, 300), st.integers(0, 299), st.sampled_from([0, 1e-5]))
def test_more_right_guesses_or_more_confidence_move_the_bound_the_right_way(made, right, delta):
    right = min(right, made - 1)
    better, worse = Guesses(right + 1, made, made), Guesses(right, made, made)
    assert better.lower_bound(delta) >= worse.lower_bound(delta)
    assert worse.lower_bound(delta, confidence=0.999) <= worse.lower_bound(delta)
    assert worse.lower_bound(1e-3) <= worse.lower_bound(0)


def test_the_claim_of_randomised_response_is_rarely_rejected_and_half_of_it_always():
    """The best attacker there is on randomised response of ε = 1, 300 audits."""
    rng = np.random.default_rng(0)
    right = rng.binomial(1000, 1 / (1 + math.exp(-1)), size=300)
    audits = [Guesses(int(c), 1000, 1000) for c in right]
    assert sum(audit.p_value(1.0) < 0.05 for audit in audits) <= 25
    assert sum(audit.lower_bound() > 1 for audit in audits) <= 25
    assert all(audit.p_value(0.5) < 0.001 for audit in audits)


def test_the_upper_half_is_guessed_to_be_included():
    scores, included = np.array([3.0, 1, 2, 0]), np.array([True, False, False, True])
    assert guess(scores, included) == Guesses(2, 4, 4)
    assert guess(scores, included, threshold=2.5) == Guesses(3, 4, 4)


def test_abstaining_in_the_middle_leaves_the_surest_guesses():
    scores = np.arange(100.0)
    included = scores > 90
    included[:3] = True
    found = guess(scores, included, share=0.1)
    assert found == Guesses(7, 10, 100)
    assert guess(scores, included, share=0.1, threshold=90.0) == Guesses(97, 100, 100)


def test_equal_scores_are_chance():
    rng = np.random.default_rng(0)
    included = rng.random(1000) < 0.5
    found = guess(np.zeros(1000), included)
    assert found.made == 1000
    assert 400 < found.right < 600


def test_runs_add_up():
    assert pooled([Guesses(1, 2, 3), Guesses(4, 5, 6)]) == Guesses(5, 7, 9)


def test_impossible_counts_and_shares_are_refused():
    with pytest.raises(InputError, match=r"\(got 3, 2, 5\)"):
        Guesses(3, 2, 5)
    with pytest.raises(InputError, match="share"):
        guess(np.zeros(2), np.zeros(2, bool), share=0.0)
