"""Clipped and noised updates: worked numbers, and the noise's spread."""

import numpy as np
import pytest

from agreement import assert_agree
from feddep.learning.updates import noised_update

BEFORE = {"matrix": np.array([[1, 2]], np.float32), "bias": np.array([10], np.float32)}
# The change is (2, 3) and 6: its norm over both arrays is 7.
AFTER = {"matrix": np.array([[3, 5]], np.float32), "bias": np.array([16], np.float32)}


def update(after=AFTER, clip=1.0, noise=0.0, seed=0, before=BEFORE):
    rng = np.random.default_rng(seed)
    return noised_update(before, after, clip=clip, noise=noise, rng=rng)


@pytest.mark.parametrize(
    ("clip", "matrix", "bias"),
    [
        (3.5, [[2, 3.5]], [13]),  # half of it
        (0.7, [[1.2, 2.3]], [10.6]),  # a tenth
        (7.0, [[3, 5]], [16]),
        (100.0, [[3, 5]], [16]),  # never more than there is
    ],
)
def test_the_norm_over_all_arrays_together_is_clipped(clip, matrix, bias):
    found = update(clip=clip)
    # A norm of three numbers, a quotient, a product and a sum of positive terms.
    assert_agree(found["matrix"], matrix, terms=8)
    assert_agree(found["bias"], bias, terms=8)


def test_no_change_at_all_stays_none():
    found = update(after=BEFORE)
    assert all(np.array_equal(found[name], BEFORE[name]) for name in BEFORE)


def test_weights_stay_of_single_precision_and_what_was_sent_as_it_was():
    assert {array.dtype for array in update(noise=2.0).values()} == {np.dtype(np.float32)}
    assert BEFORE["matrix"].tolist() == [[1, 2]]
    assert AFTER["matrix"].tolist() == [[3, 5]]


@pytest.mark.parametrize(("clip", "noise"), [(0.1, 2.0), (5.0, 0.3)])
def test_the_noise_on_every_number_has_the_spread_of_noise_times_clip(clip, noise):
    before = {name: np.zeros((100, 100), np.float32) for name in ("a", "b")}
    found = update(before, clip, noise, before=before)
    for array in found.values():
        assert array.std() == pytest.approx(noise * clip, rel=0.03)
        assert abs(array.mean()) < 4 * noise * clip / 100
    assert abs(np.corrcoef(found["a"].ravel(), found["b"].ravel())[0, 1]) < 0.04


def test_the_noise_comes_on_top_of_the_clipped_change():
    quiet, noisy = update(clip=3.5), update(clip=3.5, noise=1e-3)
    for name in quiet:
        assert 0 < np.abs(noisy[name] - quiet[name]).max() < 5 * 3.5e-3


def test_the_stream_decides_the_noise():
    one, same, other = (update(noise=1.0, seed=seed)["matrix"] for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
