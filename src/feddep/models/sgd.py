"""SGD on GraphSAGE with the gradient worked out by hand: the hot path.

A mini-batch of 32 nodes is so little work that autograd's bookkeeping costs more than the numbers.
Here each layer is one compiled loop forward and one back, and a weight is changed as soon as its
gradient is known, so the gradient of a large first layer never exists as a whole. The numbers
are those of autograd on :class:`~feddep.models.sage.FusedSage` up to rounding; tests hold them to
that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from numba import njit
from torch import Tensor, nn

from feddep.graph.graph import Features
from feddep.graph.sampling import EgoGraphs
from feddep.models.dropout import DropoutStream, relu_dropout, relu_dropout_gradient
from feddep.models.example_squares import ExampleSquares
from feddep.models.kernels import columns_product, mean_gradient, mean_into, sort_by_column
from feddep.models.sage import Convolution, FusedSage

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
        self._change = _Change(np.float32(rate), np.float32(1 - rate * decay))
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
            _, gradient = _cross_entropy(out, labels, every)
        else:
            tanh = np.tanh(out)
            _, slopes = _cross_entropy(tanh @ weights.head[0] + weights.head[1], labels, every)
            squares.add([tanh], slopes)
            gradient = (slopes @ weights.head[0].T) * (1 - tanh * tanh)
        for layer, block, (x, mean) in reversed(
            list(zip(weights.layers, ego.blocks, inputs, strict=True))
        ):
            own = [x[: len(gradient)]] if len(layer.own) else []
            squares.add([mean, *own, *_spread(z, layer, len(gradient))], gradient)
            gradient = _sources_gradient(layer, block.indptr, block.indices, x, gradient)
            relu_dropout_gradient(x, self._dropout.scale, gradient)
        others = _spread(z, weights.input, len(gradient))
        if isinstance(self._features, _Rows):
            squares.add_sparse(self._features, ego.nodes, len(weights.input.neighbours), gradient)
            squares.add(others, gradient)
        else:
            squares.add([self._features[ego.nodes], *others], gradient)
        return squares.norms()

    def _run(
        self, ego: EgoGraphs, into: "Weights", change: "_Change", shares: Floats | None = None
    ) -> float:
        """Forward and backward pass; each layer's gradient goes ``into`` as ``change`` says.

        Returns:
            The mean loss.
        """
        weights, (z, rows, inputs, out) = self.weights, self._forward(ego)
        labels = self._labels[ego.targets]
        if weights.head is None or into.head is None:
            loss, gradient = _cross_entropy(out, labels, shares)
        else:
            # numpy's tanh is vectorised, the compiled loop's is not.
            loss, gradient = _through_head(
                weights.head, into.head, np.tanh(out), labels, shares, change
            )
        for layer, changed, block, (x, mean) in reversed(
            list(zip(weights.layers, into.layers, ego.blocks, inputs, strict=True))
        ):
            gradient = _convolve_back(
                layer, changed, block.indptr, block.indices, x, mean, z, gradient, change
            )
            relu_dropout_gradient(x, self._dropout.scale, gradient)
        if isinstance(rows, _ByColumn):
            _enter_sparse_back(into.input, rows, z, gradient, change)
        else:
            _enter_dense_back(into.input, rows, z, gradient, change)
        return float(loss)

    def _forward(self, ego: EgoGraphs) -> "_Passed":
        stream, weights = self._dropout, self.weights
        z = self._missing(ego.nodes)
        x, rows = self._enter(ego.nodes, z)
        inputs = []
        for layer, block in zip(weights.layers, ego.blocks, strict=True):
            relu_dropout(x, stream.state, stream.least, stream.scale)
            mean, out = _convolve(layer, block.indptr, block.indices, x, z)
            inputs.append((x, mean))
            x = out
        return _Passed(z, rows, inputs, x)

    def _missing(self, nodes: Longs) -> "_Missing":
        """z̄ of those nodes that have one."""
        if self._missing_embeddings is None or self._generated is None:
            return _NOTHING_FUSED
        positions = np.flatnonzero(self._generated[nodes])
        return _Missing(positions, self._missing_embeddings[nodes[positions]])

    def _enter(self, nodes: Longs, z: "_Missing") -> "tuple[Floats, Floats | _ByColumn]":
        """The input layer, and the rows of features that it took."""
        layer = self.weights.input
        if isinstance(self._features, np.ndarray):
            rows = self._features[nodes]
            return _enter_dense(layer, rows, z), rows
        indptr, columns, values = self._features
        by_column = _ByColumn(
            *sort_by_column(indptr, columns, values, nodes, len(layer.neighbours))
        )
        return _enter_sparse(layer, by_column, len(nodes), z), by_column


class _Missing(NamedTuple):
    """Embeddings of missing neighbours; nodes without any cost nothing.

    Positions are ascending and a layer's targets come first, so each layer takes a prefix.
    """

    positions: Longs
    rows: Floats


_NOTHING_FUSED = _Missing(np.empty(0, np.int64), _ABSENT)


class _Passed(NamedTuple):
    """What the backward pass needs from the forward pass.

    ``inputs`` holds for every convolution its input and the mean of each target's neighbours.
    """

    z: _Missing
    rows: "Floats | _ByColumn"
    inputs: list[tuple[Floats, Floats]]
    out: Floats


class _Change(NamedTuple):
    """What a gradient does to the array that it goes into: a ← keep · a - rate · gradient."""

    rate: np.float32
    keep: np.float32


_ADD = _Change(np.float32(-1), np.float32(1))


class _Rows(NamedTuple):
    """Sparse features, row after row."""

    indptr: Array
    columns: Array
    values: Floats

    @classmethod
    def of(cls, features: Any) -> "_Rows":
        return cls(features.indptr, features.indices, features.data)


class _ByColumn(NamedTuple):
    """Entries of some sparse rows, column after column."""

    starts: Longs
    positions: Array
    entries: Floats


class _Layer(NamedTuple):
    """A layer's weights; an absent one is an empty matrix.

    The input layer's features take the place of the mean of neighbours.
    """

    neighbours: Floats
    own: Floats
    bias: Floats
    embedding: Floats

    @classmethod
    def of(cls, layer: FusedSage | Convolution, with_missing: bool) -> "_Layer":
        embedding = _array(layer.embedding if with_missing else None)
        if isinstance(layer, FusedSage):
            return cls(_array(layer.features), _ABSENT, _array(layer.bias), embedding)
        return cls(_array(layer.neighbours), _array(layer.own), _array(layer.bias), embedding)


@dataclass(frozen=True, eq=False)
class Weights:
    """All weights of a model, or arrays of the same shapes."""

    input: _Layer
    layers: Sequence[_Layer]
    head: tuple[Floats, Floats] | None

    @classmethod
    def of(cls, model: FusedSage, head: Head | None, *, with_missing: bool) -> "Weights":
        """The model's own memory; without ``with_missing`` its embeddings' part is left out."""
        return cls(
            _Layer.of(model, with_missing),
            [_Layer.of(cast(Convolution, c), with_missing) for c in model.convolutions],
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
            _Layer(*map(like, self.input)),
            [_Layer(*map(like, layer)) for layer in self.layers],
            None if self.head is None else (like(self.head[0]), like(self.head[1])),
        )


def _array(weight: Tensor | None) -> Floats:
    """A weight's own memory."""
    if weight is None:
        return _ABSENT
    found: Floats = weight.detach().numpy()
    return found


