"""Sparse tables from parts that somebody else made, checked before SciPy gets to see them.

SciPy's compiled loops trust ``indptr`` and ``indices``: parts that do not fit together make it read
and write outside of its arrays. Its own check looks at them only if the last entry of ``indptr`` is
above 0.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from feddep.errors import InputError

Array = npt.NDArray[Any]

_MOST = 2**31 - 1  # rows or columns; SciPy and our kernels number them by int32


def csr_problem(indptr: Array, indices: Array, data: Array, columns: int | None) -> str:
    """What is wrong with the three parts of a CSR table; nothing if they fit together.

    Args:
        indptr: ``(rows + 1,)`` where each row's entries start; the last is the number of entries.
        indices: ``(entries,)`` the column of each entry.
        data: ``(entries,)`` their values.
        columns: how many there are; None accepts any.
    """
    if not all(part.ndim == 1 for part in (indptr, indices, data)) or not len(indptr):
        return "indptr, indices and data must be lists, and indptr must not be empty"
    if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        return "indptr and indices must be whole numbers"
    if data.dtype.kind not in "biuf":
        return f"data must be numbers (got {data.dtype})"
    ends = indptr.astype(np.int64, copy=False)
    if ends[0] != 0 or (ends[1:] < ends[:-1]).any():
        return "indptr must begin with 0 and never fall"
    if not ends[-1] == len(indices) == len(data):
        return (
            f"indptr ends with {ends[-1]}, but there are {len(indices)} indices and "
            f"{len(data)} values"
        )
    if len(indices) and (indices.min() < 0 or (columns is not None and indices.max() >= columns)):
        return f"indices must be columns from 0 to {'on' if columns is None else columns - 1}"
    return ""


def checked_csr(data: Array, indices: Array, indptr: Array, shape: npt.ArrayLike) -> sp.csr_array:
    """A CSR table of these parts.

    Raises:
        InputError: the parts do not make one; it says why.
    """
    rows, columns = _checked_shape(shape)
    problem = csr_problem(indptr, indices, data, columns)
    if not problem and len(indptr) != rows + 1:
        problem = f"indptr has {len(indptr)} entries for {rows} rows"
    if problem:
        raise InputError(f"not a sparse table: {problem}")
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def check_sparse(table: Any) -> None:
    """Refuses a SciPy table, of any format, whose parts do not fit together."""
    if table.ndim != 2:
        raise InputError(f"expected a table of rows and columns (got shape {table.shape})")
    rows, columns = table.shape
    problem = ""
    if table.format in ("csr", "csc"):
        lists, width = (rows, columns) if table.format == "csr" else (columns, rows)
        problem = csr_problem(table.indptr, table.indices, table.data, width)
        if not problem and len(table.indptr) != lists + 1:
            problem = f"indptr has {len(table.indptr)} entries for {lists} lists"
    elif table.format == "bsr":
        problem = _bsr_problem(table)
    elif table.format == "coo":
        pairs = zip((table.row, table.col), table.shape, strict=True)
        if any(at.min(initial=0) < 0 or at.max(initial=-1) >= size for at, size in pairs):
            problem = f"an entry lies outside of its {rows} rows and {columns} columns"
    if problem:
        raise InputError(f"not a sparse table: {problem}")


def _bsr_problem(table: Any) -> str:
    height, width = table.blocksize
    rows, columns = table.shape
    blocks = np.empty(len(table.data), np.bool_)
    return csr_problem(table.indptr, table.indices, blocks, columns // width) or (
        "" if len(table.indptr) == rows // height + 1 else "indptr does not fit its rows"
    )


def _checked_shape(shape: npt.ArrayLike) -> tuple[int, int]:
    sizes = np.asarray(shape)
    if sizes.shape != (2,) or sizes.dtype.kind not in "iu":
        raise InputError(f"expected a shape of two whole numbers (got {sizes.tolist()!r:.60})")
    rows, columns = (int(size) for size in sizes)
    if not (0 <= rows <= _MOST and 0 <= columns <= _MOST):
        raise InputError(f"a table has at most {_MOST} rows and columns (got {rows} × {columns})")
    return rows, columns
