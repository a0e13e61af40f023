"""Normal numbers from random bits: the distribution, and the same bits everywhere."""

import hashlib

import numpy as np
import pytest
from scipy import stats

from agreement import assert_agree
from feddep.privacy.gaussian import gaussian, normals


def drawn(count, seed=0):
    out = np.empty(count, np.float32)
    gaussian(np.random.default_rng(seed), out)
    return out


def test_the_numbers_are_standard_normal():
    numbers = drawn(1_000_001).astype(np.float64)
    assert stats.kstest(numbers, "norm").pvalue > 0.001
    for bound in (2.0, 3.0, 4.0):
        expected = 2 * stats.norm.sf(bound) * len(numbers)
        assert np.sum(np.abs(numbers) > bound) == pytest.approx(expected, abs=4 * expected**0.5)


def test_the_two_numbers_of_a_word_are_independent():
    one, two = drawn(1_000_000).reshape(2, -1).astype(np.float64)
    bound = 4 / len(one) ** 0.5
    assert abs(np.corrcoef(one, two)[0, 1]) < bound
    assert abs(np.corrcoef(one**2, two**2)[0, 1]) < bound


def test_they_are_those_of_box_and_muller():
    words = np.random.default_rng(1).integers(0, 2**64, 1000, np.uint64)
    words[:3] = 0, 2**64 - 1, 2**63  # the largest radius, the smallest, and one between
    found = np.empty(2000, np.float32)
    normals(words, found)
    u = ((words >> 33).astype(np.float32) + np.float32(0.5)) / np.float32(2**31)
    radius = np.sqrt(-2 * np.log(u.astype(np.float64)))
    sign = 1 - 2 * ((words >> 32) & 1).astype(np.float64)
    angle = 2 * np.pi * words.astype(np.uint32).view(np.int32) / 2**33
    expected = radius * np.array([sign * np.cos(angle), np.sin(angle)])
    assert_agree(found.reshape(2, -1), expected, terms=16, scale=radius, precision=np.float32)
    assert np.abs(found).max() < 6.7


def test_the_bits_are_the_same_on_every_processor():
    digest = hashlib.sha256(drawn(10_001).tobytes()).hexdigest()
    assert digest == "630f36eafce3d0d3372a239b078bc4f9d431ebc5586220b6f042befdd610746d"


@pytest.mark.parametrize("shape", [(), (1,), (2,), (513,), (7, 11), (0, 0)])
def test_any_shape_is_filled(shape):
    out = np.full(shape, np.nan, np.float32)
    gaussian(np.random.default_rng(0), out)
    assert np.isfinite(out).all()
