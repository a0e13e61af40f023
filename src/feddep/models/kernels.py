"""The two products in which graph convolutions spend their time, with their gradients.

Both are memory-bound loops over short rows. On the CPU they run as numba loops, which beat the
general sparse routines of torch on batches of a few hundred rows; elsewhere as torch operations.
Tests hold the two versions to the same numbers.
"""

import warnings
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from torch import Tensor

from feddep.graph.graph import Features
from feddep.graph.sampling import Block

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

_CACHE = 1 << 20  # bytes: about a core's second-level cache


class RowProducts(Protocol):
    """Features of some nodes, known by their products with a weight."""

    def times(self, nodes: Longs, weight: Tensor) -> Tensor:
        """X[nodes] · W: ``(s,)`` nodes and a ``(d, out)`` weight give ``(s, out)``."""
        ...


class FeatureTable:
    """A graph's features on a device, for products with the rows of some nodes.

    Sparse features stay sparse: X[nodes] · W costs one pass over the non-zeros of those rows.
    """

    def __init__(self, features: Features, device: torch.device) -> None:
        self.device = device
        self._dense: Tensor | None = None
        self._sparse: tuple[Array, Array, Floats] | None = None
        self._moved: tuple[Tensor, Tensor, Tensor] | None = None
        if isinstance(features, np.ndarray):
            self._dense = _shared(features).to(device)
        elif device.type == "cpu":
            self._sparse = (features.indptr, features.indices, features.data)
        else:
            self._moved = (
                torch.tensor(features.indptr, dtype=torch.int64, device=device),
                torch.tensor(features.indices, dtype=torch.int64, device=device),
                torch.tensor(features.data, device=device),
            )

    def times(self, nodes: Longs, weight: Tensor) -> Tensor:
        """X[nodes] · W: ``(s,)`` nodes and a ``(d, out)`` weight give ``(s, out)``."""
        if self._sparse is not None:
            product: Tensor = _SparseRowsProduct.apply(  # type: ignore[no-untyped-call]
                weight, nodes, self._sparse
            )
            return product
        moved = torch.from_numpy(nodes).to(self.device)
        if self._dense is not None:
            return self._dense[moved] @ weight
        assert self._moved is not None
        return sparse_rows_product(*self._moved, moved, weight)


def _shared(array: Array) -> Tensor:
    """A tensor in the memory of an array that nobody writes to; torch would warn that one could."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def mean_of_neighbours(x: Tensor, block: Block, *, closed: bool = False) -> Tensor:
    """For every target the mean of its sources' rows; the zero vector where there are none.

    ``(sources, h)`` → ``(targets, h)``. ``closed`` counts the target itself as one of them. In a
    block with shares, W means by these shares side by side, ``(targets, W h)``.
    """
    if x.device.type == "cpu":
        mean: Tensor = _MeanOfNeighbours.apply(  # type: ignore[no-untyped-call]
            x, block, closed
        )
        return mean
    return portable_mean_of_neighbours(x, block, closed=closed)


def sparse_rows_product(
    indptr: Tensor, columns: Tensor, values: Tensor, nodes: Tensor, weight: Tensor
) -> Tensor:
    """X[nodes] · W in torch operations only, on any device."""
    starts = indptr[nodes]
    counts = indptr[nodes + 1] - starts
    row = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), counts)
    first = torch.cumsum(counts, 0) - counts
    entry = torch.arange(len(row), device=nodes.device) - first[row] + starts[row]
    contributions = weight[columns[entry]] * values[entry, None]
    return weight.new_zeros(len(nodes), weight.shape[1]).index_add(0, row, contributions)


def portable_mean_of_neighbours(x: Tensor, block: Block, *, closed: bool) -> Tensor:
    """:func:`mean_of_neighbours` in torch operations only, on any device."""
    counts = torch.from_numpy(np.diff(block.indptr)).to(x.device)
    sources = torch.tensor(block.indices, dtype=torch.int64, device=x.device)
    row = torch.repeat_interleave(torch.arange(block.targets, device=x.device), counts)
    if block.shares is not None:
        shares = torch.from_numpy(block.shares).to(x.device)
        zeros = x.new_zeros(block.targets, x.shape[1])
        means = [zeros.index_add(0, row, x[sources] * way.unsqueeze(1)) for way in shares]
        return torch.cat(means, dim=1)
    total = x.new_zeros(block.targets, x.shape[1]).index_add(0, row, x[sources])
    if closed:
        total = total + x[: block.targets]
        counts = counts + 1
    return total / counts.clamp(min=1).unsqueeze(1)


class _SparseRowsProduct(torch.autograd.Function):
    """X[nodes] · W, row by row, or column by column where W is too large for the cache.

    Column by column each row of a large W is read once, and the batch's few hundred rows stay in
    the cache. The sums are taken in the same order either way, so the results are bit-identical.
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, nodes: Longs, rows: tuple[Array, Array, Floats]
    ) -> Tensor:
        indptr, columns, values = rows
        ctx.shape, ctx.rows, ctx.nodes, ctx.sorted = weight.shape, rows, nodes, None
        out = np.zeros((len(nodes), weight.shape[1]), np.float32)
        matrix = weight.detach().numpy()
        if ctx.needs_input_grad[0] and weight.nbytes > _CACHE:
            ctx.sorted = sort_by_column(indptr, columns, values, nodes, weight.shape[0])
            starts, positions, entries = ctx.sorted
            columns_product(starts, positions, entries, matrix, out)
        else:
            _rows_product(indptr, columns, values, nodes, matrix, out)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        out = np.zeros(ctx.shape, np.float32)
        upstream = gradient.contiguous().numpy()
        if ctx.sorted is not None:
            starts, positions, entries = ctx.sorted
            _columns_gradient(starts, positions, entries, upstream, out)
        else:
            indptr, columns, values = ctx.rows
            _rows_gradient(indptr, columns, values, ctx.nodes, upstream, out)
        return torch.from_numpy(out), None, None