@njit(cache=True, nogil=True, boundscheck=False)
def _add_rest(layer: _Layer, z: _Missing, out: Floats) -> None:
    """Adds the bias and the embeddings' part."""
    for i in range(len(out)):
        row = out[i]
        for j in range(len(row)):
            row[j] += layer.bias[j]
    count = np.searchsorted(z.positions, len(out))
    if count and len(layer.embedding):
        parts = np.dot(z.rows[:count], layer.embedding)
        for i in range(count):
            row, part = out[z.positions[i]], parts[i]
            for j in range(len(row)):
                row[j] += part[j]


@njit(cache=True, nogil=True, boundscheck=False)
def _descend(weight: Floats, gradient: Floats, change: _Change) -> None:
    for i in range(len(weight)):
        row, slope = weight[i], gradient[i]
        for j in range(len(row)):
            row[j] = change.keep * row[j] - change.rate * slope[j]


@njit(cache=True, nogil=True, boundscheck=False)
def _descend_rest(layer: _Layer, z: _Missing, gradient: Floats, change: _Change) -> None:
    """A step on the bias and the embeddings' part."""
    _descend_bias(layer.bias, gradient, change)
    count = np.searchsorted(z.positions, len(gradient))
    if len(layer.embedding) and (count or change.keep != 1):
        slopes = gradient[z.positions[:count]]
        _descend(layer.embedding, np.dot(z.rows[:count].T, slopes), change)


@njit(cache=True, nogil=True, boundscheck=False)
def _descend_bias(bias: Floats, gradient: Floats, change: _Change) -> None:
    total = np.zeros(len(bias), np.float32)
    for i in range(len(gradient)):
        row = gradient[i]
        for j in range(len(row)):
            total[j] += row[j]
    for j in range(len(bias)):
        bias[j] = change.keep * bias[j] - change.rate * total[j]


def _spread(z: _Missing, layer: _Layer, count: int) -> list[Floats]:
    """z̄ of the first ``count`` nodes, most of it zero; empty if the layer takes none."""
    if not len(layer.embedding):
        return []
    known = np.searchsorted(z.positions, count)
    found = np.zeros((count, len(layer.embedding)), np.float32)
    found[z.positions[:known]] = z.rows[:known]
    return [found]


