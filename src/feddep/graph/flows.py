"""Direction and weight of edges: how much goes from a node to each of its neighbours.

A graph's lists name both ends of every edge. Beside them, f_vu is what goes from v to u: the sum of
the weights of all edges from v to u, 0 where there is none.
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numba import njit

from feddep.errors import InputError

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

Directions = Literal["both", "apart"]


def flows_of(pairs: Array, weights: npt.ArrayLike, indptr: Array, indices: Array) -> Floats:
    """f of every entry of the lists, ``(2E,)``.

    Args:
        pairs: ``(R, 2)`` from which node to which; rows may repeat, and then add up.
        weights: ``(R,)`` of each row, not negative.
        indptr: where each node's list starts.
        indices: the sorted lists.

    Raises:
        InputError: there is not one such weight for every row.
    """
    given = np.asarray(weights)
    if given.shape != (len(pairs),) or given.dtype.kind not in "biuf":
        raise InputError(
            f"expected one number as weight of each of {len(pairs)} edges "
            f"(got {given.dtype} of shape {given.shape})"
        )
    if not (np.isfinite(given) & (given >= 0)).all():
        raise InputError("weights of edges must be finite and not negative")
    return _summed(pairs, given, indptr, indices).astype(np.float32)


def check_flows(flows: Array, entries: int) -> None:
    """Refuses what cannot be the flows of so many entries."""
    if flows.dtype != np.float32 or flows.shape != (entries,):
        raise InputError(
            f"expected flows as float32, one for each of {entries} entries of the lists "
            f"(got {flows.dtype} of shape {flows.shape})"
        )
    if not (np.isfinite(flows) & (flows >= 0)).all():
        raise InputError("weights of edges must be finite and not negative, also added up")
    flows.flags.writeable = False


def mirrored(indptr: Array, indices: Array, flows: Array) -> Floats:
    """What comes from each neighbour, ``(2E,)``: f_uv in place of f_vu."""
    return _mirrored(indptr, indices, flows)


def ways(
    indptr: Array, indices: Array, flows: Floats, directions: Directions, *, weighted: bool
) -> Floats:
    """How much every entry of the lists counts in each of the means over neighbours, ``(W, 2E)``.

    One mean over all of them, or two: over those that edges lead to, and those they come from.
    """
    back = mirrored(indptr, indices, flows)
    found = np.stack([flows, back]) if directions == "apart" else (flows + back)[None]
    return found if weighted else (found > 0).astype(np.float32)


def shares_of(indptr: Array, counts: Floats) -> Floats:
    """What counts so much, as shares of each list; zero where nothing counts."""
    return _shares(indptr, counts)


@njit(cache=True)
def _summed(pairs: Array, weights: Array, indptr: Array, indices: Array) -> Array:
    found = np.zeros(len(indices), np.float64)
    for row in range(len(pairs)):
        source, target = pairs[row, 0], pairs[row, 1]
        if source != target:
            start = indptr[source]
            place = np.searchsorted(indices[start : indptr[source + 1]], target)
            found[start + place] += weights[row]
    return found


@njit(cache=True)
def _mirrored(indptr: Array, indices: Array, flows: Array) -> Array:
    # Nodes are met in ascending order, so each list is met from its beginning.
    next_place = indptr[:-1].copy()
    found = np.empty(len(flows), np.float32)
    for node in range(len(indptr) - 1):
        for place in range(indptr[node], indptr[node + 1]):
            other = indices[place]
            found[place] = flows[next_place[other]]
            next_place[other] += 1
    return found


@njit(cache=True)
def _shares(indptr: Array, counts: Array) -> Array:
    found = np.zeros(counts.shape, np.float32)
    for way in range(len(counts)):
        for node in range(len(indptr) - 1):
            total = np.float64(0)
            for place in range(indptr[node], indptr[node + 1]):
                total += counts[way, place]
            if total > 0:
                for place in range(indptr[node], indptr[node + 1]):
                    found[way, place] = counts[way, place] / total
    return found
