"""What the classifier of the best round is worth on the silos' nodes, by what fits the task.

Every silo is measured where its data are: in a simulation by whoever has them all, after the run
and outside the protocol; between machines by the silo, for itself alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from feddep.algorithms.method import Method
from feddep.errors import InputError
from feddep.graph.graph import Graph, Part
from feddep.learning.classifier import Classifier, softmax
from feddep.learning.evaluation import measures_of, rarer_class
from feddep.learning.measures import (
    balanced_accuracy,
    best_threshold,
    class_counts,
    macro_f1,
)
from feddep.runs.clients import ClientPart
from feddep.runs.prediction import mended_for

PARTS = (Part.VAL, Part.TEST)
RANKINGS = ("average_precision", "roc_auc", "precision_at_k", "recall_at_fpr")
DIGITS = 6


@dataclass(frozen=True, eq=False)
class Scored:
    """A silo's graph, and the scores before softmax of each of its nodes."""

    graph: Graph
    scores: Tensor


def scored(
    method: Method,
    models: Sequence[Classifier],
    graphs: Sequence[Graph],
    clients: Mapping[int, ClientPart],
) -> list[Scored] | None:
    """Every silo's nodes, mended as in the best round; None if that was not kept everywhere."""
    if not models:
        return None
    found = []
    for client, graph in enumerate(graphs):
        model = models[client] if len(models) > 1 else models[0]
        try:
            mended = mended_for(model, graph, method, client, clients[client])
        except (InputError, LookupError):  # silos keep it, or it is a mender of somebody's own
            return None
        found.append(Scored(graph, model.scores(mended)[: graph.nodes]))
    return found


def measured(silos: Sequence[Scored], metric: str, positive: int | None = None) -> dict[str, Any]:
    """The entry ``measures`` of a record.

    Args:
        silos: one, or all of a simulation.
        metric: by what the round was chosen, for the comparison with the majority class.
        positive: of two classes, the one that is looked for; None takes the rarer one.
    """
    classes = silos[0].scores.shape[1]
    trained = np.sum([_class_counts(silo.graph, Part.TRAIN, classes) for silo in silos], axis=0)
    if positive is None:
        positive = int(trained[1] <= trained[0]) if classes == 2 else 0
    pooled = {part.name.lower(): _pooled(silos, part, positive) for part in PARTS}
    most = Tensor(np.eye(classes)[int(np.argmax(trained))])
    constant = [Scored(silo.graph, most.expand(len(silo.scores), -1)) for silo in silos]
    found: dict[str, Any] = {
        "positive": positive if classes == 2 else None,
        "pooled": pooled,
        "majority": _against_majority(pooled, _pooled(constant, Part.TEST, positive), metric),
        "threshold": _threshold(silos, positive) if classes == 2 else None,
        "silos": [
            {part.name.lower(): _rounded(_own(silo, part, positive)) for part in PARTS}
            for silo in silos
        ],
    }
    return found


def accuracies(measures: Mapping[str, Any]) -> dict[str, float | None]:
    """Accuracy on test and validation nodes; None without nodes."""
    return {part: measures["pooled"][part].get("accuracy") for part in ("test", "val")}


def own_measures(silo: Scored, metric: str) -> dict[str, Any]:
    """A silo's own measures, for itself."""
    positive = rarer_class(silo.graph) if silo.scores.shape[1] == 2 else None
    found = measured([silo], metric, positive)
    del found["silos"]
    return found


def _own(silo: Scored, part: Part, positive: int) -> dict[str, float]:
    nodes = silo.graph.members(part)
    if not len(nodes):
        return {"nodes": 0}
    right = silo.scores.argmax(dim=1).numpy()[nodes] == silo.graph.labels[nodes]
    return {
        "nodes": len(nodes),
        "accuracy": float(right.mean()),
        **measures_of(silo.scores, silo.graph, part, positive),
    }


def _pooled(silos: Sequence[Scored], part: Part, positive: int) -> dict[str, float]:
    """Counts of all silos together; of a ranking the mean over the silos that have both classes."""
    classes = silos[0].scores.shape[1]
    counts = np.sum([_counts(silo, part, classes) for silo in silos], axis=0)
    total = int(counts[1].sum())
    if not total:
        return {"nodes": 0}
    found: dict[str, float | None] = {
        "nodes": total,
        "accuracy": float(counts[0].sum() / total),
        "balanced_accuracy": balanced_accuracy(counts),
        "macro_f1": macro_f1(counts),
    }
    own = [measures_of(silo.scores, silo.graph, part, positive) for silo in silos]
    for name in RANKINGS:
        values = [row[name] for row in own if name in row]
        found[name] = sum(values) / len(values) if values else None
    return _rounded(found)


def _against_majority(
    pooled: Mapping[str, Mapping[str, float]], constant: Mapping[str, float], metric: str
) -> dict[str, Any] | None:
    """Whether the test nodes say more for the classifier than for calling all nodes the same."""
    name = metric if metric in constant else "accuracy"
    value, least = pooled["test"].get(name), constant.get(name)
    if value is None or least is None:
        return None
    return {"metric": name, "value": least, "beaten": value > least}


def _threshold(silos: Sequence[Scored], positive: int) -> dict[str, float] | None:
    """From which probability on a node is called positive, and what comes of that on test nodes.

    It is the one with the highest F1 on all validation nodes.
    """
    truth, probability = _of_part(silos, Part.VAL, positive)
    value = best_threshold(truth, probability)
    if value is None:
        return None
    truth, probability = _of_part(silos, Part.TEST, positive)
    called = probability >= value
    hits = int((truth & called).sum())
    shares = {
        "test_precision": hits / called.sum() if called.any() else None,
        "test_recall": hits / truth.sum() if truth.any() else None,
        "test_f1": 2 * hits / (called.sum() + truth.sum()) if truth.any() else None,
    }
    return {"value": value, **_rounded(shares)}


def _of_part(
    silos: Sequence[Scored], part: Part, positive: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    truth = [silo.graph.labels[silo.graph.members(part)] == positive for silo in silos]
    found = [softmax(silo.scores)[silo.graph.members(part), positive] for silo in silos]
    return np.concatenate(truth), np.concatenate(found)


def _counts(silo: Scored, part: Part, classes: int) -> npt.NDArray[np.int64]:
    nodes = silo.graph.members(part)
    chosen = silo.scores.argmax(dim=1).numpy()[nodes]
    return class_counts(silo.graph.labels[nodes], chosen, classes)


def _class_counts(graph: Graph, part: Part, classes: int) -> npt.NDArray[np.int64]:
    return np.bincount(graph.labels[graph.members(part)], minlength=classes)


def _rounded(values: Mapping[str, float | None]) -> dict[str, float]:
    return {
        name: value if isinstance(value, int) else round(float(value), DIGITS)
        for name, value in values.items()
        if value is not None
    }
