"""What the right guesses of an attacker prove about ε: the one-run audit.

Source: Steinke, Nasr and Jagielski 2023, "Privacy Auditing with One (1) Training Run", corollary
5.4 and appendix D. Of m secrets each is present by a fair coin of its own. An attacker makes r
guesses, a number fixed beforehand, and abstains on the others. If the mechanism is
(ε, δ)-private for every one of the secrets, then with W ~ Bin(r, e^ε / (1 + e^ε))

    P[at least c guesses are right] ≤ P[W ≥ c] + 2mδ · max_{1 ≤ i ≤ c} P[c > W ≥ c - i] / i.

Several runs with coins and noise of their own count as one: a coin affects only one of them, so
the runs together are as private as each, and their counts add up.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from scipy.stats import binom

from feddep.errors import InputError

Floats = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]

_HALVINGS = 40


@dataclass(frozen=True)
class Guesses:
    """How well an attacker guessed.

    Attributes:
        right: c, right guesses.
        made: r, guesses made; fixed before the run.
        canaries: m, all secrets, including those on which the attacker abstained.
    """

    right: int
    made: int
    canaries: int

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.made <= self.canaries:
            raise InputError(
                "expected right guesses ≤ guesses ≤ canaries "
                f"(got {self.right}, {self.made}, {self.canaries})"
            )

    def p_value(self, epsilon: float, delta: float = 0.0) -> float:
        """The bound above: how likely so many right guesses are if (ε, δ) holds."""
        wrong, miss = self.made - self.right, float(expit(-epsilon))
        # Counted by wrong guesses: 1 - q is exact where q, close to 1, is not.
        tail = float(binom.cdf(wrong, self.made, miss))
        if not delta or not self.right:
            return tail
        steps = np.arange(1, self.right + 1)
        below = binom.cdf(wrong + steps, self.made, miss) - tail
        return min(1.0, tail + 2 * self.canaries * delta * float((below / steps).max()))

    def lower_bound(self, delta: float = 0.0, confidence: float = 0.95) -> float:
        """The largest ε that these guesses refute with this confidence; 0 if they refute none."""
        level = 1 - confidence
        if self.p_value(0.0, delta) >= level:
            return 0.0
        low, high = 0.0, 1.0
        while self.p_value(high, delta) < level:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.p_value(middle, delta) < level:
                low = middle
            else:
                high = middle
        return low


def pooled(runs: Iterable[Guesses]) -> Guesses:
    """Several runs as one."""
    rows = [(run.right, run.made, run.canaries) for run in runs]
    right, made, canaries = (sum(column) for column in zip(*rows, strict=True))
    return Guesses(right, made, canaries)


def guess(
    scores: Floats, included: Bools, *, share: float = 1.0, threshold: float | None = None
) -> Guesses:
    """Guesses by score, and counts the right ones.

    Args:
        scores: ``(m,)``, higher where the attacker thinks it more likely that a canary is included.
        included: ``(m,)``, the coins.
        share: of the canaries to guess about, fixed beforehand. The attacker guesses "included"
            for the highest scores and "not" for as many of the lowest, and abstains in the
            middle. Equal scores are taken in the order given, which knows nothing of the coins.
        threshold: an attacker who knows it guesses about all canaries, "included" above it.
    """
    if not 0 < share <= 1:
        raise InputError(f"the share of canaries to guess about is in (0, 1] (got {share})")
    count = len(scores)
    if threshold is not None:
        right = np.count_nonzero((np.asarray(scores) > threshold) == included)
        return Guesses(int(right), count, count)
    each = int(share * count) // 2
    order = np.argsort(scores, kind="stable")
    lowest, highest = order[:each], order[count - each :]
    right = np.count_nonzero(~included[lowest]) + np.count_nonzero(included[highest])
    return Guesses(int(right), 2 * each, count)
