"""Scoring a classifier: full neighbourhoods, no dropout, counts rather than shares."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite, nan

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from feddep.graph.graph import Graph, Part
from feddep.learning.measures import (
    average_precision,
    balanced_accuracy,
    class_counts,
    macro_f1,
    precision_at_k,
    recall_at_fpr,
    roc_auc,
)
from feddep.learning.selection import POSITIVES, by_class, precision_names
from feddep.learning.spec import LearningSpec
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage

COUNTS = ("val_correct", "val_total", "test_correct", "test_total")
SCORE_NAMES = frozenset(COUNTS)

LARGEST_LOSS = 20.0
"""A node's loss counts no more than this, a probability of 2e-9: no node owns a mean."""


@dataclass(frozen=True)
class Scores:
    """How many validation and test nodes were classified correctly.

    Attributes:
        measures: what else was measured, such as ``test_macro_f1``.
    """

    val_correct: float = 0
    val_total: float = 0
    test_correct: float = 0
    test_total: float = 0
    measures: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def val(self) -> float | None:
        """Validation accuracy; None without validation nodes."""
        return self.val_correct / self.val_total if self.val_total else None

    @property
    def test(self) -> float | None:
        """Test accuracy; None without test nodes."""
        return self.test_correct / self.test_total if self.test_total else None


