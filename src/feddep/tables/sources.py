"""Tables as streams of column batches, from CSV, Parquet or memory; whatever is wrong has a line.

A cell of a CSV file arrives as text; what it means is decided in :mod:`feddep.tables.cells`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from feddep.errors import InputError
from feddep.reading import plain_file
from feddep.tables.delimited import CsvTable
from feddep.tables.headers import checked_header

Frame = Any
"""A pandas or pyarrow data frame, or a mapping of columns."""

ROWS_AT_ONCE = 1 << 18

_FOREIGN = {
    b"PK\x03\x04": "an Excel or zip file; save the sheet as CSV (UTF-8)",
    b"\xd0\xcf\x11\xe0": "an old Excel file; save the sheet as CSV (UTF-8)",
    b"SQLi": "an SQLite database; export the table as CSV",
    b"%PDF": "a PDF; export the table as CSV",
    b"{": "JSON; save it as CSV or Parquet",
    b"[": "JSON; save it as CSV or Parquet",
}


class Table(Protocol):
    """A table that can be read several times, a batch of rows at a time."""

    @property
    def name(self) -> str:
        """How messages call it."""
        ...

    @property
    def header(self) -> tuple[str, ...]:
        """The names of its columns; one without a name is empty."""
        ...

    @property
    def decimal_comma(self) -> bool:
        """Whether a number may be written as 1,5."""
        ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Batches of some columns, in this order."""
        ...

    def place(self, row: int) -> str:
        """Where a row, from 0, stands: the file and the line."""
        ...


def open_table(path: Path) -> Table:
    """A table in a file, by its content and not by its name.

    Raises:
        InputError: it cannot be read, or is of another kind.
    """
    try:
        with plain_file(path) as file:
            begin = file.read(16)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from None
    if begin.startswith(b"PAR1"):
        return ParquetTable(path)
    for magic, told in _FOREIGN.items():
        if begin.lstrip().startswith(magic):
            raise InputError(f"{path} is {told}")
    return CsvTable(path)


def frame_table(frame: Frame, name: str) -> Table:
    """A table in memory.

    Raises:
        InputError: it is no table, or has columns that pyarrow does not know.
    """
    try:
        if isinstance(frame, pa.Table):
            table = frame
        elif isinstance(frame, Mapping):
            table = pa.table(dict(frame))
        else:
            table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, AttributeError, TypeError, ValueError) as error:
        raise InputError(
            f"{name}: expected a data frame or a mapping of columns of equal length "
            f"(got {type(frame).__name__}: {str(error)[:120]})"
        ) from None
    return MemoryTable(table, name)


class MemoryTable:
    """A data frame."""

    decimal_comma = False

    def __init__(self, table: pa.Table, name: str) -> None:
        self._table, self.name = table, name
        self.header = checked_header(table.column_names, name)
        _check_types(table.schema, name)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See :class:`Table`."""
        yield from self._table.select(list(columns)).to_batches(max_chunksize=ROWS_AT_ONCE)

    def place(self, row: int) -> str:
        """See :class:`Table`."""
        return f"{self.name}, row {row}"


class ParquetTable:
    """A Parquet file, read a batch at a time."""

    decimal_comma = False

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        with self._opened() as file:
            self.header = checked_header(file.schema_arrow.names, self.name)
            _check_types(file.schema_arrow, self.name)

    def _opened(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self._path)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> InputError:
        return InputError(
            f"{self._path} is damaged or not a whole Parquet file "
            f"({str(error).splitlines()[0][:120]}); write or copy it again"
        )

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See :class:`Table`."""
        wanted = list(columns)
        with self._opened() as file:
            try:
                for batch in file.iter_batches(ROWS_AT_ONCE, columns=wanted, use_threads=False):
                    batch.validate(full=True)  # text that is not in UTF-8, among others
                    yield batch.select(wanted)
            except (pa.ArrowException, OSError) as error:
                raise self._damaged(error) from None
        pa.default_memory_pool().release_unused()  # a large table's pages, which it would keep

    def place(self, row: int) -> str:
        """See :class:`Table`."""
        return f"{self.name}, row {row + 1}"


def _check_types(schema: pa.Schema, where: str) -> None:
    for field in schema:
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            raise InputError(
                f"{where}: column {field.name!r} holds {field.type}, and a cell must be one number "
                "or text; leave the column out or write it as several"
            )
