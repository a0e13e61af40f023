"""SGD on GraphSAGE with the gradient worked out by hand: the hot path.

A mini-batch of 32 nodes is so little work that autograd's bookkeeping costs more than the numbers.
Here each layer is one compiled loop forward and one back (:mod:`feddep.models.sgd_layers`), and a
weight is changed as soon as its gradient is known, so the gradient of a large first layer never
exists as a whole. The numbers are those of autograd on
:class:`~feddep.models.sage.FusedSage` up to rounding; tests hold them to that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from feddep.graph.graph import Features
from feddep.graph.sampling import EgoGraphs
from feddep.models.dropout import DropoutStream, relu_dropout, relu_dropout_gradient
from feddep.models.example_squares import ExampleSquares
from feddep.models.kernels import sort_by_column
from feddep.models.sage import Convolution, FusedSage
from feddep.models.sgd_layers import (
    ByColumn,
    Change,
    Layer,
    Missing,
    convolve,
    convolve_back,
    cross_entropy,
    enter_dense,
    enter_dense_back,
    enter_sparse,
    enter_sparse_back,
    sources_gradient,
    through_head,
)

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

_ABSENT = np.empty((0, 0), np.float32)


class Head(NamedTuple):
    """A linear layer between tanh of the model's outputs and the classes."""

    weight: nn.Parameter
    bias: nn.Parameter


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
    ) -> None:
        self._labels, self._dropout = labels, dropout
        self._missing_embeddings = missing_embeddings
        self._generated = (
            None if missing_embeddings is None else np.asarray(missing_embeddings.any(axis=1))
        )
        self._features = features if isinstance(features, np.ndarray) else _Rows.of(features)
        self._change = Change(np.float32(rate), np.float32(1 - rate * decay))
        self.weights = Weights.of(model, head, with_missing=missing_embeddings is not None)

    def step(self, ego: EgoGraphs) -> float:
        """One step on the targets of ``ego``; returns the mean of their losses before it."""
        return self._run(ego, self.weights, self._change)

    def add_gradient(self, ego: EgoGraphs, total: "Weights", shares: Floats) -> None:
        """Adds the gradient of Σ_i share_i · loss_i over the targets to ``total``."""
        self._run(ego, total, _ADD, shares)

    def gradient_norms(self, ego: EgoGraphs, owner: Longs) -> Array:
        """``(t,)`` for each target the norm of its loss's gradient over all weights together.

        Args:
            ego: the targets' ego-graphs side by side, without a node in common.
            owner: ``(s,)`` whose ego-graph each of its nodes is in.
        """
        weights, (z, _, inputs, out) = self.weights, self._forward(ego)
        squares = ExampleSquares(len(ego.targets), owner)
        labels = self._labels[ego.targets]
        every = np.ones(len(labels), np.float32)
        if weights.head is None:
            _, gradient = cross_entropy(out, labels, every)
        else:
            tanh = np.tanh(out)
            _, slopes = cross_entropy(tanh @ weights.head[0] + weights.head[1], labels, every)
            squares.add([tanh], slopes)
            gradient = (slopes @ weights.head[0].T) * (1 - tanh * tanh)
        for layer, block, (x, mean) in reversed(
            list(zip(weights.layers, ego.blocks, inputs, strict=True))
        ):
            own = [x[: len(gradient)]] if len(layer.own) else []
            squares.add([mean, *own, *_spread(z, layer, len(gradient))], gradient)
            gradient = sources_gradient(layer, block.indptr, block.indices, x, gradient)
            relu_dropout_gradient(x, self._dropout.scale, gradient)
        others = _spread(z, weights.input, len(gradient))
        if isinstance(self._features, _Rows):
            squares.add_sparse(self._features, ego.nodes, len(weights.input.neighbours), gradient)
            squares.add(others, gradient)
        else:
            squares.add([self._features[ego.nodes], *others], gradient)
        return squares.norms()

    def _run(
        self, ego: EgoGraphs, into: "Weights", change: Change, shares: Floats | None = None
    ) -> float:
        """Forward and backward pass; each layer's gradient goes ``into`` as ``change`` says.

        Returns:
            The mean loss.
        """
        weights, (z, rows, inputs, out) = self.weights, self._forward(ego)
        labels = self._labels[ego.targets]
        if weights.head is None or into.head is None:
            loss, gradient = cross_entropy(out, labels, shares)
        else:
            # numpy's tanh is vectorised, the compiled loop's is not.
            loss, gradient = through_head(
                weights.head, into.head, np.tanh(out), labels, shares, change
            )
        for layer, changed, block, (x, mean) in reversed(
            list(zip(weights.layers, into.layers, ego.blocks, inputs, strict=True))
        ):
            gradient = convolve_back(
                layer, changed, block.indptr, block.indices, x, mean, z, gradient, change
            )
            relu_dropout_gradient(x, self._dropout.scale, gradient)
        if isinstance(rows, ByColumn):
            enter_sparse_back(into.input, rows, z, gradient, change)
        else:
            enter_dense_back(into.input, rows, z, gradient, change)
        return float(loss)

    def _forward(self, ego: EgoGraphs) -> "_Passed":
        stream, weights = self._dropout, self.weights
        z = self._missing(ego.nodes)
        x, rows = self._enter(ego.nodes, z)
        inputs = []
        for layer, block in zip(weights.layers, ego.blocks, strict=True):
            relu_dropout(x, stream.state, stream.least, stream.scale)
            mean, out = convolve(layer, block.indptr, block.indices, x, z)
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


