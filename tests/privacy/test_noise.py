"""Noise on what is sent: the earlier bits in a simulation; secret, on a fixed grid, in a silo."""

import math

import numpy as np
import pytest
from scipy import stats

from feddep.privacy.gaussian import gaussian
from feddep.privacy.noise import noised_sum, with_noise
from feddep.privacy.secret_stream import SecretStream

KEY = bytes(range(32))


def grid(spread):
    return 2.0 ** (math.floor(math.log2(spread)) - 4)


def summed(rng, addends, spread):
    total = np.full(len(addends[0]), 9, np.float32)  # of an earlier step
    with noised_sum(rng, [total], spread):
        for addend in addends:
            total += addend
    return total


def test_a_simulation_draws_as_it_always_did():
    addends = np.random.default_rng(1).standard_normal((3, 100), np.float32)
    expected = np.empty(100, np.float32)
    gaussian(np.random.default_rng(0), expected)
    expected *= np.float32(0.7)
    for addend in addends:
        expected += addend
    assert np.array_equal(summed(np.random.default_rng(0), addends, 0.7), expected)
    base, content = addends[:2]
    drawn = np.random.default_rng(0).standard_normal(100, np.float32)
    noised = with_noise(np.random.default_rng(0), content, 0.7, base)
    assert np.array_equal(noised, base + content + np.float32(0.7) * drawn)


@pytest.mark.parametrize("spread", [0.3, 1.0, 60.0])
def test_a_secret_sum_is_what_was_added_and_gaussian_noise(spread):
    addends = np.repeat([[1.5], [2.25]], 200_000, axis=1).astype(np.float32)
    found = summed(SecretStream(KEY), addends, spread)
    assert found.std() == pytest.approx(spread, rel=0.01)
    assert found.mean() == pytest.approx(3.75, abs=4 * spread / len(found) ** 0.5)
    # A point of the grid is as likely as the normal distribution has the numbers around it.
    edges = (np.arange(-64, 65) + 0.5) * grid(spread) + np.rint(3.75 / grid(spread)) * grid(spread)
    seen, _ = np.histogram(found, [-np.inf, *edges, np.inf])
    expected = np.diff([0, *stats.norm.cdf(edges, 3.75, spread), 1]) * len(found)
    assert stats.chisquare(seen, expected).pvalue > 0.001


@pytest.mark.parametrize("spread", [1.0, 0.37, 123.4])
def test_every_answer_lies_on_a_grid_that_the_content_does_not_choose(spread):
    content = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    for hidden in (content, content * np.float32(1e-3), np.zeros_like(content)):
        found = with_noise(SecretStream(KEY), hidden, spread).astype(np.float64) / grid(spread)
        assert np.array_equal(found, np.rint(found))
        assert np.std(found * grid(spread) - hidden) == pytest.approx(spread, rel=0.03)


def test_noise_hides_the_content_before_a_large_base_swallows_it():
    content, base = np.full(1000, 0.3, np.float32), np.full(1000, 1e6, np.float32)
    alone = with_noise(SecretStream(KEY), content, 0.1)
    assert np.array_equal(with_noise(SecretStream(KEY), content, 0.1, base), base + alone)


def test_arrays_longer_than_a_piece_get_noise_everywhere_and_of_their_own():
    found = with_noise(SecretStream(KEY), np.zeros((3, 1 << 16), np.float32), 1.0)
    assert len(np.unique(found, axis=0)) == 3
    assert found.std(axis=1) == pytest.approx(1, rel=0.02)


def test_no_noise_leaves_all_as_it_is():
    content = np.array([0.1, 0.2], np.float32)
    assert np.array_equal(with_noise(SecretStream(KEY), content, 0.0), content)
    assert np.array_equal(summed(SecretStream(KEY), [content], 0.0), content)
