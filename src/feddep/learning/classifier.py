"""A trained classifier, ready to use: predictions for a graph."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.learning.evaluation import predict
from feddep.learning.spec import LearningSpec
from feddep.models.kernels import FeatureTable
from feddep.models.weights import Weights


@dataclass(frozen=True, eq=False)
class Classifier:
    """F with trained weights.

    Args:
        spec: the shape it was trained with.
        weights: its parameters by name.
    """

    spec: LearningSpec
    weights: Weights

    def probabilities(self, graph: Graph) -> npt.NDArray[np.float32]:
        """Softmax over the classes for every node, ``(n, classes)``."""
        if graph.feature_count != self.spec.features:
            raise InputError(
                f"this classifier was trained on {self.spec.features} features "
                f"(got a graph with {graph.feature_count})"
            )
        table = FeatureTable(graph.features, torch.device("cpu"))
        scores = predict(self.spec.classifier(self.weights), graph, table)
        found: npt.NDArray[np.float32] = torch.softmax(scores, dim=1).numpy()
        return found

    def predict(self, graph: Graph) -> npt.NDArray[np.int64]:
        """The most probable class of every node, ``(n,)``."""
        chosen: npt.NDArray[np.int64] = self.probabilities(graph).argmax(axis=1)
        return chosen