def pooled(reports: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Silo accuracies over the nodes of all clients, and their mean loss over training nodes.

    What else silos say of their validation nodes is put together too. A ranking is of one silo's
    nodes, so of ``val_average_precision_1`` and its like the plain mean counts, over the silos that
    can rank: those with nodes of both classes.

    Returns:
        ``silo_val``, ``silo_test``, ``loss`` and the others, each only if there are nodes to count.
    """
    rows = list(reports)
    val_correct, val_total, test_correct, test_total = (
        sum(row[name] for row in rows) for name in COUNTS
    )
    scores = Scores(val_correct, val_total, test_correct, test_total)
    found = {"silo_val": scores.val, "silo_test": scores.test}
    nodes = sum(row.get("training_nodes", 0) for row in rows)
    if nodes:
        found["loss"] = sum(row["loss"] * row["training_nodes"] for row in rows) / nodes
        if all(POSITIVES in row for row in rows):
            found["positive_share"] = min(1.0, sum(row[POSITIVES] for row in rows) / nodes)
    for name in ("val_roc_auc", *precision_names()):
        found[name] = _mean(row[name] for row in rows if name in row)
    if scores.val_total and all("val_loss" in row for row in rows):
        found["val_loss"] = sum(map(_summed_loss, rows)) / scores.val_total
    return {**_some(found), **_pooled_by_class(rows)}


def _summed_loss(row: Mapping[str, float]) -> float:
    """Over a silo's validation nodes; one that does not know its own loss has the largest."""
    loss = row["val_loss"] if isfinite(row["val_loss"]) else LARGEST_LOSS
    return loss * row["val_total"] if row["val_total"] else 0.0


def _pooled_by_class(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    classes = sum(name.startswith("val_called_") for name in rows[0]) if rows else 0
    if not classes:
        return {}
    sums = np.array([[row[name] for name in by_class(classes)] for row in rows], np.int64)
    right, of, called = sums.sum(axis=0).reshape(3, classes)
    counts = np.stack([np.minimum(right, np.minimum(of, called)), of, called])  # silos may lie
    return _some(
        {"val_balanced_accuracy": balanced_accuracy(counts), "val_macro_f1": macro_f1(counts)}
    )


def _mean(values: Iterable[float]) -> float | None:
    known = [value for value in values if isfinite(value)]
    return sum(known) / len(known) if known else None


def _some(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def predict(
    model: FusedSage, graph: Graph, table: FeatureTable, missing_embeddings: Tensor | None = None
) -> Tensor:
    """Class scores before softmax of every node, ``(n, classes)``.

    ``missing_embeddings`` holds z̄ of every node where the graph is mended; None is the paper's
    inference, z̄ = 0.
    """
    with torch.no_grad():
        return model.score_all(table, graph, missing_embeddings)


def score(
    model: FusedSage, graph: Graph, table: FeatureTable, missing_embeddings: Tensor | None = None
) -> Scores:
    """Counts on the validation and test nodes of ``graph``, mended or not."""
    return _counts(predict(model, graph, table, missing_embeddings), graph)


def measure(model: FusedSage, graph: Graph, table: FeatureTable) -> Scores:
    """Counts on a graph, and all that can be measured on its validation and test nodes."""
    scores = predict(model, graph, table)
    positive = rarer_class(graph)
    found = {
        f"{part.name.lower()}_{name}": value
        for part in (Part.VAL, Part.TEST)
        for name, value in measures_of(scores, graph, part, positive).items()
    }
    return replace(_counts(scores, graph), measures=found)


def measures_of(scores: Tensor, graph: Graph, part: Part, positive: int) -> dict[str, float]:
    """Measures besides accuracy on some nodes of a graph; those that there are.

    Args:
        scores: of every node, before softmax.
        graph: with labels and split.
        part: of which nodes.
        positive: of two classes, the one that is looked for.
    """
    nodes = graph.members(part)
    labels, own = graph.labels[nodes], scores.cpu()[nodes]
    counts = class_counts(labels, own.argmax(dim=1).numpy(), scores.shape[1])
    found = {"balanced_accuracy": balanced_accuracy(counts), "macro_f1": macro_f1(counts)}
    if scores.shape[1] == 2:
        ahead, truth = _ahead(own, positive), labels == positive
        found |= {
            "average_precision": average_precision(truth, ahead),
            "roc_auc": roc_auc(truth, ahead),
            "precision_at_k": precision_at_k(truth, ahead),
            "recall_at_fpr": recall_at_fpr(truth, ahead),
        }
    return _some(found)


def rarer_class(graph: Graph) -> int:
    """Of two classes the one with fewer training nodes; class 1 if they have as many."""
    labels = graph.labels[graph.members(Part.TRAIN)]
    return int(np.count_nonzero(labels == 1) <= np.count_nonzero(labels == 0))


def said(
    model: FusedSage,
    graph: Graph,
    table: FeatureTable,
    spec: LearningSpec,
    missing_embeddings: Tensor | None = None,
) -> dict[str, float]:
    """What a client says of a classifier: counts, and what ``spec.selection`` asks for besides."""
    scores = predict(model, graph, table, missing_embeddings)
    counts = asdict(_counts(scores, graph))
    del counts["measures"]
    asked = spec.selection.said(spec.classes)
    return counts | (_on_validation(scores, graph, asked) if asked else {})


def _on_validation(scores: Tensor, graph: Graph, asked: Collection[str]) -> dict[str, float]:
    """The numbers asked for; NaN where the validation nodes do not allow one."""
    nodes, classes = graph.members(Part.VAL), scores.shape[1]
    labels, own = graph.labels[nodes], scores.cpu()[nodes]
    found: dict[str, float | None] = {}
    if "val_loss" in asked:
        found["val_loss"] = _mean_loss(own, labels)
    if "val_right_0" in asked:
        counts = class_counts(labels, own.argmax(dim=1).numpy(), classes)
        found |= dict(zip(by_class(classes), map(int, counts.ravel()), strict=True))
    if "val_roc_auc" in asked:
        found["val_roc_auc"] = roc_auc(labels == 1, _ahead(own, 1))
    for positive, name in enumerate(precision_names()):
        if name in asked:
            found[name] = average_precision(labels == positive, _ahead(own, positive))
    if POSITIVES in asked:
        found[POSITIVES] = int(np.count_nonzero(graph.labels[graph.members(Part.TRAIN)] == 1))
    return {name: nan if value is None else value for name, value in found.items()}


def _mean_loss(scores: Tensor, labels: npt.NDArray[np.int64]) -> float | None:
    if not len(labels):
        return None
    losses = cross_entropy(scores.double(), torch.as_tensor(labels), reduction="none")
    return float(losses.nan_to_num(LARGEST_LOSS).clamp(max=LARGEST_LOSS).mean())


def _ahead(scores: Tensor, positive: int) -> npt.NDArray[np.float64]:
    """How far the positive one of two classes is ahead; it orders nodes as its probability does."""
    exact = scores.double()
    found: npt.NDArray[np.float64] = (exact[:, positive] - exact[:, 1 - positive]).numpy()
    return found


def _counts(scores: Tensor, graph: Graph) -> Scores:
    right = scores.argmax(dim=1).cpu().numpy() == graph.labels
    val, test = graph.mask(Part.VAL), graph.mask(Part.TEST)
    return Scores(
        val_correct=int(np.count_nonzero(right & val)),
        val_total=int(np.count_nonzero(val)),
        test_correct=int(np.count_nonzero(right & test)),
        test_total=int(np.count_nonzero(test)),
    )