_ADD = Change(np.float32(-1), np.float32(1))


class _Rows(NamedTuple):
    """Sparse features, row after row."""

    indptr: Array
    columns: Array
    values: Floats

    @classmethod
    def of(cls, features: Any) -> "_Rows":
        return cls(features.indptr, features.indices, features.data)


@dataclass(frozen=True, eq=False)
class Weights:
    """All weights of a model, or arrays of the same shapes."""

    input: Layer
    layers: Sequence[Layer]
    head: tuple[Floats, Floats] | None

    @classmethod
    def of(cls, model: FusedSage, head: Head | None, *, with_missing: bool) -> "Weights":
        """The model's own memory; without ``with_missing`` its embeddings' part is left out."""
        return cls(
            _layer(model, with_missing),
            [_layer(cast(Convolution, c), with_missing) for c in model.convolutions],
            None if head is None else (_array(head.weight), _array(head.bias)),
        )

    def arrays(self) -> list[Floats]:
        """Every array, in a fixed order."""
        layers = (self.input, *self.layers)
        return [*(array for layer in layers for array in layer), *(self.head or ())]

    def zeros(self) -> "Weights":
        """Zeros of the same shapes."""
        like = np.zeros_like
        return Weights(
            Layer(*map(like, self.input)),
            [Layer(*map(like, layer)) for layer in self.layers],
            None if self.head is None else (like(self.head[0]), like(self.head[1])),
        )


def _array(weight: Tensor | None) -> Floats:
    """A weight's own memory."""
    if weight is None:
        return _ABSENT
    found: Floats = weight.detach().numpy()
    return found


def _layer(layer: FusedSage | Convolution, with_missing: bool) -> Layer:
    """A layer's weights, the model's own memory."""
    embedding = _array(layer.embedding if with_missing else None)
    if isinstance(layer, FusedSage):
        return Layer(_array(layer.features), _ABSENT, _array(layer.bias), embedding)
    return Layer(_array(layer.neighbours), _array(layer.own), _array(layer.bias), embedding)


def _spread(z: Missing, layer: Layer, count: int) -> list[Floats]:
    """z̄ of the first ``count`` nodes, most of it zero; empty if the layer takes none."""
    if not len(layer.embedding):
        return []
    known = np.searchsorted(z.positions, count)
    found = np.zeros((count, len(layer.embedding)), np.float32)
    found[z.positions[:known]] = z.rows[:known]
    return [found]
