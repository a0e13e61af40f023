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

Both compose over several trainings, whatever their settings: Rényi losses add up, and so do the
discretised privacy losses of all steps on the way to the third world.
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from scipy.stats import binom

if TYPE_CHECKING:
    from dp_accounting import dp_event

Losses = npt.NDArray[np.float64]

ORDERS = 1 + np.logspace(-3, 3, 120)
_INTERVAL = 3e-3  # of the discretised privacy loss; a finer one changes ε by half a percent
_COARSER_ABOVE = 4.0  # k/σ; losses are large then, and so would be the arrays
_HALVES = (16.0, 8.0, 4.0, 2.0, 1.0)
"""ε₁ is searched below the first that is enough: the larger it is, the more counts what the
discretisation cuts off, e^ε₁ times, so that for a small δ the largest may not do."""
_SMALLEST_DELTA = 1e-14
"""No computed δ₁ is trusted to be smaller: it is a sum that ends in rounding, even below 0."""
_PLAIN_TO_SEE = 12.0
"""If the sum of all steps moves by this many standard deviations, ε₁ is out of reach."""
_HALVINGS = 10


class Steps(NamedTuple):
    """Steps of DP-SGD that all have the same settings.

    Attributes:
        noise: σ, noise multiplier.
        rate: q, probability that an example is in a batch.
        steps: T.
        touched: k, examples that an undirected edge can change.
    """

    noise: float
    rate: float
    steps: int
    touched: int


def edge_epsilon(noise: float, rate: float, steps: int, touched: int, delta: float) -> float:
    """ε of one training for one undirected edge.

    Args:
        noise: σ, noise multiplier.
        rate: q, probability that an example is in a batch.
        steps: T.
        touched: k, examples that the edge can change.
        delta: δ.
    """
    return composed_epsilon((Steps(noise, rate, steps, touched),), delta)


@lru_cache(maxsize=1024)
def composed_epsilon(trainings: tuple[Steps, ...], delta: float) -> float:
    """ε of several trainings together for one undirected edge."""
    trainings = tuple(own for own in trainings if own.steps and own.touched)
    if not trainings:
        return 0.0
    if not all(own.noise for own in trainings) or delta <= 0:
        return math.inf
    bound = renyi_epsilon(sum(map(renyi_losses, trainings)), delta)
    if all(own.rate < 1 for own in trainings) and _moves(trainings) < _PLAIN_TO_SEE:
        bound = min(bound, _through_a_third(trainings, delta))
    return bound


def _moves(trainings: tuple[Steps, ...]) -> float:
    """By how many standard deviations the sum of all steps moves, about."""
    squares = (
        own.steps
        * (own.touched * own.rate) ** 2
        / (own.noise**2 + own.touched * own.rate * (1 - own.rate))
        for own in trainings
    )
    return math.sqrt(sum(squares))


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
    return renyi_epsilon(renyi_losses(Steps(noise, rate, steps, touched)), delta)


def renyi_losses(own: Steps) -> Losses:
    """ε_α for each of :data:`ORDERS`, as if it were known who is in a batch."""
    j = np.arange(own.touched + 1)
    chance = binom.logpmf(j, own.touched, own.rate)
    exponents = np.outer(ORDERS * (ORDERS - 1), 2 * (j / own.noise) ** 2)
    losses: Losses = own.steps * logsumexp(chance + exponents, axis=1) / (ORDERS - 1)
    return losses


def renyi_epsilon(losses: Losses | float, delta: float) -> float:
    """ε at δ of the losses of everything together."""
    from dp_accounting import rdp

    epsilon, _ = rdp.compute_epsilon(ORDERS, losses, delta)
    return float(epsilon)


def _through_a_third(trainings: tuple[Steps, ...], delta: float) -> float:
    from dp_accounting import pld

    interval = max(map(_interval, trainings))
    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    for own in trainings:
        accountant.compose(_group(own), own.steps)

    def holds(half: float) -> bool:
        spent: float = max(accountant.get_delta(half), _SMALLEST_DELTA) * (1 + math.exp(half))
        return spent <= delta

    low, high = 0.0, next(filter(holds, _HALVES), math.inf)
    if math.isinf(high):
        return high
    for _ in range(40):
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return 2 * high


def _interval(own: Steps) -> float:
    return float(_INTERVAL * max(1.0, own.touched / own.noise / _COARSER_ABOVE) ** 2)


def _group(own: Steps) -> "dp_event.DpEvent":
    """The addition of all examples that an edge touches, in one step."""
    from dp_accounting import dp_event

    j = np.arange(own.touched + 1)
    chance = binom.pmf(j, own.touched, own.rate)
    j, chance = j[chance > 0], chance[chance > 0]
    return dp_event.MixtureOfGaussiansDpEvent(
        own.noise, j.astype(float).tolist(), (chance / chance.sum()).tolist()
    )
