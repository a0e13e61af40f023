"""What several releases of a silo's graph cost one undirected edge together.

Releases are told by the events whose prices bound them (:func:`~.accountant.bounding`). Each is
independent of the others: its noise is its own. Then

- randomised response adds its ε, whatever else there is (basic composition, δ = 0);
- DP-SGD with a cap composes step by step (:func:`~.edge_level.composed_epsilon`);
- noised sums compose as one Gaussian mechanism (:func:`~.aggregation.edge_epsilon`), at half of δ
  where there is other noise too; that they share noise is not counted.
"""

import math
from collections.abc import Iterable

from feddep.privacy.accountant import flip_epsilon
from feddep.privacy.aggregation import edge_epsilon, sums_event
from feddep.privacy.edge_level import Steps, composed_epsilon
from feddep.privacy.events import (
    CappedGradients,
    Event,
    NoisedSums,
    RandomisedResponse,
    SparseResponse,
)
from feddep.privacy.response import response_rates
from feddep.privacy.spec import PrivacySpec

ROUNDING = 1e-9
"""Relative; sums of decimal fractions must not exceed a budget by their last digit."""


def total_epsilon(events: Iterable[Event], delta: float) -> float:
    """ε at δ of all releases together; infinite where an event has no price for an edge.

    Args:
        events: the bounding events of all releases; of releases that are the same, once.
        delta: δ for all of them together; without any noise on gradients it is not used up.
    """
    flips, sums, trainings = [], [], []
    for event in events:
        if isinstance(event, RandomisedResponse | SparseResponse):
            flips.append(flip_epsilon(event))
        elif isinstance(event, NoisedSums):
            sums.append(event)
        elif isinstance(event, CappedGradients):
            trainings.append(Steps(event.noise, event.rate, event.steps, event.touched))
        else:
            return math.inf
    share = delta / 2 if sums and trainings else delta
    noised = composed_epsilon(_merged(trainings), share) + edge_epsilon(sums, share)
    return math.fsum(flips) + noised


def shown_rates(spec: PrivacySpec) -> list[float] | None:
    """The rates of a mechanism that shows the same whenever it is asked: q₁ and q₀, or σ and K.

    None where noise is drawn anew in each run.
    """
    if spec.sums:
        event = sums_event(spec)
        return [event.noise, float(event.hops)]
    if spec.mechanism == "randomised-response":
        return [*response_rates(spec.epsilon, spec.keep_edge)]
    return None


def needs_delta(events: Iterable[Event]) -> bool:
    """Whether the price of some release depends on δ."""
    return any(not isinstance(event, RandomisedResponse | SparseResponse) for event in events)


def exceeds(epsilon: float, budget: float) -> bool:
    """Whether ε is more than the budget, but for rounding."""
    return not epsilon <= budget * (1 + ROUNDING)


def _merged(trainings: Iterable[Steps]) -> tuple[Steps, ...]:
    """The same steps in an order of their own, those of equal settings together."""
    steps: dict[tuple[float, float, int], int] = {}
    for own in trainings:
        key = (own.noise, own.rate, own.touched)
        steps[key] = steps.get(key, 0) + own.steps
    return tuple(
        Steps(noise, rate, count, touched)
        for (noise, rate, touched), count in sorted(steps.items())
    )
