"""The norm of each example's gradient, without computing the gradients.

The gradient of a weight matrix is Aᵀ G, with A the layer's input and G the gradient of its output,
a row for each node that an example's loss depends on. Its squared norm is
‖Aᵀ G‖² = Σ_ij ⟨a_i, a_j⟩ ⟨g_i, g_j⟩, and an example has far fewer nodes than a matrix has entries.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from feddep.models.kernels import sort_by_column

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
SparseRows = tuple[Array, Array, Floats]
"""Where each row starts, columns, values."""

_MOST = 2048  # nodes of an example, up to which all products of two of its rows are kept


class ExampleSquares:
    """Adds up the squares of each example's gradient, layer by layer.

    Args:
        examples: number of examples.
        owner: whose ego-graph each node is in.
    """

    def __init__(self, examples: int, owner: Longs) -> None:
        self._squares = np.zeros(examples)
        self._owner = owner

    def add(self, inputs: Sequence[Floats], gradient: Floats) -> None:
        """Adds a layer's part: the matrices on ``inputs`` and the bias, for the first nodes."""
        ones = np.ones((len(gradient), 1), np.float32)
        order, starts = _by_owner(self._owner[: len(gradient)], len(self._squares))
        _add(self._squares, order, starts, np.hstack([*inputs, ones]), gradient)

    def add_sparse(self, features: SparseRows, nodes: Longs, width: int, gradient: Floats) -> None:
        """Adds the part of a matrix on ``width`` columns of sparse features, without a bias."""
        order, starts = _by_owner(self._owner, len(self._squares))
        _add_sparse(self._squares, order, starts, features, nodes, width, gradient)

    def norms(self) -> Array:
        """``(examples,)``"""
        found: Array = np.sqrt(np.maximum(self._squares, 0))
        return found


@njit(cache=True, nogil=True)
def _by_owner(owner: Longs, examples: int) -> tuple[Longs, Longs]:
    """The rows in the order of their owners, and where each owner's start."""
    starts = np.zeros(examples + 1, np.int64)
    for i in range(len(owner)):
        starts[owner[i] + 1] += 1
    for example in range(examples):
        starts[example + 1] += starts[example]
    filled = starts[:-1].copy()
    order = np.empty(len(owner), np.int64)
    for i in range(len(owner)):
        order[filled[owner[i]]] = i
        filled[owner[i]] += 1
    return order, starts


@njit(cache=True, nogil=True)
def _add(squares: Array, order: Longs, starts: Longs, inputs: Floats, gradient: Floats) -> None:
    for example in range(len(squares)):
        rows = order[starts[example] : starts[example + 1]]
        a, g = inputs[rows], gradient[rows]
        width, height = a.shape[1], g.shape[1]
        if len(rows) * (width + height) < width * height:
            squares[example] += _dot(np.dot(a, a.T), np.dot(g, g.T))
        else:
            product = np.dot(a.T, g)
            squares[example] += _dot(product, product)


@njit(cache=True, nogil=True)
def _dot(one: Floats, other: Floats) -> float:
    total = 0.0
    for i in range(len(one)):
        for j in range(one.shape[1]):
            total += one[i, j] * other[i, j]
    return total


@njit(cache=True, nogil=True, boundscheck=False)
def _add_sparse(
    squares: Array,
    order: Longs,
    starts: Longs,
    features: SparseRows,
    nodes: Longs,
    width: int,
    gradient: Floats,
) -> None:
    """Column by column: a column's row of Aᵀ G is a sum over the few nodes that have it."""
    indptr, columns, values = features
    slope = np.empty(gradient.shape[1], np.float32)
    for example in range(len(squares)):
        rows = order[starts[example] : starts[example + 1]]
        first, positions, entries = sort_by_column(indptr, columns, values, nodes[rows], width)
        g = gradient[rows]
        few = len(rows) <= _MOST
        products = np.dot(g, g.T) if few else g[:0]
        total = 0.0
        for column in range(width):
            start, end = first[column], first[column + 1]
            if few and end - start < len(slope):
                for i in range(start, end):
                    row = products[positions[i]]
                    total += entries[i] * entries[i] * row[positions[i]]
                    for j in range(i + 1, end):
                        total += 2 * entries[i] * entries[j] * row[positions[j]]
            else:
                slope[:] = 0
                for i in range(start, end):
                    source = g[positions[i]]
                    for k in range(len(slope)):
                        slope[k] += entries[i] * source[k]
                for k in range(len(slope)):
                    total += slope[k] * slope[k]
        squares[example] += total
