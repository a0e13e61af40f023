"""Neighbour lists from pairs of nodes, without a copy of the pairs."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[Any]


def adjacency(pairs: Array, nodes: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """``indptr`` and sorted ``indices`` of an undirected graph; drops repeats and self-loops.

    Args:
        pairs: ``(E, 2)`` node numbers, each from 0 to ``nodes`` - 1.
        nodes: how many there are.
    """
    starts = _starts(pairs, nodes)
    indices = _filled(pairs, starts)
    indptr, kept = _without_repeats(starts, indices)
    return indptr, indices if kept == len(indices) else indices[:kept].copy()


@njit(cache=True)
def _starts(pairs: Array, nodes: int) -> Array:
    starts = np.zeros(nodes + 1, np.int64)
    for edge in range(len(pairs)):
        one, other = pairs[edge, 0], pairs[edge, 1]
        if one != other:
            starts[one + 1] += 1
            starts[other + 1] += 1
    for node in range(nodes):
        starts[node + 1] += starts[node]
    return starts


@njit(cache=True)
def _filled(pairs: Array, starts: Array) -> Array:
    place = starts[:-1].copy()
    indices = np.empty(starts[-1], np.int32)
    for edge in range(len(pairs)):
        one, other = pairs[edge, 0], pairs[edge, 1]
        if one != other:
            indices[place[one]] = other
            place[one] += 1
            indices[place[other]] = one
            place[other] += 1
    return indices


@njit(cache=True)
def _without_repeats(starts: Array, indices: Array) -> tuple[Array, int]:
    """Sorts every list and moves what is left of it to the front, in place."""
    indptr = np.zeros_like(starts)
    kept = 0
    for node in range(len(starts) - 1):
        own = np.sort(indices[starts[node] : starts[node + 1]])
        for position in range(len(own)):
            if position == 0 or own[position] != own[position - 1]:
                indices[kept] = own[position]
                kept += 1
        indptr[node + 1] = kept
    return indptr, kept
