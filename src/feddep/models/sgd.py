"""SGD on GraphSAGE with the gradient worked out by hand: the hot path.

A mini-batch of 32 nodes is so little work that autograd's bookkeeping costs more than the numbers.
Here each layer is one compiled loop forward and one back, and a weight is changed as soon as its
gradient is known, so the gradient of a large first layer never exists as a whole. The numbers
are those of autograd on :class:`~feddep.models.sage.FusedSage` up to rounding; tests hold them to
that.
"""

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from numba import njit
from torch import Tensor, nn

from feddep.graph.graph import Features
from feddep.graph.sampling import EgoGraphs
from feddep.models.dropout import DropoutStream, relu_dropout, relu_dropout_gradient
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
        embeddings: z̄ of the graph's nodes, ``(n, d_z)``; None trains without them.
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
        embeddings: Floats | None = None,
        head: Head | None = None,
    ) -> None:
        fused = embeddings is not None
        self._labels, self._dropout = labels, dropout
        self._embeddings = _ABSENT if embeddings is None else embeddings
        self._sgd = _Sgd(np.float32(rate), np.float32(decay))
        self._features = features if isinstance(features, np.ndarray) else _Rows.of(features)
        self._input = _Layer(
            _array(model.features), _ABSENT, _array(model.bias), _array(model.embedding, fused)
        )
        self._layers = [_Layer.of(cast(Convolution, c), fused) for c in model.convolutions]
        self._head = None if head is None else (_array(head.weight), _array(head.bias))

    def step(self, ego: EgoGraphs) -> float:
        """One step on the targets of ``ego``; returns the mean of their losses before it."""
        stream = self._dropout
        z = self._embeddings[ego.nodes] if len(self._embeddings) else _ABSENT
        x, rows = self._enter(ego.nodes, z)
        passed = []
        for layer, block in zip(self._layers, ego.blocks, strict=True):
            relu_dropout(x, stream.state, stream.least, stream.scale)
            mean, out = _convolve(layer, block.indptr, block.indices, x, z)
            passed.append((layer, block, x, mean))
            x = out
        labels = self._labels[ego.targets]
        if self._head is None:
            loss, gradient = _cross_entropy(x, labels)
        else:
            loss, gradient = _through_head(*self._head, x, labels, self._sgd)
        for layer, block, x, mean in reversed(passed):
            gradient = _convolve_back(
                layer, block.indptr, block.indices, x, mean, z, gradient, self._sgd
            )
            relu_dropout_gradient(x, stream.scale, gradient)
        if isinstance(rows, _ByColumn):
            _enter_sparse_back(self._input, rows, z, gradient, self._sgd)
        else:
            _enter_dense_back(self._input, rows, z, gradient, self._sgd)
        return float(loss)

    def _enter(self, nodes: Longs, z: Floats) -> "tuple[Floats, Floats | _ByColumn]":
        """The input layer, and the rows of features that it took."""
        if isinstance(self._features, np.ndarray):
            rows = self._features[nodes]
            return _enter_dense(self._input, rows, z), rows
        indptr, columns, values = self._features
        width = len(self._input.neighbours)
        by_column = _ByColumn(*sort_by_column(indptr, columns, values, nodes, width))
        return _enter_sparse(self._input, by_column, len(nodes), z), by_column


class _Sgd(NamedTuple):
    rate: np.float32
    decay: np.float32


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
    def of(cls, convolution: Convolution, fused: bool) -> "_Layer":
        return cls(
            _array(convolution.neighbours),
            _array(convolution.own),
            _array(convolution.bias),
            _array(convolution.embedding, fused),
        )


def _array(weight: Tensor | None, wanted: bool = True) -> Floats:
    """A weight's own memory."""
    if weight is None or not wanted:
        return _ABSENT
    found: Floats = weight.detach().numpy()
    return found


@njit(cache=True, nogil=True, boundscheck=False)
def _add_rest(layer: _Layer, z: Floats, out: Floats) -> None:
    """Adds the bias and the embeddings' part."""
    for i in range(len(out)):
        row = out[i]
        for j in range(len(row)):
            row[j] += layer.bias[j]
    if len(z):
        out += np.dot(z[: len(out)], layer.embedding)


@njit(cache=True, nogil=True, boundscheck=False)
def _descend(weight: Floats, gradient: Floats, sgd: _Sgd) -> None:
    """w ← w - rate · (gradient + decay · w)."""
    keep = np.float32(1) - sgd.rate * sgd.decay
    for i in range(len(weight)):
        row, slope = weight[i], gradient[i]
        for j in range(len(row)):
            row[j] = keep * row[j] - sgd.rate * slope[j]


