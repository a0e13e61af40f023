"""Writing out each example's gradient, measuring it, and adding it no longer than C."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from feddep.models.example_layers import add_four, add_one

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


class Product(NamedTuple):
    """A matrix whose gradient is Aᵀ G: an example's nodes are ``order[starts[e]:starts[e+1]]``.

    Attributes:
        inputs: A, ``(s, inputs)``.
        slopes: G, ``(s, outputs)``.
        order: ``(s,)`` rows, example after example.
        starts: ``(examples + 1,)``
        total: where the clipped gradients are added, ``(inputs, outputs)``; float32 or float64.
        own: room for one of them.
    """

    inputs: Floats
    slopes: Floats
    order: Longs
    starts: Longs
    total: Array
    own: Floats


class SparseProduct(NamedTuple):
    """The same for sparse rows of features, of which an example has few columns.

    Attributes:
        indptr: where each node's features start.
        columns: of the features.
        values: of the features.
        nodes: ``(s,)`` the graph's nodes behind the rows.
        slopes: G, ``(s, outputs)``.
        order: as above.
        starts: as above.
        total: as above.
    """

    indptr: Array
    columns: Array
    values: Floats
    nodes: Longs
    slopes: Floats
    order: Longs
    starts: Longs
    total: Array


@njit(cache=True, nogil=True, boundscheck=False)
def sum_clipped(
    examples: int, products: tuple[Product, ...], sparse: SparseProduct, clip: float
) -> None:
    """Adds each example's gradient, shortened to ``clip``, to the totals.

    Shares and products have the totals' precision: in float32 a share below 10⁻³⁸, of a long
    gradient or a tiny C, has few digits left and may be rounded to more than twice what it is.
    """
    room = np.empty((0, sparse.total.shape[1]), np.float32)
    slots = np.full(len(sparse.total), -1, np.int32)
    for example in range(examples):
        found, room = _write_out_sparse(sparse, example, slots, room)
        square = _square(room[: len(found)])
        for product in products:
            _write_out(product, example)
            square += _square(product.own)
        norm = np.sqrt(square)
        if not np.isfinite(norm):
            continue
        share = products[0].total.dtype.type(clip / norm if norm > clip else 1.0)
        for i in range(len(found)):
            add_one(sparse.total[found[i]], share, room[i])
        for product in products:
            for i in range(len(product.own)):
                add_one(product.total[i], share, product.own[i])


@njit(cache=True, nogil=True, boundscheck=False)
def _square(matrix: Floats) -> float:
    """The sum of squares in float64, a sum for each column first."""
    sums = np.zeros(matrix.shape[1])
    for i in range(len(matrix)):
        row = matrix[i]
        for j in range(len(row)):
            sums[j] += np.float64(row[j]) * np.float64(row[j])
    total: float = sums.sum()
    return total


@njit(cache=True, nogil=True, boundscheck=False)
def _write_out(product: Product, example: int) -> None:
    """An example's gradient of one matrix, into the room for it."""
    rows = product.order[product.starts[example] : product.starts[example + 1]]
    inputs, slopes, whole = product.inputs, product.slopes, len(rows) - len(rows) % 4
    for i in range(len(product.own)):
        target = product.own[i]
        target[:] = 0
        for k in range(0, whole, 4):
            a, b, c, d = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
            one, two, three, four = inputs[a, i], inputs[b, i], inputs[c, i], inputs[d, i]
            add_four(target, one, slopes[a], two, slopes[b], three, slopes[c], four, slopes[d])
        for k in range(whole, len(rows)):
            add_one(target, inputs[rows[k], i], slopes[rows[k]])


@njit(cache=True, nogil=True, boundscheck=False)
def _write_out_sparse(
    sparse: SparseProduct, example: int, slots: Array, room: Floats
) -> tuple[Array, Floats]:
    """The columns that an example has, and its gradient of their weights, one row for each."""
    rows = sparse.order[sparse.starts[example] : sparse.starts[example + 1]]
    found, starts, positions, values = _by_slot(sparse, rows, slots)
    if len(found) > len(room):
        room = np.empty((2 * len(found), room.shape[1]), np.float32)
    slopes = sparse.slopes
    for i in range(len(found)):
        slots[found[i]] = -1
        target, whole = room[i], starts[i + 1] - (starts[i + 1] - starts[i]) % 4
        target[:] = 0
        for k in range(starts[i], whole, 4):
            w, x = slopes[positions[k]], slopes[positions[k + 1]]
            y, z = slopes[positions[k + 2]], slopes[positions[k + 3]]
            add_four(target, values[k], w, values[k + 1], x, values[k + 2], y, values[k + 3], z)
        for k in range(whole, starts[i + 1]):
            add_one(target, values[k], slopes[positions[k]])
    return found, room


@njit(cache=True, nogil=True, boundscheck=False)
def _by_slot(
    sparse: SparseProduct, rows: Longs, slots: Array
) -> tuple[Array, Longs, Longs, Floats]:
    """Some rows' entries column after column: the columns, where each starts, row, value.

    The columns are in the order in which they are met, and each has its place in ``slots``.
    """
    indptr, nodes = sparse.indptr, sparse.nodes
    entries = 0
    for r in rows:
        entries += indptr[nodes[r] + 1] - indptr[nodes[r]]
    found, count = np.empty(min(entries, len(slots)), np.int32), 0
    starts = np.zeros(len(found) + 1, np.int64)
    for r in rows:
        for entry in range(indptr[nodes[r]], indptr[nodes[r] + 1]):
            column = sparse.columns[entry]
            if slots[column] < 0:
                slots[column] = count
                found[count] = column
                count += 1
            starts[slots[column] + 1] += 1
    for i in range(count):
        starts[i + 1] += starts[i]
    filled = starts[:count].copy()
    positions, values = np.empty(entries, np.int64), np.empty(entries, np.float32)
    for r in rows:
        for entry in range(indptr[nodes[r]], indptr[nodes[r] + 1]):
            slot = slots[sparse.columns[entry]]
            positions[filled[slot]] = r
            values[filled[slot]] = sparse.values[entry]
            filled[slot] += 1
    return found[:count], starts[: count + 1], positions, values
