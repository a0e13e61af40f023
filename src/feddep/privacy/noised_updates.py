"""What noised updates cost a whole silo, by themselves.

In every round a client sends the change of its weights, clipped to norm C, plus N(0, (σC)²). If
*all* of the silo's data are replaced, a change of norm C becomes another one of norm C: they differ
by 2C at most. So R rounds are R Gaussian mechanisms of sensitivity 2C and noise σC, one for each
answer, whatever the server sends in between: local DP for the silo as a unit, and so for each of
its edges, nodes and labels.

That is the price of the updates alone. A client also sends scores and a loss, without noise, and
as long as these are computed from the same data, the silo as a whole is promised nothing.
"""

import math

from scipy.stats import norm

SLACK = 1e-4
"""Relative; a clipped change is no longer than C(1 + SLACK), for rounding."""

_HALVINGS = 60


def silo_epsilon(noise: float, rounds: int, delta: float) -> float:
    """ε at δ for replacing all data of a silo, of the noised updates of all rounds alone.

    Gaussian mechanisms compose to one (Dong, Roth and Su 2022): with μ = 2√R/σ,
    δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) exactly (Balle and Wang 2018).

    Args:
        noise: σ, noise multiplier.
        rounds: R.
        delta: δ.
    """
    if rounds == 0:
        return 0.0
    if noise == 0 or delta <= 0:
        return math.inf
    mu = 2 * (1 + SLACK) * math.sqrt(rounds) / noise
    low, high = 0.0, 1.0
    while gaussian_delta(mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(mu, middle) <= delta else (middle, high)
    return high


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ at ε of a Gaussian mechanism whose answers move by μ standard deviations."""
    first = norm.logcdf(mu / 2 - epsilon / mu)
    second = epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
    return float(math.exp(first) * -math.expm1(min(0.0, second - first)))
