"""A short basis for wide embeddings, so that F need not take an input for each column.

At depth 0 an embedding is as wide as the features, thousands of columns, but generated ones come
out of a narrow hidden layer. With B ``(k, d_z)`` of orthonormal rows and z̄ = c B, a layer's part
for embeddings is z̄ W = c (B W), and SGD without weight decay changes W by multiples of B's rows
alone. So F may learn U = B W on the k coordinates c; then W ← W + Bᵀ (U - B W) is what it would
have learnt on z̄, up to rounding.
"""

import numpy as np
import numpy.typing as npt
from sklearn.utils.extmath import randomized_range_finder

Floats = npt.NDArray[np.float32]

WIDE = 1024
"""Embeddings with at least this many columns are worth a basis."""

_SIZES = (64, 256)
_ROUNDING = 1e-5


def basis_of(rows: Floats, seed: int) -> Floats | None:
    """B, ``(k, d)``: orthonormal rows that span ``rows`` ``(n, d)`` up to rounding.

    As many random combinations of the rows as there are directions span them all (Halko,
    Martinsson and Tropp 2011); whether there were enough is measured.

    Returns:
        None if the rows are narrow, or span too many directions to gain by it.
    """
    if rows.shape[1] < WIDE:
        return None
    some = rows[rows.any(axis=1)]
    if not len(some):
        return np.eye(1, rows.shape[1], dtype=np.float32)
    for size in _SIZES:
        found = randomized_range_finder(some.T, size=size, n_iter=0, random_state=seed)
        basis: Floats = np.ascontiguousarray(found.T, np.float32)
        lost = some - (some @ basis.T) @ basis
        if np.linalg.norm(lost) <= _ROUNDING * np.linalg.norm(some):
            return basis
    return None
