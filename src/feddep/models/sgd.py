"""SGD on GraphSAGE with the gradient worked out by hand: the hot path.

A mini-batch of 32 nodes is so little work that autograd's bookkeeping costs more than the numbers.
Here each layer is one compiled loop forward and one back (:mod:`feddep.models.sgd_layers`), and a
weight is changed as soon as its gradient is known, so the gradient of a large first layer never
exists as a whole. The numbers are those of autograd on
:class:`~feddep.models.sage.FusedSage` up to rounding; tests hold them to that.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from feddep.graph.graph import Features
from feddep.graph.sampling import EgoGraphs
from feddep.models.class_loss import ClassLoss, weighted_loss
from feddep.models.dropout import DropoutStream, relu_dropout, relu_dropout_gradient
from feddep.models.example_gradients import add_clipped
from feddep.models.kernels import sort_by_column
from feddep.models.sage import FusedSage
from feddep.models.sgd_layers import (
    ByColumn,
    Change,
    Missing,
    convolve,
    convolve_back,
    cross_entropy,
    enter_dense,
    enter_dense_back,
    enter_sparse,
    enter_sparse_back,
    through_head,
)
from feddep.models.sgd_weights import Head, Rows, Weights

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

_ABSENT = np.empty((0, 0), np.float32)


class SageSgd:
    """Takes steps of SGD on a FusedSage in place, minimising a cross-entropy.

    Args:
        model: its weights are changed in place; they must be on the CPU.
        features: of the graph's nodes.
        labels: of the graph's nodes.
        rate: the learning rate.
        decay: L2 penalty.
        dropout: the stream to draw masks from.
        missing_embeddings: z̄ of the graph's nodes, ``(n, d_z)``; None trains without them.
        head: what stands between the model's outputs and the class scores; None takes the
            outputs as they are.
        loss: what nodes of each class count, without a head; None is the cross-entropy.
    """

    def __init__(
        self,
        model: FusedSage,
        features: Features,
        labels: Longs,
        *,
        rate: float,
        decay: float,
        dropout: DropoutStream,
        missing_embeddings: Floats | None = None,
        head: Head | None = None,
        loss: ClassLoss | None = None,
    ) -> None:
        self._loss = loss
        self._labels, self._dropout = labels, dropout
        self._missing_embeddings = missing_embeddings
        self._generated = (
            None if missing_embeddings is None else np.asarray(missing_embeddings.any(axis=1))
        )
        self._features = features if isinstance(features, np.ndarray) else Rows.of(features)
        self._change = Change(np.float32(rate), np.float32(1 - rate * decay))
        self.weights = Weights.of(model, head, with_missing=missing_embeddings is not None)

    def step(self, ego: EgoGraphs) -> float:
        """One step on the targets of ``ego``; returns the mean of their losses before it."""
        return self._run(ego, self.weights, self._change)

    def add_clipped(self, ego: EgoGraphs, owner: Longs, total: Weights, clip: float) -> None:
        """Adds the gradient of each target's loss, shortened to norm ``clip``, to ``total``.

        See :func:`~feddep.models.example_gradients.add_clipped`. There is no dropout.

        Raises:
            ValueError: there are embeddings of missing neighbours, which it does not cover.
        """
        if self._missing_embeddings is not None:
            raise ValueError("clipped gradients do not cover embeddings of missing neighbours")
        add_clipped(self.weights, self._features, self._labels, ego, owner, total, clip)

    def _run(self, ego: EgoGraphs, into: Weights, change: Change) -> float:
        """Forward and backward pass; each layer's gradient goes ``into`` as ``change`` says.

        Returns:
            The mean loss.
        """
        weights, (z, rows, inputs, out) = self.weights, self._forward(ego)
        labels = self._labels[ego.targets]
        if weights.head is None or into.head is None:
            loss, gradient = self._loss_of(out, labels)
        else:
            # numpy's tanh is vectorised, the compiled loop's is not.
            loss, gradient = through_head(weights.head, into.head, np.tanh(out), labels, change)
        for layer, changed, block, (x, mean) in reversed(
            list(zip(weights.layers, into.layers, ego.blocks, inputs, strict=True))
        ):
            lists = (block.indptr, block.indices, block.shares)
            gradient = convolve_back(layer, changed, *lists, x, mean, z, gradient, change)
            relu_dropout_gradient(x, self._dropout.scale, gradient)
        if isinstance(rows, ByColumn):
            enter_sparse_back(into.input, rows, z, gradient, change)
        else:
            enter_dense_back(into.input, rows, z, gradient, change)
        return float(loss)

    def _loss_of(self, scores: Floats, labels: Longs) -> tuple[float, Floats]:
        if self._loss is None:
            return cross_entropy(scores, labels)
        found: tuple[float, Floats] = weighted_loss(
            scores, labels, self._loss.weights, self._loss.focal
        )
        return found

    def _forward(self, ego: EgoGraphs) -> "_Passed":
        stream, weights = self._dropout, self.weights
        z = self._missing(ego.nodes)
        x, rows = self._enter(ego.nodes, z)
        inputs = []
        for layer, block in zip(weights.layers, ego.blocks, strict=True):
            relu_dropout(x, stream.state, stream.least, stream.scale)
            mean, out = convolve(layer, block.indptr, block.indices, block.shares, x, z)
            inputs.append((x, mean))
            x = out
        return _Passed(z, rows, inputs, x)

    def _missing(self, nodes: Longs) -> Missing:
        """z̄ of those nodes that have one."""
        if self._missing_embeddings is None or self._generated is None:
            return _NOTHING_FUSED
        positions = np.flatnonzero(self._generated[nodes])
        return Missing(positions, self._missing_embeddings[nodes[positions]])

    def _enter(self, nodes: Longs, z: Missing) -> tuple[Floats, Floats | ByColumn]:
        """The input layer, and the rows of features that it took."""
        layer = self.weights.input
        if isinstance(self._features, np.ndarray):
            rows = self._features[nodes]
            return enter_dense(layer, rows, z), rows
        indptr, columns, values = self._features
        by_column = ByColumn(*sort_by_column(indptr, columns, values, nodes, len(layer.neighbours)))
        return enter_sparse(layer, by_column, len(nodes), z), by_column


_NOTHING_FUSED = Missing(np.empty(0, np.int64), _ABSENT)


class _Passed(NamedTuple):
    """What the backward pass needs from the forward pass.

    ``inputs`` holds for every convolution its input and the mean of each target's neighbours.
    """

    z: Missing
    rows: Floats | ByColumn
    inputs: list[tuple[Floats, Floats]]
    out: Floats
