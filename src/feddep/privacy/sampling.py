"""What sampling neighbour lists is worth: the paper's numbers, and the exact ones."""

import math


def paper_step(degree: int, fanout: int) -> tuple[float, float]:
    """(ε, δ) of one draw from one list, as the paper's Theorem 3.1 states it.

    Without replacement (d < D): (ln((D+1)/(D+1-d)), d/D). With replacement:
    (d ln((D+1)/D), 1 - ((D-1)/D)^d).
    """
    if fanout < degree:
        return math.log((degree + 1) / (degree + 1 - fanout)), fanout / degree
    missed: float = ((degree - 1) / degree) ** fanout
    return fanout * math.log((degree + 1) / degree), 1 - missed


def compose(epsilon: float, delta: float, times: int, delta_prime: float) -> tuple[float, float]:
    """The composition that the paper cites (Kairouz et al. 2015, its B.3), of equal steps.

    ε̃ = min{kε, kε (e^ε - 1)/(e^ε + 1) + ε U √(2k)}, U = min{√ln(e + ε√k/δ'), √ln(1/δ')},
    δ̃ = 1 - (1-δ)^k (1-δ').
    """
    if times == 0:
        return 0.0, 0.0
    spread = min(
        math.sqrt(math.log(math.e + epsilon * math.sqrt(times) / delta_prime)),
        math.sqrt(math.log(1 / delta_prime)),
    )
    advanced = times * epsilon * math.tanh(epsilon / 2) + epsilon * spread * math.sqrt(2 * times)
    composed = 1 - (1 - delta) ** times * (1 - delta_prime)
    return min(times * epsilon, advanced), composed


def as_printed(
    epsilon: float, delta: float, times: int, delta_prime: float, keep: float
) -> tuple[float, float]:
    """The paper's composition as it is printed, Bernoulli sampler included.

    Two errors of the paper are kept: δ̃ = (1-δ)^k (1-δ') goes to 0 where the true value goes to 1,
    and a sampler of *outputs* is counted as if it sampled the input.
    """
    composed, _ = compose(epsilon, delta, times, delta_prime)
    printed = (1 - delta) ** times * (1 - delta_prime)
    # ln(1 + r (e^ε - 1)) without overflow.
    if composed > 700:
        return composed + math.log(keep), keep * printed
    return math.log1p(keep * math.expm1(composed)), keep * printed


def draw_delta(degree: int, fanout: int) -> float:
    """Exact δ of one draw from a list of ``degree`` entries, against a list with one entry less.

    It is the total variation between the two samples; no ε > 0 lowers it. Where the rule switches,
    at degree d + 1, duplicates tell the lists apart: P[all distinct] = d!/d^d.
    """
    if degree <= 0:
        return 0.0
    if degree == 1:
        return 1.0
    if fanout < degree - 1:
        return fanout / degree
    if fanout == degree - 1:
        distinct: float = math.factorial(fanout) / fanout**fanout
        return 1 - min(distinct, 1 / degree)
    missed: float = ((degree - 1) / degree) ** fanout
    return 1 - missed


def one_shot_delta(degree: int, fanout: int) -> float:
    """Exact δ of one sample without replacement; short lists are revealed whole."""
    return min(1.0, fanout / degree) if degree else 0.0