class _MeanOfNeighbours(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, block: Block, closed: bool) -> Tensor:
        ctx.block, ctx.closed, ctx.shape = block, closed, x.shape
        rows = x.detach().contiguous().numpy()
        return torch.from_numpy(means_of(block.indptr, block.indices, block.shares, closed, rows))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        block, out = ctx.block, np.zeros(ctx.shape, np.float32)
        rows = gradient.contiguous().numpy()
        means_gradient(block.indptr, block.indices, block.shares, ctx.closed, rows, out)
        return torch.from_numpy(out), None, None


@njit(cache=True, nogil=True, boundscheck=False)
def means_of(
    indptr: Longs, indices: Array, shares: Floats | None, closed: bool, x: Floats
) -> Floats:
    """:func:`mean_of_neighbours` for arrays."""
    if shares is None:
        out = np.zeros((len(indptr) - 1, x.shape[1]), np.float32)
        mean_into(indptr, indices, closed, x, out)
    else:
        out = np.zeros((len(indptr) - 1, len(shares) * x.shape[1]), np.float32)
        _mix_into(indptr, indices, shares, x, out)
    return out


@njit(cache=True, nogil=True, boundscheck=False)
def means_gradient(
    indptr: Longs,
    indices: Array,
    shares: Floats | None,
    closed: bool,
    gradient: Floats,
    out: Floats,
) -> None:
    """Adds the gradient of the sources' rows to ``out``, given that of the means."""
    if shares is None:
        mean_gradient(indptr, indices, closed, gradient, out)
    else:
        _mix_gradient(indptr, indices, shares, gradient, out)


@njit(cache=True, nogil=True, boundscheck=False)
def _mix_into(indptr: Longs, indices: Array, shares: Floats, x: Floats, out: Floats) -> None:
    width = x.shape[1]
    for way in range(len(shares)):
        for i in range(len(out)):
            target = out[i, way * width : (way + 1) * width]
            for entry in range(indptr[i], indptr[i + 1]):
                share, source = shares[way, entry], x[indices[entry]]
                if share:
                    for j in range(width):
                        target[j] += share * source[j]


@njit(cache=True, nogil=True, boundscheck=False)
def _mix_gradient(
    indptr: Longs, indices: Array, shares: Floats, gradient: Floats, out: Floats
) -> None:
    width = out.shape[1]
    for way in range(len(shares)):
        for i in range(len(gradient)):
            source = gradient[i, way * width : (way + 1) * width]
            for entry in range(indptr[i], indptr[i + 1]):
                share, target = shares[way, entry], out[indices[entry]]
                if share:
                    for j in range(width):
                        target[j] += share * source[j]


