"""Layers of GraphSAGE in which a row never depends on what else is in the batch.

:mod:`feddep.models.sgd_layers` multiplies with a BLAS, which may add in another order if there is
one row more. Large weights turn such a difference into another gradient, and DP-SGD must not let
one example's edges change the gradient of another. Here every row is a loop with an order of its
own.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from feddep.models.kernels import mean_gradient, mean_into

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


@njit(cache=True, nogil=True, boundscheck=False)
def first_copies(nodes: Longs, count: int) -> Longs:
    """For each row the first one that stands for the same of ``count`` nodes."""
    seen = np.full(count, -1, np.int64)
    first = np.empty(len(nodes), np.int64)
    for i in range(len(nodes)):
        if seen[nodes[i]] < 0:
            seen[nodes[i]] = i
        first[i] = seen[nodes[i]]
    return first


@njit(cache=True, nogil=True, boundscheck=False)
def enter_rows(
    indptr: Array, columns: Array, values: Floats, nodes: Longs, weight: Floats, bias: Floats
) -> Floats:
    """The input layer and its ReLU on sparse rows of features, each node computed once."""
    first = first_copies(nodes, len(indptr) - 1)
    out = np.empty((len(nodes), len(bias)), np.float32)
    for i in range(len(nodes)):
        target = out[i]
        if first[i] < i:
            target[:] = out[first[i]]
            continue
        target[:] = bias
        start, end = indptr[nodes[i]], indptr[nodes[i] + 1]
        whole = end - (end - start) % 4
        for k in range(start, whole, 4):
            w, x = weight[columns[k]], weight[columns[k + 1]]
            y, z = weight[columns[k + 2]], weight[columns[k + 3]]
            add_four(target, values[k], w, values[k + 1], x, values[k + 2], y, values[k + 3], z)
        for k in range(whole, end):
            add_one(target, values[k], weight[columns[k]])
        _relu(target)
    return out


@njit(cache=True, nogil=True, boundscheck=False)
def enter_dense_rows(features: Floats, nodes: Longs, weight: Floats, bias: Floats) -> Floats:
    """The same on dense features."""
    first = first_copies(nodes, len(features))
    out = np.empty((len(nodes), len(bias)), np.float32)
    for i in range(len(nodes)):
        target = out[i]
        if first[i] < i:
            target[:] = out[first[i]]
            continue
        target[:] = bias
        _add_product(features[nodes[i]], weight, target)
        _relu(target)
    return out


@njit(cache=True, nogil=True, boundscheck=False)
def convolve_rows(
    indptr: Longs, indices: Array, neighbours: Floats, own: Floats, bias: Floats, x: Floats
) -> tuple[Floats, Floats]:
    """The mean of each target's neighbours, and a convolution's output."""
    closed = len(own) == 0
    mean = np.zeros((len(indptr) - 1, x.shape[1]), np.float32)
    mean_into(indptr, indices, closed, x, mean)
    out = np.empty((len(mean), len(bias)), np.float32)
    for i in range(len(out)):
        out[i] = bias
        _add_product(mean[i], neighbours, out[i])
        if not closed:
            _add_product(x[i], own, out[i])
    return mean, out


@njit(cache=True, nogil=True, boundscheck=False)
def linear_rows(x: Floats, weight: Floats, bias: Floats) -> Floats:
    """x · W + b."""
    out = np.empty((len(x), len(bias)), np.float32)
    for i in range(len(out)):
        out[i] = bias
        _add_product(x[i], weight, out[i])
    return out


@njit(cache=True, nogil=True, boundscheck=False)
def relu_rows(x: Floats) -> None:
    """ReLU in place."""
    for i in range(len(x)):
        _relu(x[i])


@njit(cache=True, nogil=True, boundscheck=False)
def cross_entropy_slopes(scores: Floats, labels: Longs) -> Floats:
    """The gradient of each row's -log softmax(scores)[label]."""
    slopes = np.empty_like(scores)
    for i in range(len(scores)):
        row, slope = scores[i], slopes[i]
        highest, total = row.max(), np.float32(0)
        for j in range(len(row)):
            slope[j] = np.exp(row[j] - highest)
            total += slope[j]
        for j in range(len(row)):
            slope[j] /= total
        slope[labels[i]] -= np.float32(1)
    return slopes


@njit(cache=True, nogil=True, boundscheck=False)
def slopes_before(
    indptr: Longs, indices: Array, neighbours: Floats, own: Floats, x: Floats, slopes: Floats
) -> Floats:
    """The gradient of a layer's input before its ReLU, from that of its output.

    ``neighbours`` and ``own`` are transposed.
    """
    closed = len(own) == 0
    back, means = np.zeros(x.shape, np.float32), np.zeros((len(slopes), x.shape[1]), np.float32)
    for i in range(len(slopes)):
        _add_product(slopes[i], neighbours, means[i])
    mean_gradient(indptr, indices, closed, means, back)
    if not closed:
        for i in range(len(slopes)):
            _add_product(slopes[i], own, back[i])
    for i in range(len(x)):
        row, kept = back[i], x[i]
        for j in range(len(row)):
            row[j] = row[j] if kept[j] > 0 else np.float32(0)
    return back


@njit(cache=True, nogil=True, boundscheck=False, inline="always")
def _add_product(row: Floats, weight: Floats, target: Floats) -> None:
    whole = len(row) - len(row) % 4
    for k in range(0, whole, 4):
        w, x, y, z = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
        add_four(target, row[k], w, row[k + 1], x, row[k + 2], y, row[k + 3], z)
    for k in range(whole, len(row)):
        add_one(target, row[k], weight[k])


@njit(cache=True, nogil=True, boundscheck=False, inline="always")
def _relu(row: Floats) -> None:
    for j in range(len(row)):
        row[j] = row[j] if row[j] > 0 else np.float32(0)


@njit(cache=True, nogil=True, boundscheck=False, inline="always")
def add_one(target: Floats, a: np.float32, x: Floats) -> None:
    """Adds a x to ``target``."""
    for j in range(len(target)):
        target[j] += a * x[j]


@njit(cache=True, nogil=True, boundscheck=False, inline="always")
def add_four(
    target: Floats,
    a: np.float32,
    w: Floats,
    b: np.float32,
    x: Floats,
    c: np.float32,
    y: Floats,
    d: np.float32,
    z: Floats,
) -> None:
    """Adds a w, b x, c y and d z to ``target``, in this order, in half the time."""
    for j in range(len(target)):
        target[j] = (((target[j] + a * w[j]) + b * x[j]) + c * y[j]) + d * z[j]
