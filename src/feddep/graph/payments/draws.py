"""Random numbers that are alike on every machine.

Logarithms and exponentials differ between processors in the last digit. So a distribution is a
table of quantiles, rounded, and a draw interpolates in it with sums and products alone, which are
exact everywhere.
"""

from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

_QUANTILES = 4096


@cache
def _log_normal_table(sigma: float) -> Floats:
    levels = (np.arange(_QUANTILES + 1) + 0.5) / (_QUANTILES + 1)
    table: Floats = np.round(np.exp(sigma * ndtri(levels)), 6).astype(np.float64)
    return table


def log_normal(rng: np.random.Generator, count: int, sigma: float) -> Floats:
    """Draws with median 1; the largest are cut at the 4,096th quantile."""
    place = rng.random(count) * _QUANTILES
    below = place.astype(np.int64)
    table = _log_normal_table(sigma)
    return table[below] + (place - below) * (table[below + 1] - table[below])


def whole(rng: np.random.Generator, count: int, limits: int | Longs) -> Longs:
    """Whole numbers from 0 to below ``limits``."""
    drawn = (rng.random(count) * limits).astype(np.int64)
    return np.minimum(drawn, limits - 1, dtype=np.int64)


def order(rng: np.random.Generator, count: int) -> Longs:
    """A random order of 0 to ``count`` - 1."""
    return np.argsort(rng.random(count), kind="stable")


def pick(rng: np.random.Generator, count: int, weights: Floats) -> Longs:
    """Positions drawn with probabilities proportional to weights."""
    return pick_between(rng, cumulated(weights), np.zeros(count, np.int64), len(weights))


def cumulated(weights: Floats) -> Floats:
    """Sums of weights before each position, and of all, for :func:`pick_between`."""
    return np.concatenate([[0.0], np.cumsum(weights)])


def pick_between(rng: np.random.Generator, sums: Floats, first: Longs, end: int | Longs) -> Longs:
    """For each row a position from ``first`` to below ``end``, proportional to weights."""
    low, high = sums[first], sums[end]
    found = np.searchsorted(sums, low + rng.random(len(first)) * (high - low), side="right") - 1
    return np.clip(found, first, np.asarray(end) - 1)
