"""Measures of a classification: plain functions of labels and predictions.

Each is None where it cannot be computed, as a ranking of nodes that all have the same class.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Truth = npt.NDArray[np.bool_]


def class_counts(labels: Whole, chosen: Whole, classes: int) -> Whole:
    """How many nodes of each class are right, how many there are, how many were called so.

    Returns:
        ``(3, classes)``.
    """
    right = labels[labels == chosen]
    return np.stack([np.bincount(of, minlength=classes) for of in (right, labels, chosen)])


def balanced_accuracy(counts: Whole) -> float | None:
    """The mean of right / of over the classes that have nodes."""
    right, of, _ = counts
    there = of > 0
    return float((right[there] / of[there]).mean()) if there.any() else None


def macro_f1(counts: Whole) -> float | None:
    """The mean of F1 = 2 right / (of + called) over the classes that have nodes or were named."""
    right, of, called = counts
    there = of + called > 0
    return float((2 * right[there] / (of + called)[there]).mean()) if there.any() else None


def roc_auc(positive: Truth, scores: Floats) -> float | None:
    """The probability that a positive node stands above a negative one; equal scores count half."""
    found = _ranked(positive, scores)
    if found is None:
        return None
    hits, misses = found
    sides = np.diff(misses, prepend=0) * (hits + np.concatenate([[0], hits[:-1]])) / 2
    return float(sides.sum() / (hits[-1] * misses[-1]))


def average_precision(positive: Truth, scores: Floats) -> float | None:
    """Σ (Rₙ - Rₙ₋₁) Pₙ over the distinct scores from the highest on (as in scikit-learn)."""
    found = _ranked(positive, scores)
    if found is None:
        return None
    hits, misses = found
    gained = np.diff(hits, prepend=0) / hits[-1]
    return float((gained * hits / (hits + misses)).sum())


def precision_at_k(positive: Truth, scores: Floats) -> float | None:
    """The share of positive nodes among the k highest scores, k being their number.

    Of nodes with equal scores at the border, each is taken with the same probability.
    """
    found = _ranked(positive, scores)
    if found is None:
        return None
    hits, misses = (np.concatenate([[0], of]) for of in found)
    k = hits[-1]
    return float(np.interp(k, hits + misses, hits) / k)


def recall_at_fpr(positive: Truth, scores: Floats, rate: float = 0.01) -> float | None:
    """The largest share of positives above a bound that no more than ``rate`` negatives pass."""
    found = _ranked(positive, scores)
    if found is None:
        return None
    hits, misses = found
    allowed = hits[misses <= rate * misses[-1]]
    return float(allowed[-1] / hits[-1]) if len(allowed) else 0.0


def best_threshold(positive: Truth, probability: Floats) -> float | None:
    """The probability from which on nodes are called positive so that F1 is highest.

    It lies half-way to the next lower probability, so that it does not depend on the last digit.
    """
    found = _ranked(positive, probability)
    if found is None:
        return None
    hits, misses = found
    best = int((2 * hits / (hits[-1] + hits + misses)).argmax())
    values = np.unique(np.nan_to_num(probability))[::-1]
    below = values[best + 1] if best + 1 < len(values) else 0.0
    return float((values[best] + below) / 2)


def _ranked(positive: Truth, scores: Floats) -> tuple[Whole, Whole] | None:
    """How many positives and negatives have at least each distinct score, the highest first.

    A score that is no number is the lowest. None if all nodes are of one class.
    """
    if positive.all() or not positive.any():
        return None
    levels, place = np.unique(np.nan_to_num(scores, nan=-np.inf), return_inverse=True)
    at = [np.bincount(place[of], minlength=len(levels)) for of in (positive, ~positive)]
    hits, misses = (np.cumsum(of[::-1]) for of in at)
    return hits, misses
