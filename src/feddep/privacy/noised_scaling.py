"""Gaussian noise on the sums from which silos agree on scales, and its price.

With cells cut to a range, each is a number u from -1 to 1, and one node adds (1, u, u²) to the sums
of each of k columns: a vector of norm √(3k) at most. N(0, σ²) on every sum is a Gaussian mechanism
with μ = √(3k)/σ for adding or removing one node; ε and δ follow exactly
(:func:`~feddep.privacy.noised_updates.gaussian_delta`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from feddep.errors import InputError
from feddep.privacy.noised_updates import gaussian_delta
from feddep.privacy.secret_stream import SecretStream
from feddep.tables.scaling import Doubles, Sums

_HALVINGS = 100
_FOR_ROUNDING = 1e-6


def spread_for(columns: int, epsilon: float, delta: float) -> float:
    """σ, in units of u, for (ε, δ) about one node in the sums of so many columns.

    Raises:
        InputError: ε or δ promises nothing.
    """
    if not (math.isfinite(epsilon) and epsilon > 0 and 0 < delta < 1):
        raise InputError(
            f"expected ε above 0 and δ between 0 and 1 (got {epsilon:g} and {delta:g})"
        )
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        small = middle == 0 or gaussian_delta(middle, epsilon) <= delta
        low, high = (middle, high) if small else (low, middle)
    return math.sqrt(3 * columns) * (1 + _FOR_ROUNDING) / low


def noised(
    sums: Sums,
    limits: Sequence[tuple[float, float]],
    epsilon: float,
    delta: float,
    rng: SecretStream,
) -> Sums:
    """The sums with noise.

    Args:
        sums: of cells that were cut to ``limits``.
        limits: of every column.
        epsilon: ε for one node.
        delta: δ.
        rng: a stream that nobody else can repeat and that is used once.
    """
    spread = spread_for(len(sums.columns), epsilon, delta)
    middle = np.array([(low + high) / 2 for low, high in limits])
    half = np.array([(high - low) / 2 for low, high in limits])
    count, total, squares = sums.table.T
    within = np.stack(
        [
            count,
            (total - count * middle) / half,
            (squares - 2 * middle * total + count * middle**2) / half**2,
        ],
        axis=1,
    )
    drawn = within + spread * rng.normals(within.size).reshape(within.shape)
    # From here on it is arithmetic that anybody could do: back to the units of the columns.
    count, total, squares = drawn.T
    raw: Doubles = np.stack(
        [
            count,
            half * total + count * middle,
            half**2 * squares + 2 * middle * half * total + count * middle**2,
        ],
        axis=1,
    )
    return replace(sums, table=raw, epsilon=epsilon, delta=delta)
