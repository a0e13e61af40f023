"""What T steps of DP-SGD cost one undirected edge that touches k examples at most.

Take two graphs that differ in the edge. They have the same examples except for k, whose clipped
gradients differ (:mod:`feddep.privacy.occurrences`); each of the k is in a batch independently
with probability q. Two bounds hold, and the smaller one counts.

*As if batches were known.* With j of the k in the batch, the sum changes by 2jC at most. Convexity
averages over j ~ Bin(k, q): in Rényi DP, ε_α = T ln E[exp(α(α - 1)(2j)² / 2σ²)] / (α - 1)
(Daigavane et al. 2021, theorem 1, for Poisson batches).

*Through a third run*, which has none of the k examples. From there either run is the addition of
a group of k, whose exact price is that of N(0, σ²) against Σ_j P[Bin(k, q) = j] N(j, σ²), T times
(Ganesh 2024). Two such steps in a row cost 2ε₁ and δ₁(1 + e^ε₁).
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom

_ORDERS = 1 + np.logspace(-3, 3, 120)
_INTERVAL = 3e-3  # of the discretised privacy loss; a finer one changes ε by half a percent
_COARSER_ABOVE = 4.0  # k/σ; losses are large then, and so would be the arrays
_LARGEST_HALF = 16.0
"""ε₁ is not searched above it: the mass cut off by the discretisation counts e^ε₁ times."""
_PLAIN_TO_SEE = 12.0
"""If the sum of all steps moves by this many standard deviations, ε₁ is out of reach."""
_HALVINGS = 10


@lru_cache(maxsize=1024)
def edge_epsilon(noise: float, rate: float, steps: int, touched: int, delta: float) -> float:
    """ε for one undirected edge.

    Args:
        noise: σ, noise multiplier.
        rate: q, probability that an example is in a batch.
        steps: T.
        touched: k, examples that the edge can change.
        delta: δ.
    """
    if steps == 0 or touched == 0:
        return 0.0
    if noise == 0:
        return math.inf
    bound = _batches_known(noise, rate, steps, touched, delta)
    spread = math.sqrt(noise**2 + touched * rate * (1 - rate))
    if rate < 1 and math.sqrt(steps) * touched * rate < _PLAIN_TO_SEE * spread:
        bound = min(bound, _through_a_third(noise, rate, steps, touched, delta))
    return bound


@lru_cache(maxsize=1024)
def edge_noise(epsilon: float, delta: float, rate: float, steps: int, touched: int) -> float:
    """The smallest noise multiplier, to a thousandth, for which :func:`edge_epsilon` is at most ε.

    Needs at least one step and one example; otherwise no noise at all would do.
    """
    high = 1.0
    while _batches_known(high, rate, steps, touched, delta) > epsilon:  # quick, and never too low
        high *= 2
    low = high / 2
    while edge_epsilon(low, rate, steps, touched, delta) <= epsilon:
        low, high = low / 2, low
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if edge_epsilon(middle, rate, steps, touched, delta) <= epsilon:
            high = middle
        else:
            low = middle
    return high


def _batches_known(noise: float, rate: float, steps: int, touched: int, delta: float) -> float:
    from dp_accounting import rdp

    j = np.arange(touched + 1)
    chance = binom.logpmf(j, touched, rate)
    exponents = np.outer(_ORDERS * (_ORDERS - 1), 2 * (j / noise) ** 2)
    losses = steps * logsumexp(chance + exponents, axis=1) / (_ORDERS - 1)
    epsilon, _ = rdp.compute_epsilon(_ORDERS, losses, delta)
    return float(epsilon)


def _through_a_third(noise: float, rate: float, steps: int, touched: int, delta: float) -> float:
    from dp_accounting import dp_event, pld

    j = np.arange(touched + 1)
    chance = binom.pmf(j, touched, rate)
    j, chance = j[chance > 0], chance[chance > 0]
    group = dp_event.MixtureOfGaussiansDpEvent(
        noise, j.astype(float).tolist(), (chance / chance.sum()).tolist()
    )
    interval = _INTERVAL * max(1.0, touched / noise / _COARSER_ABOVE) ** 2
    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    accountant.compose(group, steps)

    def holds(half: float) -> bool:
        spent: float = accountant.get_delta(half) * (1 + math.exp(half))
        return spent <= delta

    low, high = 0.0, _LARGEST_HALF
    if not holds(high):
        return math.inf
    for _ in range(40):
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return 2 * high
