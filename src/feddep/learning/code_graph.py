"""A k-nearest-neighbour graph across silos, over codes of their nodes."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_NODES_AT_ONCE = 1024
_DISTANCES_AT_ONCE = 2**28  # 1 GB; reached with 262144 codes of other silos


def nearest_elsewhere(codes: Sequence[Floats], silo: int, k: int) -> Floats:
    """For each node of a silo the mean of the k nearest codes of the other silos, ``(n, c)``.

    Zero vectors where there are no other silos.
    """
    others = [own for number, own in enumerate(codes) if number != silo]
    means = np.zeros_like(codes[silo])
    if not others:
        return means
    pool = np.concatenate(others)
    count = min(k, len(pool))
    squares = (pool * pool).sum(axis=1)
    at_once = max(1, min(_NODES_AT_ONCE, _DISTANCES_AT_ONCE // len(pool)))
    for first in range(0, len(means), at_once):
        some = slice(first, first + at_once)
        distances = squares - 2 * codes[silo][some] @ pool.T  # up to a constant for each node
        nearest = np.argpartition(distances, count - 1, axis=1)[:, :count]
        means[some] = pool[nearest].mean(axis=1)
    return means
