"""Each example's gradient by itself, clipped, and added to a sum: what DP-SGD needs.

Three things must hold for any weights, also for those that a hostile server makes up:

- *What is measured is what is added.* An example's gradient is written out, its norm is taken from
  those very numbers in float64, and they are added times min(1, C / norm). Norms from products of
  rows (‖Aᵀ G‖² = ⟨AAᵀ, GGᵀ⟩), or from another pass, lose everything where large terms cancel.
- *Examples know nothing of each other.* Every row is computed by loops that add in an order of
  their own, whatever else is in the batch. A BLAS may add in another order if there is one row
  more, and large weights turn that into another gradient.
- *A gradient that is not finite is left out.* 0 · ∞ would be NaN, and everybody would see it.

So an example adds at most C, but for the rounding of the sum: in float32 a batch of m examples may
turn one of them into up to C(1 + m² 2⁻²⁴), in float64 into C(1 + m² 2⁻⁵³). What a promise rests on
is therefore shared out and summed in float64; a simulation, which promises nothing, in float32.
The gradient of a weight matrix is Aᵀ G, with A the layer's input and G the gradient of its output,
a row for each node that the example's loss depends on.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from feddep.graph.sampling import EgoGraphs
from feddep.models.clipping import Product, SparseProduct, sum_clipped
from feddep.models.example_layers import (
    convolve_rows,
    cross_entropy_slopes,
    enter_dense_rows,
    enter_rows,
    linear_rows,
    relu_rows,
    slopes_before,
)
from feddep.models.sgd_weights import Rows, Weights

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

_ABSENT = np.empty((0, 0), np.float32)
_NO_ROWS = np.empty(0, np.int64)


def add_clipped(
    weights: Weights,
    features: Floats | Rows,
    labels: Longs,
    ego: EgoGraphs,
    owner: Longs,
    total: Weights,
    clip: float,
) -> None:
    """Adds each example's gradient, shortened to norm C, to ``total``.

    The norm is over all weights together. A gradient that is not finite is left out.

    Args:
        weights: of the model.
        features: of the graph's nodes.
        labels: of the graph's nodes.
        ego: the examples' ego-graphs side by side, without a node in common.
        owner: ``(s,)`` whose ego-graph each of its nodes is in.
        total: arrays of the shapes of the weights, of float32 or float64.
        clip: C.
    """
    gradients = _Gradients(len(ego.targets), owner)
    passed, out = _forward(weights, features, ego)
    slopes = _top(weights, total, gradients, out, labels[ego.targets])
    for layer, into, block, (x, mean) in reversed(
        list(zip(weights.layers, total.layers, ego.blocks, passed, strict=True))
    ):
        gradients.add(mean, slopes, into.neighbours)
        gradients.add_bias(slopes, into.bias)
        if len(layer.own):
            gradients.add(x[: len(slopes)], slopes, into.own)
        slopes = slopes_before(
            block.indptr, block.indices, _turned(layer.neighbours), _turned(layer.own), x, slopes
        )
    if isinstance(features, Rows):
        gradients.add_sparse(features, ego.nodes, slopes, total.input.neighbours)
    else:
        gradients.add(features[ego.nodes], slopes, total.input.neighbours)
    gradients.add_bias(slopes, total.input.bias)
    gradients.clip(clip)


def _forward(
    weights: Weights, features: Floats | Rows, ego: EgoGraphs
) -> tuple[list[tuple[Floats, Floats]], Floats]:
    """Every convolution's input and means of neighbours, and the last one's output."""
    entry = weights.input
    if isinstance(features, Rows):
        x = enter_rows(*features, ego.nodes, entry.neighbours, entry.bias)
    else:
        x = enter_dense_rows(features, ego.nodes, entry.neighbours, entry.bias)
    passed = []
    for layer, block in zip(weights.layers, ego.blocks, strict=True):
        relu_rows(x)
        mean, out = convolve_rows(
            block.indptr, block.indices, layer.neighbours, layer.own, layer.bias, x
        )
        passed.append((x, mean))
        x = out
    return passed, x


def _top(
    weights: Weights, total: Weights, gradients: "_Gradients", out: Floats, labels: Longs
) -> Floats:
    """The gradient of the last convolution's output, through the head if there is one."""
    if weights.head is None or total.head is None:
        return cross_entropy_slopes(out, labels)
    z, (weight, bias) = np.tanh(out), weights.head
    slopes = cross_entropy_slopes(linear_rows(z, weight, bias), labels)
    gradients.add(z, slopes, total.head[0])
    gradients.add_bias(slopes, total.head[1])
    back = linear_rows(slopes, _turned(weight), np.zeros(len(weight), np.float32))
    with np.errstate(all="ignore"):  # what is not finite is left out in the end
        found: Floats = back * (1 - z * z)
    return found


class _Gradients:
    """The parts of all examples' gradients, matrix by matrix."""

    def __init__(self, examples: int, owner: Longs) -> None:
        self._examples, self._owner = examples, owner
        self._products: list[Product] = []
        nobodys = (_NO_ROWS, np.zeros(examples + 1, np.int64))
        nothing = Rows(_NO_ROWS, _NO_ROWS, np.empty(0, np.float32))
        self._sparse = SparseProduct(*nothing, _NO_ROWS, _ABSENT, *nobodys, _ABSENT)

    def add(self, inputs: Floats, slopes: Floats, total: Floats) -> None:
        """The part of a matrix, for the first nodes."""
        room = np.empty(total.shape, np.float32)
        self._products.append(Product(inputs, slopes, *self._rows(slopes), total, room))

    def add_bias(self, slopes: Floats, total: Floats) -> None:
        """The part of a bias: a matrix on an input of 1."""
        self.add(np.ones((len(slopes), 1), np.float32), slopes, total.reshape(1, -1))

    def add_sparse(self, features: Rows, nodes: Longs, slopes: Floats, total: Floats) -> None:
        """The part of the matrix on sparse features."""
        self._sparse = SparseProduct(*features, nodes, slopes, *self._rows(slopes), total)

    def clip(self, clip: float) -> None:
        """Adds them to their totals."""
        sum_clipped(self._examples, tuple(self._products), self._sparse, clip)

    def _rows(self, slopes: Floats) -> tuple[Longs, Longs]:
        return _by_owner(self._owner[: len(slopes)], self._examples)


def _turned(matrix: Floats) -> Floats:
    """The transposed matrix, in C order."""
    return np.ascontiguousarray(matrix.T)


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
