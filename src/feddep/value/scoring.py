"""Scores of predictions on a silo's own test nodes, and their distribution under resampling.

Nodes are resampled with replacement, the same for every method, so differences between methods are
paired. A resample is a table of weights: how often each node was drawn.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

RARE = 0.2
"""A class with a smaller share than this is what is looked for: accuracy would say nothing."""

_WEIGHTS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Metric:
    """How predictions are scored.

    Attributes:
        name: average precision or accuracy.
        positive: number of the class that is looked for; None for accuracy.
    """

    name: str
    positive: int | None = None

    @classmethod
    def for_classes(cls, training_labels: Longs, classes: int) -> "Metric":
        """Average precision of the rarer of two classes, if it is rare; otherwise accuracy."""
        counts = np.bincount(training_labels, minlength=classes)
        if classes == 2 and 0 < counts.min() < RARE * counts.sum():
            return cls("average precision", int(counts.argmin()))
        return cls("accuracy")

    def score(self, labels: Longs, probabilities: Floats) -> float | None:
        """The score of all nodes; None if there is nothing to score."""
        found = self.scores(labels, probabilities, np.ones((1, len(labels))))
        return None if np.isnan(found[0]) else float(found[0])

    def scores(self, labels: Longs, probabilities: Floats, weights: Floats) -> Floats:
        """``(R,)`` scores under ``(R, n)`` weights; NaN where there is nothing to score."""
        if self.positive is None:
            right = (probabilities.argmax(axis=1) == labels).astype(np.float64)
            return _ratio(weights @ right, weights.sum(axis=1))
        return _average_precision(labels == self.positive, probabilities[:, self.positive], weights)


def resampled(rng: np.random.Generator, nodes: int, times: int) -> Floats:
    """``(times, nodes)``: how often each node was drawn when as many are drawn as there are."""
    return rng.multinomial(nodes, np.full(nodes, 1 / nodes), size=times).astype(np.float64)


def times_at_once(nodes: int, times: int) -> int:
    """How many resamples fit into memory that does not grow with the silo."""
    return max(1, min(times, _WEIGHTS_AT_ONCE // max(nodes, 1)))


def hits(positive: npt.NDArray[np.bool_], scores: Floats) -> tuple[int, int]:
    """Of as many nodes as there are positive ones, the highest first: how many are positive."""
    count = int(positive.sum())
    return int(positive[np.argsort(-scores, kind="stable")[:count]].sum()), count


def _average_precision(positive: npt.NDArray[np.bool_], scores: Floats, weights: Floats) -> Floats:
    """The sum over thresholds of precision times the recall gained, nodes with equal scores alike.

    As scikit-learn's, for many tables of weights at once.
    """
    order = np.argsort(-scores, kind="stable")
    falling = scores[order]
    ends = np.append(np.flatnonzero(np.diff(falling)), len(falling) - 1)
    drawn = weights[:, order]
    found = np.cumsum(drawn * positive[order], axis=1)[:, ends]
    flagged = np.cumsum(drawn, axis=1)[:, ends]
    gained = np.diff(found, axis=1, prepend=0.0)
    precision = found / np.maximum(flagged, 1.0)
    return _ratio((gained * precision).sum(axis=1), found[:, -1])


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.full_like(below, np.nan), where=below > 0)
