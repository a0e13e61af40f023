"""A trained classifier, ready to use: predictions for a graph."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from feddep.errors import InputError
from feddep.graph.arranging import arranged
from feddep.graph.graph import Graph, Part
from feddep.graph.schema import Schema, places
from feddep.learning.aggregates import aggregated
from feddep.learning.evaluation import predict
from feddep.learning.mending import Mended
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.learning.threads import one_thread
from feddep.models.sage import Convolution
from feddep.models.weights import Weights

Floats = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Classifier:
    """F with trained weights.

    Args:
        spec: the shape it was trained with.
        weights: its parameters by name.
        schema: what its feature columns and classes mean, if the data said so.
    """

    spec: LearningSpec
    weights: Weights
    schema: Schema | None = None

    def __repr__(self) -> str:
        count = sum(array.size for array in self.weights.values())
        return (
            f"Classifier(classes={self.spec.classes}, features={self.spec.features}, "
            f"weights={count})"
        )

    def probabilities(self, graph: Graph) -> npt.NDArray[np.float64]:
        """Softmax over the classes for every node, ``(n, classes)``.

        In double precision: scores that differ do not become equal. Columns and classes are
        matched by name where both sides have a schema; classes come in the graph's own order.
        """
        return self.as_in(graph, softmax(self.scores(self.mended_with_nothing(graph))))

    def predict(self, graph: Graph) -> npt.NDArray[np.int64]:
        """The most probable class of every node, ``(n,)``."""
        scores = self.scores(self.mended_with_nothing(graph)).numpy()
        chosen: npt.NDArray[np.int64] = self.as_in(graph, scores).argmax(axis=1)
        return chosen

    def as_in(self, graph: Graph, scores: Floats) -> Floats:
        """Scores of classes, ``(n, classes)``, in the order of the graph's own classes."""
        theirs = () if graph.schema is None else graph.schema.classes
        ours = () if self.schema is None else self.schema.classes
        if theirs == ours or not theirs or not ours:
            return scores
        return scores[:, places(ours, theirs)]

    def mended_with_nothing(self, graph: Graph) -> Mended:
        """The graph as it is, z̄ = 0: the paper's inference."""
        return Mended(self.silo(graph))

    def silo(self, graph: Graph, client: int = 0) -> Silo:
        """A graph as a client's silo; sums that the classifier reads have no noise here.

        Raises:
            InputError: it is no graph, has other feature columns than the classifier was trained
                on, or has no training nodes for an encoder.
        """
        check_graph(graph)
        graph = arranged(graph, self.schema)
        if graph.feature_count != self.spec.features:
            raise InputError(
                f"this classifier was trained on {self.spec.features} features "
                f"(got a graph with {graph.feature_count})"
            )
        self.spec.model.check(graph)
        if self.spec.privacy.sums:
            self._check_encodable(graph)
            graph = aggregated(graph, self.spec, None)
        return Silo(client, graph, self.spec, torch.device("cpu"))

    def _check_encodable(self, graph: Graph) -> None:
        if not graph.mask(Part.TRAIN).any() or graph.classes > self.spec.classes:
            raise InputError(
                "this classifier reads sums of class probabilities, which an encoder learns from "
                f"the graph's training nodes; expected some, of at most {self.spec.classes} "
                f"classes (got {int(graph.mask(Part.TRAIN).sum())}, of {graph.classes} classes)"
            )

    def weight_ratio(self) -> float | None:
        """‖W_z‖ ÷ ‖W_x‖ of the first layer that takes z̄; None if no layer does."""
        model = self.spec.classifier(self.weights)
        last = cast(Convolution, model.convolutions[-1])
        pairs = ((model.embedding, model.features), (last.embedding, last.neighbours))
        for z, x in pairs:
            if z is not None:
                return float(z.detach().norm() / x.detach().norm())
        return None

    def scores(self, mended: Mended) -> Tensor:
        """Class scores before softmax, ``(n, classes)``, the same as in a run."""
        silo, model = mended.silo, self.spec.classifier(self.weights)
        with one_thread(), mended.fitting(model) as fitting:
            return predict(fitting, silo.graph, silo.table, mended.missing_embeddings)


def check_graph(given: object) -> None:
    """Refuses what is no graph, before an attribute is missed somewhere deep inside."""
    if not isinstance(given, Graph):
        raise InputError(
            f"expected a Graph to predict for (got {type(given).__name__}); feddep.load, "
            "feddep.read_tables and feddep.from_pyg give one, shards[i] is that of client i"
        )


def softmax(scores: Tensor) -> npt.NDArray[np.float64]:
    """Probabilities from scores, in double precision."""
    found: npt.NDArray[np.float64] = torch.softmax(scores.double(), dim=1).numpy()
    return found
