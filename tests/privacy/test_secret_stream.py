"""Random draws from a key: AES in counter mode, and the numbers made of it."""

from copy import deepcopy
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from feddep.privacy.secret_stream import SecretStream, digit_thresholds

KEY = bytes(range(32))


def test_the_words_are_the_key_stream_of_aes_256_ctr():
    # NIST SP 800-38A, F.5.5: key, initial counter, and the first two output blocks.
    key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
    counter = 0xF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF
    expected = "0bdf7df1591716335e9a8b15c860c5025a6e699d536119065433863c8f657b94"
    words = SecretStream(bytes.fromhex(key), counter).words(4)
    assert words.astype("<u8").tobytes().hex() == expected


def test_each_call_goes_on_with_a_block_of_its_own():
    whole, stream = SecretStream(KEY).words(6), SecretStream(KEY)
    assert stream.words(1).tolist() == whole[:1].tolist()
    assert stream.words(3).tolist() == whole[2:5].tolist()
    assert stream.words(0).tolist() == []
    assert stream.block == 3


def test_a_copy_draws_the_same_numbers_and_leaves_the_original_where_it_was():
    stream = SecretStream(KEY)
    stream.random(5)
    assert np.array_equal(deepcopy(stream).random(9), stream.random(9))


def test_random_numbers_are_uniform_multiples_of_2_to_the_minus_53():
    stream = SecretStream(KEY)
    words, numbers = deepcopy(stream).words(100_000), stream.random(100_000)
    assert [int(x) for x in numbers[:100] * 2.0**53] == [int(w) >> 11 for w in words[:100]]
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert stats.kstest(numbers, "uniform").pvalue > 0.001


@pytest.mark.parametrize("p", [0.9, 0.5, 0.2689, 0.01])
def test_gaps_are_geometric(p):
    found = SecretStream(KEY).geometric(p, 100_000)
    most = int(stats.geom.isf(1e-3, p))
    seen = np.bincount(np.minimum(found, most + 1), minlength=most + 2)[1:]
    chances = [*stats.geom.pmf(np.arange(1, most + 1), p), stats.geom.sf(most, p)]
    assert stats.chisquare(seen, 100_000 * np.array(chances)).pvalue > 0.001


@given(st.floats(1e-12, 0.5), st.integers(0, 60))
def test_the_probabilities_of_digits_are_those_of_a_geometric_number(p, gap):
    chance = Fraction(1)
    for digit, threshold in enumerate(digit_thresholds(p)):
        one = Fraction(threshold, 2**128)
        chance *= one if gap >> digit & 1 else 1 - one
    exact = Fraction(p) * (1 - Fraction(p)) ** gap
    assert abs(chance / exact - 1) < Fraction(1, 2**60)


def test_rare_coins_never_come_too_early():
    assert SecretStream(KEY).geometric(1e-300, 100).tolist() == [2**62] * 100
    assert SecretStream(KEY).geometric(1.0, 3).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("second", "digit"), [(-1, 1), (0, 0)])
def test_a_tie_is_decided_by_a_second_word(monkeypatch, second, digit):
    high, low = divmod(digit_thresholds(0.75)[0], 2**64)
    script = iter([[high], [low + second]])
    beyond = [2**64 - 1]
    monkeypatch.setattr(
        SecretStream, "words", lambda self, size: np.array(next(script, beyond), np.uint64)
    )
    assert SecretStream(KEY).geometric(0.75, 1).tolist() == [1 + digit]


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(p):
    with pytest.raises(ValueError, match="expected a probability"):
        SecretStream(KEY).geometric(p, 1)


def test_normal_numbers_are_standard_normal():
    numbers = SecretStream(KEY).normals(1_000_001)
    assert numbers.dtype == np.float64
    assert stats.kstest(numbers, "norm").pvalue > 0.001
    for bound in (2.0, 3.0, 4.0):
        expected = 2 * stats.norm.sf(bound) * len(numbers)
        assert np.sum(np.abs(numbers) > bound) == pytest.approx(expected, abs=4 * expected**0.5)
    one, two = numbers[:-1].reshape(2, -1)
    assert abs(np.corrcoef(one, two)[0, 1]) < 4 / len(one) ** 0.5
    assert abs(np.corrcoef(one**2, two**2)[0, 1]) < 4 / len(one) ** 0.5


def test_normal_numbers_are_exact_but_for_the_last_digits():
    count = 10_000
    stream = SecretStream(KEY)
    exponent, mantissa, angle = deepcopy(stream).words(3 * count).reshape(3, count)
    precise = np.longdouble
    zeros = [(int(w) & -int(w)).bit_length() - 1 for w in exponent]
    u = (precise(0.5) + (mantissa >> 12).astype(precise) / precise(2) ** 53) / precise(2) ** zeros
    radius, turn = np.sqrt(-2 * np.log(u)), angle.astype(precise) / precise(2) ** 64
    turn *= 2 * precise("3.14159265358979323846264338327950288")
    expected = np.concatenate([radius * np.cos(turn), radius * np.sin(turn)])
    found = stream.normals(2 * count)
    # What docs/privacy.md says of rounding counts on this, beyond half a step of the grid.
    far = np.abs(expected) > 1 / 64
    assert np.abs(found - expected)[far].max() < 2.0**-47


def test_the_smallest_u_gives_the_largest_number(monkeypatch):
    monkeypatch.setattr(SecretStream, "words", lambda self, size: np.zeros(size, np.uint64))
    assert SecretStream(KEY).normals(1)[0] == pytest.approx((2 * 65 * np.log(2)) ** 0.5)