@njit(cache=True, nogil=True, boundscheck=False)
def _rows_product(
    indptr: Array, columns: Array, values: Floats, nodes: Longs, weight: Floats, out: Floats
) -> None:
    for i in range(len(nodes)):
        target = out[i]
        for entry in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            source = weight[columns[entry]]
            value = values[entry]
            for j in range(len(target)):
                target[j] += value * source[j]


@njit(cache=True, nogil=True, boundscheck=False)
def _rows_gradient(
    indptr: Array, columns: Array, values: Floats, nodes: Longs, gradient: Floats, out: Floats
) -> None:
    for i in range(len(nodes)):
        source = gradient[i]
        for entry in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            target = out[columns[entry]]
            value = values[entry]
            for j in range(len(target)):
                target[j] += value * source[j]


@njit(cache=True, nogil=True, boundscheck=False)
def sort_by_column(
    indptr: Array, columns: Array, values: Floats, nodes: Longs, width: int
) -> tuple[Longs, npt.NDArray[np.int32], Floats]:
    """The entries of some rows sorted by column: where each column starts, row, value."""
    starts = np.zeros(width + 1, np.int64)
    for i in range(len(nodes)):
        for entry in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            starts[columns[entry] + 1] += 1
    for column in range(width):
        starts[column + 1] += starts[column]
    filled = starts[:-1].copy()
    positions = np.empty(starts[-1], np.int32)
    entries = np.empty(starts[-1], np.float32)
    for i in range(len(nodes)):
        for entry in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            place = filled[columns[entry]]
            positions[place] = i
            entries[place] = values[entry]
            filled[columns[entry]] = place + 1
    return starts, positions, entries


@njit(cache=True, nogil=True, boundscheck=False)
def columns_product(
    starts: Longs, positions: Array, entries: Floats, weight: Floats, out: Floats
) -> None:
    """Adds X · W to ``out``, the entries of X sorted by column."""
    for column in range(len(weight)):
        source = weight[column]
        for entry in range(starts[column], starts[column + 1]):
            target = out[positions[entry]]
            value = entries[entry]
            for j in range(len(target)):
                target[j] += value * source[j]


@njit(cache=True, nogil=True, boundscheck=False)
def _columns_gradient(
    starts: Longs, positions: Array, entries: Floats, gradient: Floats, out: Floats
) -> None:
    for column in range(len(out)):
        target = out[column]
        for entry in range(starts[column], starts[column + 1]):
            source = gradient[positions[entry]]
            value = entries[entry]
            for j in range(len(target)):
                target[j] += value * source[j]


@njit(cache=True, nogil=True, boundscheck=False)
def mean_into(indptr: Longs, indices: Array, closed: bool, x: Floats, out: Floats) -> None:
    """:func:`mean_of_neighbours` for arrays; ``out`` must hold zeros."""
    own = 1 if closed else 0
    for i in range(len(out)):
        count = indptr[i + 1] - indptr[i] + own
        if count == 0:
            continue
        target = out[i]
        if own:
            target[:] = x[i]
        for entry in range(indptr[i], indptr[i + 1]):
            source = x[indices[entry]]
            for j in range(len(target)):
                target[j] += source[j]
        scale = np.float32(1.0 / count)
        for j in range(len(target)):
            target[j] *= scale


@njit(cache=True, nogil=True, boundscheck=False)
def mean_gradient(
    indptr: Longs, indices: Array, closed: bool, gradient: Floats, out: Floats
) -> None:
    """Adds the gradient of the sources' rows to ``out``, given that of the means."""
    own = 1 if closed else 0
    for i in range(len(gradient)):
        count = indptr[i + 1] - indptr[i] + own
        if count == 0:
            continue
        source = gradient[i]
        scale = np.float32(1.0 / count)
        if own:
            target = out[i]
            for j in range(len(source)):
                target[j] += scale * source[j]
        for entry in range(indptr[i], indptr[i + 1]):
            target = out[indices[entry]]
            for j in range(len(source)):
                target[j] += scale * source[j]
