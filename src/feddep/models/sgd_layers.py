"""Layers of GraphSAGE forward and back, each a compiled loop: what :mod:`feddep.models.sgd` runs.

A way back changes weights as soon as their gradient is known, in place.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from feddep.models.kernels import columns_product, means_gradient, means_of

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


class Missing(NamedTuple):
    """Embeddings of missing neighbours; nodes without any cost nothing.

    Positions are ascending and a layer's targets come first, so each layer takes a prefix.
    """

    positions: Longs
    rows: Floats


class Change(NamedTuple):
    """What a gradient does to the array that it goes into: a ← keep · a - rate · gradient."""

    rate: np.float32
    keep: np.float32


class ByColumn(NamedTuple):
    """Entries of some sparse rows, column after column."""

    starts: Longs
    positions: Array
    entries: Floats


class Layer(NamedTuple):
    """A layer's weights; an absent one is an empty matrix.

    The input layer's features take the place of the mean of neighbours.
    """

    neighbours: Floats
    own: Floats
    bias: Floats
    embedding: Floats


@njit(cache=True, nogil=True, boundscheck=False)
def _add_rest(layer: Layer, z: Missing, out: Floats) -> None:
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
def _descend(weight: Floats, gradient: Floats, change: Change) -> None:
    for i in range(len(weight)):
        row, slope = weight[i], gradient[i]
        for j in range(len(row)):
            row[j] = change.keep * row[j] - change.rate * slope[j]


@njit(cache=True, nogil=True, boundscheck=False)
def _descend_rest(layer: Layer, z: Missing, gradient: Floats, change: Change) -> None:
    """A step on the bias and the embeddings' part."""
    _descend_bias(layer.bias, gradient, change)
    count = np.searchsorted(z.positions, len(gradient))
    if len(layer.embedding) and (count or change.keep != 1):
        slopes = gradient[z.positions[:count]]
        _descend(layer.embedding, np.dot(z.rows[:count].T, slopes), change)


@njit(cache=True, nogil=True, boundscheck=False)
def _descend_bias(bias: Floats, gradient: Floats, change: Change) -> None:
    total = np.zeros(len(bias), np.float32)
    for i in range(len(gradient)):
        row = gradient[i]
        for j in range(len(row)):
            total[j] += row[j]
    for j in range(len(bias)):
        bias[j] = change.keep * bias[j] - change.rate * total[j]


@njit(cache=True, nogil=True, boundscheck=False)
def convolve(
    layer: Layer, indptr: Longs, indices: Array, shares: Floats | None, x: Floats, z: Missing
) -> tuple[Floats, Floats]:
    """The means of each target's neighbours, and the layer's output."""
    targets = len(indptr) - 1
    closed = len(layer.own) == 0
    mean = means_of(indptr, indices, shares, closed, x)
    out = np.dot(mean, layer.neighbours)
    if not closed:
        out += np.dot(x[:targets], layer.own)
    _add_rest(layer, z, out)
    return mean, out


@njit(cache=True, nogil=True, boundscheck=False)
def sources_gradient(
    layer: Layer,
    indptr: Longs,
    indices: Array,
    shares: Floats | None,
    x: Floats,
    gradient: Floats,
) -> Floats:
    """The gradient of the layer's input."""
    closed = len(layer.own) == 0
    back = np.zeros(x.shape, np.float32)
    means_gradient(indptr, indices, shares, closed, np.dot(gradient, layer.neighbours.T), back)
    if not closed:
        back[: len(gradient)] += np.dot(gradient, layer.own.T)
    return back


@njit(cache=True, nogil=True, boundscheck=False)
def convolve_back(
    layer: Layer,
    changed: Layer,
    indptr: Longs,
    indices: Array,
    shares: Floats | None,
    x: Floats,
    mean: Floats,
    z: Missing,
    gradient: Floats,
    change: Change,
) -> Floats:
    """The gradient of the layer's input; those of its weights go into ``changed``."""
    back = sources_gradient(layer, indptr, indices, shares, x, gradient)
    if len(layer.own):
        _descend(changed.own, np.dot(x[: len(gradient)].T, gradient), change)
    _descend(changed.neighbours, np.dot(mean.T, gradient), change)
    _descend_rest(changed, z, gradient, change)
    return back


@njit(cache=True, nogil=True, boundscheck=False)
def enter_dense(layer: Layer, rows: Floats, z: Missing) -> Floats:
    """The input layer on dense rows of features."""
    out: Floats = np.dot(rows, layer.neighbours)
    _add_rest(layer, z, out)
    return out


@njit(cache=True, nogil=True, boundscheck=False)
def enter_dense_back(
    layer: Layer, rows: Floats, z: Missing, gradient: Floats, change: Change
) -> None:
    """A step on the input layer's weights, from dense rows."""
    _descend(layer.neighbours, np.dot(rows.T, gradient), change)
    _descend_rest(layer, z, gradient, change)


@njit(cache=True, nogil=True, boundscheck=False)
def enter_sparse(layer: Layer, rows: ByColumn, count: int, z: Missing) -> Floats:
    """The input layer on sparse rows of features."""
    out = np.zeros((count, layer.neighbours.shape[1]), np.float32)
    columns_product(rows.starts, rows.positions, rows.entries, layer.neighbours, out)
    _add_rest(layer, z, out)
    return out


@njit(cache=True, nogil=True, boundscheck=False)
def enter_sparse_back(
    layer: Layer, rows: ByColumn, z: Missing, gradient: Floats, change: Change
) -> None:
    """A step on the input layer's weights, from sparse rows; untouched columns cost nothing."""
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
def cross_entropy(scores: Floats, labels: Longs) -> tuple[float, Floats]:
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
def through_head(
    head: tuple[Floats, Floats],
    changed: tuple[Floats, Floats],
    z: Floats,
    labels: Longs,
    change: Change,
) -> tuple[float, Floats]:
    """The loss of z · W + b with z the tanh of outputs, and the gradient of those outputs."""
    loss, gradient = cross_entropy(np.dot(z, head[0]) + head[1], labels)
    back = np.dot(gradient, head[0].T) * (np.float32(1) - z * z)
    _descend(changed[0], np.dot(z.T, gradient), change)
    _descend_bias(changed[1], gradient, change)
    return loss, back