@njit(cache=True, nogil=True, boundscheck=False)
def _convolve(
    layer: _Layer, indptr: Longs, indices: Array, x: Floats, z: _Missing
) -> tuple[Floats, Floats]:
    """The mean of each target's neighbours, and the layer's output."""
    targets = len(indptr) - 1
    closed = len(layer.own) == 0
    mean = np.zeros((targets, x.shape[1]), np.float32)
    mean_into(indptr, indices, closed, x, mean)
    out = np.dot(mean, layer.neighbours)
    if not closed:
        out += np.dot(x[:targets], layer.own)
    _add_rest(layer, z, out)
    return mean, out


@njit(cache=True, nogil=True, boundscheck=False)
def _sources_gradient(
    layer: _Layer, indptr: Longs, indices: Array, x: Floats, gradient: Floats
) -> Floats:
    """The gradient of the layer's input."""
    closed = len(layer.own) == 0
    back = np.zeros(x.shape, np.float32)
    mean_gradient(indptr, indices, closed, np.dot(gradient, layer.neighbours.T), back)
    if not closed:
        back[: len(gradient)] += np.dot(gradient, layer.own.T)
    return back


@njit(cache=True, nogil=True, boundscheck=False)
def _convolve_back(
    layer: _Layer,
    changed: _Layer,
    indptr: Longs,
    indices: Array,
    x: Floats,
    mean: Floats,
    z: _Missing,
    gradient: Floats,
    change: _Change,
) -> Floats:
    """The gradient of the layer's input; those of its weights go into ``changed``."""
    back = _sources_gradient(layer, indptr, indices, x, gradient)
    if len(layer.own):
        _descend(changed.own, np.dot(x[: len(gradient)].T, gradient), change)
    _descend(changed.neighbours, np.dot(mean.T, gradient), change)
    _descend_rest(changed, z, gradient, change)
    return back


@njit(cache=True, nogil=True, boundscheck=False)
def _enter_dense(layer: _Layer, rows: Floats, z: _Missing) -> Floats:
    out: Floats = np.dot(rows, layer.neighbours)
    _add_rest(layer, z, out)
    return out


@njit(cache=True, nogil=True, boundscheck=False)
def _enter_dense_back(
    layer: _Layer, rows: Floats, z: _Missing, gradient: Floats, change: _Change
) -> None:
    _descend(layer.neighbours, np.dot(rows.T, gradient), change)
    _descend_rest(layer, z, gradient, change)


@njit(cache=True, nogil=True, boundscheck=False)
def _enter_sparse(layer: _Layer, rows: _ByColumn, count: int, z: _Missing) -> Floats:
    out = np.zeros((count, layer.neighbours.shape[1]), np.float32)
    columns_product(rows.starts, rows.positions, rows.entries, layer.neighbours, out)
    _add_rest(layer, z, out)
    return out


@njit(cache=True, nogil=True, boundscheck=False)
def _enter_sparse_back(
    layer: _Layer, rows: _ByColumn, z: _Missing, gradient: Floats, change: _Change
) -> None:
    slope = np.empty(gradient.shape[1], np.float32)
    for column in range(len(layer.neighbours)):
        if rows.starts[column] == rows.starts[column + 1] and change.keep == 1:
            continue
        slope[:] = 0
        for entry in range(rows.starts[column], rows.starts[column + 1]):
            source, value = gradient[rows.positions[entry]], rows.entries[entry]
            for j in range(len(slope)):
                slope[j] += value * source[j]
        target = layer.neighbours[column]
        for j in range(len(slope)):
            target[j] = change.keep * target[j] - change.rate * slope[j]
    _descend_rest(layer, z, gradient, change)


@njit(cache=True, nogil=True, boundscheck=False)
def _cross_entropy(scores: Floats, labels: Longs, shares: Floats | None) -> tuple[float, Floats]:
    """The mean of -log softmax(scores)[label], and its gradient, or that of a weighted sum."""
    gradient = np.empty_like(scores)
    loss = 0.0
    for i in range(len(scores)):
        row, slope = scores[i], gradient[i]
        highest = row.max()
        total = np.float32(0)
        for j in range(len(row)):
            slope[j] = np.exp(row[j] - highest)
            total += slope[j]
        loss += np.log(total) + highest - row[labels[i]]
        for j in range(len(row)):
            slope[j] /= total * len(scores)
        slope[labels[i]] -= np.float32(1) / len(scores)
        if shares is not None:
            for j in range(len(row)):
                slope[j] *= shares[i] * len(scores)
    return loss / len(scores), gradient


@njit(cache=True, nogil=True, boundscheck=False)
def _through_head(
    head: tuple[Floats, Floats],
    changed: tuple[Floats, Floats],
    z: Floats,
    labels: Longs,
    shares: Floats | None,
    change: _Change,
) -> tuple[float, Floats]:
    """The loss of z · W + b with z the tanh of outputs, and the gradient of those outputs."""
    loss, gradient = _cross_entropy(np.dot(z, head[0]) + head[1], labels, shares)
    back = np.dot(gradient, head[0].T) * (np.float32(1) - z * z)
    _descend(changed[0], np.dot(z.T, gradient), change)
    _descend_bias(changed[1], gradient, change)
    return loss, back
