"""Randomised response on one bit: what two rates cost, and which rates an ε allows.

A bit that is 1 stays so with probability q₁ (``keep``); one that is 0 becomes 1 with q₀
(``create``). Seeing a 1 changes the odds of the bit by a factor of q₁/q₀, seeing a 0 by
(1 - q₀)/(1 - q₁), so

    ε = max(ln(q₁/q₀), ln((1 - q₀)/(1 - q₁))).

Both are equal at q₁ = 1 - q₀ = e^ε/(1 + e^ε), the symmetric form (Warner 1965). Below that q₁ the
first decides, q₀ = q₁e^-ε; above it the second, and q₀ grows steeply.
"""

import math

from feddep.privacy.events import RandomisedResponse, SparseResponse

_LARGEST_EXPONENT = 700.0  # e^709 is too large for a float


def response_epsilon(keep: float, create: float) -> float:
    """ε of the two rates, in either order; infinite where an outcome proves the bit."""
    if keep == create:
        return 0.0
    if min(keep, create) <= 0 or max(keep, create) >= 1:
        return math.inf
    ones = math.log(keep) - math.log(create)
    zeros = math.log1p(-create) - math.log1p(-keep)
    return max(abs(ones), abs(zeros))


def smallest_create(epsilon: float, keep: float) -> float:
    """The smallest q₀ that ε allows: max(q₁e^-ε, 1 - (1 - q₁)e^ε).

    If rounding leaves it a little too small, and so the price above ε, it is raised.
    """
    exponent = min(epsilon, _LARGEST_EXPONENT)
    create = max(keep * math.exp(-exponent), 1 - (1 - keep) * math.exp(exponent))
    step = math.ulp(create)
    while response_epsilon(keep, create) > epsilon:
        create = min(keep, create + step)
        step *= 2
    return create


def is_symmetric(epsilon: float, keep: float) -> bool:
    """Whether q₁ = ``keep`` at ε is the symmetric form: it is 0, or its rate but for rounding."""
    symmetric = 1 / (1 + math.exp(-min(epsilon, _LARGEST_EXPONENT)))
    return not keep or math.isclose(keep, symmetric, rel_tol=1e-9)


def response_rates(epsilon: float, keep: float = 0.0) -> tuple[float, float]:
    """(q₁, q₀) of randomised response at ε that keeps edges with q₁ = ``keep``; 0: symmetric."""
    if not is_symmetric(epsilon, keep):
        return keep, smallest_create(epsilon, keep)
    create = 1 / (1 + math.exp(min(epsilon, _LARGEST_EXPONENT)))
    return 1 - create, create


def largest_keep(epsilon: float, create: float) -> float:
    """The largest q₁ that q₀ allows: min(q₀e^ε, 1 - (1 - q₀)e^-ε)."""
    exponent = min(epsilon, _LARGEST_EXPONENT)
    return min(create * math.exp(exponent), 1 - (1 - create) * math.exp(-exponent))


def response_event(epsilon: float, keep: float) -> RandomisedResponse | SparseResponse:
    """Randomised response at ε: symmetric, or with edges kept at a rate of its own."""
    if is_symmetric(epsilon, keep):
        return RandomisedResponse(epsilon)
    return SparseResponse(*response_rates(epsilon, keep))


def attains(event: RandomisedResponse | SparseResponse) -> bool:
    """Whether an edge that is shown is e^ε times as likely to be real, as nothing else could be."""
    if isinstance(event, RandomisedResponse):
        return True
    epsilon = response_epsilon(event.keep, event.create)
    return math.isclose(math.log(event.keep / event.create), epsilon, rel_tol=1e-9)
