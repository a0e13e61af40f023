"""Scoring a classifier: full neighbourhoods, no dropout, counts rather than shares."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from feddep.graph.graph import Graph, Part
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage

SCORE_NAMES = frozenset({"val_correct", "val_total", "test_correct", "test_total"})


@dataclass(frozen=True)
class Scores:
    """How many validation and test nodes were classified correctly."""

    val_correct: float = 0
    val_total: float = 0
    test_correct: float = 0
    test_total: float = 0

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

    Returns:
        ``silo_val``, ``silo_test`` and ``loss``, each only if there are nodes to count.
    """
    rows = list(reports)
    sums = {name: sum(row[name] for row in rows) for name in SCORE_NAMES}
    scores = Scores(**sums)
    found = {"silo_val": scores.val, "silo_test": scores.test}
    nodes = sum(row.get("training_nodes", 0) for row in rows)
    if nodes:
        found["loss"] = sum(row["loss"] * row["training_nodes"] for row in rows) / nodes
    return {name: value for name, value in found.items() if value is not None}


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
    right = (
        predict(model, graph, table, missing_embeddings).argmax(dim=1).cpu().numpy() == graph.labels
    )
    val, test = graph.mask(Part.VAL), graph.mask(Part.TEST)
    return Scores(
        val_correct=int(np.count_nonzero(right & val)),
        val_total=int(np.count_nonzero(val)),
        test_correct=int(np.count_nonzero(right & test)),
        test_total=int(np.count_nonzero(test)),
    )