@njit(cache=True, nogil=True, boundscheck=False)
def _descend_rest(layer: _Layer, z: Floats, gradient: Floats, sgd: _Sgd) -> None:
    """A step on the bias and the embeddings' part."""
    _descend_bias(layer.bias, gradient, sgd)
    if len(z):
        _descend(layer.embedding, np.dot(z[: len(gradient)].T, gradient), sgd)


@njit(cache=True, nogil=True, boundscheck=False)
def _descend_bias(bias: Floats, gradient: Floats, sgd: _Sgd) -> None:
    total = np.zeros(len(bias), np.float32)
    for i in range(len(gradient)):
        row = gradient[i]
        for j in range(len(row)):
            total[j] += row[j]
    keep = np.float32(1) - sgd.rate * sgd.decay
    for j in range(len(bias)):
        bias[j] = keep * bias[j] - sgd.rate * total[j]


@njit(cache=True, nogil=True, boundscheck=False)
def _convolve(
    layer: _Layer, indptr: Longs, indices: Array, x: Floats, z: Floats
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
def _convolve_back(
    layer: _Layer,
    indptr: Longs,
    indices: Array,
    x: Floats,
    mean: Floats,
    z: Floats,
    gradient: Floats,
    sgd: _Sgd,
) -> Floats:
    """The gradient of the layer's input; its weights have taken their step."""
    closed = len(layer.own) == 0
    back = np.zeros(x.shape, np.float32)
    mean_gradient(indptr, indices, closed, np.dot(gradient, layer.neighbours.T), back)
    if not closed:
        own = x[: len(gradient)]
        back[: len(gradient)] += np.dot(gradient, layer.own.T)
        _descend(layer.own, np.dot(own.T, gradient), sgd)
    _descend(layer.neighbours, np.dot(mean.T, gradient), sgd)
    _descend_rest(layer, z, gradient, sgd)
    return back


@njit(cache=True, nogil=True, boundscheck=False)
def _enter_dense(layer: _Layer, rows: Floats, z: Floats) -> Floats:
    out: Floats = np.dot(rows, layer.neighbours)
    _add_rest(layer, z, out)
    return out


@njit(cache=True, nogil=True, boundscheck=False)
def _enter_dense_back(layer: _Layer, rows: Floats, z: Floats, gradient: Floats, sgd: _Sgd) -> None:
    _descend(layer.neighbours, np.dot(rows.T, gradient), sgd)
    _descend_rest(layer, z, gradient, sgd)


@njit(cache=True, nogil=True, boundscheck=False)
def _enter_sparse(layer: _Layer, rows: _ByColumn, count: int, z: Floats) -> Floats:
    out = np.zeros((count, layer.neighbours.shape[1]), np.float32)
    columns_product(rows.starts, rows.positions, rows.entries, layer.neighbours, out)
    _add_rest(layer, z, out)
    return out


@njit(cache=True, nogil=True, boundscheck=False)
def _enter_sparse_back(
    layer: _Layer, rows: _ByColumn, z: Floats, gradient: Floats, sgd: _Sgd
) -> None:
    slope = np.empty(gradient.shape[1], np.float32)
    keep = np.float32(1) - sgd.rate * sgd.decay
    for column in range(len(layer.neighbours)):
        if rows.starts[column] == rows.starts[column + 1] and sgd.decay == 0:
            continue
        slope[:] = 0
        for entry in range(rows.starts[column], rows.starts[column + 1]):
            source, value = gradient[rows.positions[entry]], rows.entries[entry]
            for j in range(len(slope)):
                slope[j] += value * source[j]
        target = layer.neighbours[column]
        for j in range(len(slope)):
            target[j] = keep * target[j] - sgd.rate * slope[j]
    _descend_rest(layer, z, gradient, sgd)


@njit(cache=True, nogil=True, boundscheck=False)
def _cross_entropy(scores: Floats, labels: Longs) -> tuple[float, Floats]:
    """The mean of -log softmax(scores)[label], and its gradient."""
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
    return loss / len(scores), gradient


@njit(cache=True, nogil=True, boundscheck=False)
def _through_head(
    weight: Floats, bias: Floats, outputs: Floats, labels: Longs, sgd: _Sgd
) -> tuple[float, Floats]:
    """The loss of tanh(outputs) · W + b, and its gradient; the head has taken its step."""
    z = np.tanh(outputs)
    loss, gradient = _cross_entropy(np.dot(z, weight) + bias, labels)
    back = np.dot(gradient, weight.T) * (np.float32(1) - z * z)
    _descend(weight, np.dot(z.T, gradient), sgd)
    _descend_bias(bias, gradient, sgd)
    return loss, back
