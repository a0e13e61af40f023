"""The names of nodes: whole numbers or text, and the number of the node that one belongs to."""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from feddep.tables.cells import is_text

Ints = npt.NDArray[np.int32]


def names(cells: pa.Array) -> pa.Array:
    """Ids as int64 where the column says so, otherwise as trimmed text, null where empty."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_integer(cells.type) and cells.type != pa.uint64():
        return cells.cast(pa.int64())
    if pa.types.is_floating(cells.type):  # whole numbers beside missing ones, as pandas has them
        cells = pc.if_else(pc.is_nan(cells), pa.scalar(None, cells.type), cells)
        whole = cells.cast(pa.int64(), safe=False)
        if pc.all(pc.equal(whole.cast(cells.type), cells)).as_py():
            return whole
    trimmed = pc.utf8_trim_whitespace(cells.cast(pa.string()))
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def whole_numbers(written: pa.Array) -> pa.Array | None:
    """Texts as int64 if all are whole numbers as a program writes them: 007 is a name, not 7."""
    if not is_text(written.type):
        return written
    try:
        numbers = written.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers if pc.all(pc.equal(numbers.cast(pa.string()), written)).as_py() else None


class NodeIds:
    """The ids of a silo's nodes.

    Args:
        ids: one for each node, int64 or text, without repeats.
    """

    def __init__(self, ids: pa.Array) -> None:
        numbers = whole_numbers(ids)
        self._numbers = None if numbers is None else numbers.to_numpy(zero_copy_only=False)
        self._texts = ids.cast(pa.string()) if numbers is None else None
        self.count = len(ids)

    @property
    def array(self) -> npt.NDArray[Any]:
        """``(n,)`` int64 or str."""
        if self._numbers is not None:
            return np.array(self._numbers)
        return np.array(self._written.to_pylist(), np.str_)

    @cached_property
    def _written(self) -> pa.Array:
        return pa.array(self._numbers).cast(pa.string()) if self._texts is None else self._texts

    @cached_property
    def _order(self) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = np.argsort(self._numbers)  # type: ignore[arg-type]
        return found

    @cached_property
    def _sorted(self) -> npt.NDArray[np.int64]:
        assert self._numbers is not None
        found: npt.NDArray[np.int64] = self._numbers[self._order]
        return found

    def find(self, named: pa.Array) -> Ints:
        """The number of the node of each name, -1 where there is none."""
        numbers = whole_numbers(named) if self._numbers is not None else None
        if numbers is None:
            found = pc.index_in(named.cast(pa.string()), value_set=self._written)
            texts: Ints = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
            return texts
        asked = numbers.to_numpy(zero_copy_only=False)
        place = np.minimum(np.searchsorted(self._sorted, asked), self.count - 1)
        hit = self._sorted[place] == asked
        return np.where(hit, self._order[place], -1).astype(np.int32)
