"""What cells mean: numbers, booleans, categories, and nothing at all."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from feddep.errors import InputError
from feddep.graph.tables import MISSING

Floats = npt.NDArray[np.float32]

TRUE, FALSE = ("true", "yes", "t", "y"), ("false", "no", "f", "n")
_MISSING = pa.array(sorted(MISSING))
_WORDS = pa.array([*TRUE, *FALSE])
_TRUE = pa.array(list(TRUE))

Place = Callable[[int], str]
"""Where a row of a batch stands, for messages."""


def is_text(kind: pa.DataType) -> bool:
    """Whether a column's cells are text, whatever they say."""
    kinds = pa.types
    if kinds.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def texts(cells: pa.Array) -> pa.Array:
    """Cells as trimmed text, null where they say that there is nothing."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if not is_text(cells.type):
        cells = _plain(cells)
    trimmed = pc.utf8_trim_whitespace(cells.cast(pa.string()))
    nothing = pc.is_in(pc.utf8_lower(trimmed), value_set=_MISSING)
    return pc.if_else(nothing, pa.scalar(None, pa.string()), trimmed)


def _plain(cells: pa.Array) -> pa.Array:
    """Numbers as people write them: a whole one without a point."""
    if pa.types.is_floating(cells.type):
        cells = pc.if_else(pc.is_nan(cells), pa.scalar(None, cells.type), cells)
        whole = cells.cast(pa.int64(), safe=False)
        if pc.all(pc.equal(whole.cast(cells.type), cells)).as_py():
            return whole.cast(pa.string())
    return cells.cast(pa.string())


def as_numbers(written: pa.Array) -> pa.Array | None:
    """Texts as float64; None if one is no number."""
    try:
        return written.cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def with_point(written: pa.Array) -> pa.Array:
    """1,5 as 1.5, where that is a number."""
    lone = pc.match_substring_regex(written, r"^[+-]?\d+,\d+$")
    return pc.if_else(lone, pc.replace_substring(written, ",", "."), written)


def numbers(cells: pa.Array, column: str, place: Place, *, comma: bool = False) -> Floats:
    """Cells as float32, NaN where missing.

    Raises:
        InputError: one is no finite number; it says where.
    """
    if is_text(cells.type):
        written = texts(cells)
        written = with_point(written) if comma else written
        found = as_numbers(written)
        if found is None:
            row = next(i for i, cell in enumerate(written) if not _is_number(cell.as_py()))
            raise InputError(
                f"{place(row)}: expected a number as {column!r} (got {written[row].as_py()!r})"
            )
    else:
        found = _numeric(cells)
    values = found.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        narrow: Floats = values.astype(np.float32)
    bad = np.isinf(narrow)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"{place(row)}: expected a number as {column!r} that is finite and below 3e38 "
            f"(got {values[row]})"
        )
    return narrow


def _numeric(cells: pa.Array) -> pa.Array:
    if pa.types.is_temporal(cells.type):
        cells = cells.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    return cells.cast(pa.float64(), safe=False)


def booleans(cells: pa.Array, column: str, place: Place) -> Floats:
    """Yes and no as 1 and 0, NaN where missing."""
    if not is_text(cells.type):
        return numbers(cells, column, place)
    lower = pc.utf8_lower(texts(cells))
    strange = pc.and_(pc.is_valid(lower), pc.invert(pc.is_in(lower, value_set=_WORDS)))
    if pc.any(strange).as_py():
        row = strange.index(True).as_py()
        raise InputError(
            f"{place(row)}: expected yes or no as {column!r} (got {lower[row].as_py()!r})"
        )
    found: Floats = (
        pc.is_in(lower, value_set=_TRUE).to_numpy(zero_copy_only=False).astype(np.float32)
    )
    found[lower.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found


def says_yes_or_no(written: pa.Array) -> bool:
    """Whether all texts are words for yes and no."""
    return bool(pc.all(pc.is_in(pc.utf8_lower(written.drop_null()), value_set=_WORDS)).as_py())


def has_codes(written: pa.Array) -> bool:
    """Whether a text is a code that would lose its zeros as a number, such as 0471."""
    return bool(pc.any(pc.match_substring_regex(written, r"^0\d+$")).as_py())


def codes(cells: pa.Array, categories: pa.Array) -> npt.NDArray[np.int32]:
    """The number of each cell's category: -1 where missing, -2 where unknown."""
    written = texts(cells)
    found: Any = pc.index_in(written, value_set=categories)
    numbers: npt.NDArray[np.int32] = (
        found.fill_null(-2).to_numpy(zero_copy_only=False).astype(np.int32)
    )
    numbers[written.is_null().to_numpy(zero_copy_only=False)] = -1
    return numbers


def _is_number(cell: str | None) -> bool:
    try:
        return cell is None or float(cell) is not None
    except ValueError:
        return False
