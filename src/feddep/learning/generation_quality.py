"""What generated neighbours are worth: how many, what they tell, and whether F listens.

Measurements by whoever runs a simulation, like the score on the whole graph. Nothing of them is
sent, nothing is trained on them, and no label of a test node is read.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from feddep.graph.graph import Features, Graph, Part

NAMES = (
    "count_mean",
    "count_sd",
    "count_correlation",
    "share_mended",
    "probe",
    "probe_own",
    "probe_majority",
    "weight_ratio",
    "changed",
)
"""What is measured, beside the clients whose generator is dead."""

_ITERATIONS = 100
_WIDE = 2  # columns for each row, from which on a short basis is worth finding


@dataclass(frozen=True, eq=False)
class SiloQuality:
    """What is known about one silo's generated neighbours in the best round.

    Attributes:
        graph: the silo's own subgraph, n nodes.
        rows: ``(n, k)`` the mean of each node's generated neighbours, zero where there are none.
        counts: ``(n,)`` how many neighbours each node was thought to miss; None if nobody counted.
        lost: ``(n,)`` how many it does miss; None if nobody knows.
        own: ``(n, ·)`` the nodes' own embeddings, of the kind that is generated.
        with_rows: ``(n,)`` F's predictions on the mended subgraph.
        without_rows: ``(n,)`` F's predictions where nothing is mended.
    """

    graph: Graph
    rows: npt.NDArray[np.float32]
    counts: npt.NDArray[np.float32] | None
    lost: npt.NDArray[np.int64] | None
    own: Features | None
    with_rows: npt.NDArray[np.int64]
    without_rows: npt.NDArray[np.int64]

    @property
    def mended(self) -> npt.NDArray[np.bool_]:
        """``(n,)`` which nodes have a generated neighbour."""
        return np.asarray(self.rows.any(axis=1))


def measure_generation(
    silos: Sequence[SiloQuality], weight_ratio: float | None
) -> dict[str, float | None]:
    """The measurements of :data:`NAMES` over all silos; None where one cannot be made.

    The probe is a logistic regression at each silo, from z̄ to the class, fitted on training nodes
    and scored on validation nodes. Only nodes with a generated neighbour take part: z̄ of the others
    is 0 by design, and a generator is right to leave nodes alone that miss nothing. ``probe_own``
    is the same from own embeddings of the same nodes, ``probe_majority`` from nothing at all.
    """
    counted = [silo for silo in silos if silo.counts is not None]
    counts = _joined([silo.counts for silo in counted if silo.counts is not None])
    lost = _joined([silo.lost for silo in counted if silo.lost is not None])
    nodes = sum(silo.graph.nodes for silo in silos)
    asked = [silo.graph.mask(Part.VAL) | silo.graph.mask(Part.TEST) for silo in silos]
    changed = sum(
        int(np.count_nonzero((silo.with_rows != silo.without_rows)[chosen]))
        for silo, chosen in zip(silos, asked, strict=True)
    )
    total = sum(int(np.count_nonzero(chosen)) for chosen in asked)
    return {
        "count_mean": float(counts.mean()) if len(counts) else None,
        "count_sd": float(counts.std()) if len(counts) else None,
        "count_correlation": _correlation(counts, lost),
        "share_mended": sum(int(silo.mended.sum()) for silo in silos) / nodes if nodes else None,
        "probe": _accuracy(silos, lambda silo: silo.rows),
        "probe_own": _accuracy(silos, lambda silo: silo.own),
        "probe_majority": _accuracy(
            silos, lambda silo: np.zeros((silo.graph.nodes, 1), np.float32)
        ),
        "weight_ratio": weight_ratio,
        "changed": changed / total if total else None,
    }


def _joined(parts: Sequence[npt.NDArray[np.generic]]) -> npt.NDArray[np.float64]:
    found = np.concatenate(parts).astype(np.float64) if parts else np.zeros(0)
    return found if np.isfinite(found).all() else np.zeros(0)  # a generator that has run away


def _correlation(counts: npt.NDArray[np.float64], lost: npt.NDArray[np.float64]) -> float | None:
    if len(counts) != len(lost) or len(counts) < 2 or not counts.std() or not lost.std():
        return None
    return float(np.corrcoef(counts, lost)[0, 1])


def _accuracy(
    silos: Sequence[SiloQuality], rows_of: Callable[[SiloQuality], Features | None]
) -> float | None:
    """The share of validation nodes that a probe at each silo gets right, over all silos."""
    right = total = 0
    for silo in silos:
        rows, labels = rows_of(silo), silo.graph.labels
        if rows is None:
            return None
        chosen = silo.mended & (labels >= 0)
        fitted, scored = (
            np.flatnonzero(silo.graph.mask(part) & chosen) for part in (Part.TRAIN, Part.VAL)
        )
        if len(fitted) and len(scored):
            found = _probed(rows[fitted], labels[fitted], rows[scored])
            right += int(np.count_nonzero(found == labels[scored]))
            total += len(scored)
    return right / total if total else None


def _probed(
    rows: Features, labels: npt.NDArray[np.int64], others: Features
) -> npt.NDArray[np.int64]:
    """Labels of other rows after a logistic regression; with a single class, always that one.

    Rows are brought to the same size: the regression's penalty would find nothing in small ones.
    """
    if len(np.unique(labels)) == 1:
        return np.full(others.shape[0], labels[0])
    size = _spread(rows)
    rows, others = _in_their_span(rows, others)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a probe need not be the best
        found: npt.NDArray[np.int64] = (
            LogisticRegression(max_iter=_ITERATIONS).fit(rows / size, labels).predict(others / size)
        )
    return found


def _in_their_span(rows: Features, others: Features) -> tuple[Features, Features]:
    """Both as coordinates in the span of the rows, if that has far fewer dimensions.

    The regression's weights are a sum of rows, so it stays the same; on a thousand columns of words
    it takes a fraction of the time. With X Xᵀ = V Λ Vᵀ, the basis is Xᵀ V Λ^-½.
    """
    count, width = rows.shape
    if width <= _WIDE * count:
        return rows, others
    gram, across = _products(rows, rows), _products(others, rows)
    values, vectors = np.linalg.eigh(gram)
    some = values > max(values[-1], 0) * count * np.finfo(np.float32).eps
    basis = vectors[:, some] / np.sqrt(values[some])
    if not some.any():  # nothing but zeros
        return np.zeros((count, 1), np.float32), np.zeros((others.shape[0], 1), np.float32)
    return (gram @ basis).astype(np.float32), (across @ basis).astype(np.float32)


def _products(one: Features, other: Features) -> npt.NDArray[np.float64]:
    """One times the other transposed."""
    found: Any = one @ other.T
    dense: npt.NDArray[np.generic] = found if isinstance(found, np.ndarray) else found.toarray()
    return dense.astype(np.float64)


def _spread(rows: Features) -> float:
    """The standard deviation of the entries, each around its column's mean; 1 if there is none."""
    squares = (rows * rows).mean() - np.square(rows.mean(axis=0)).mean()
    return float(np.sqrt(max(squares, 0.0))) or 1.0
