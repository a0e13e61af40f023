"""Delimited text files (CSV): delimiter, encoding, compression, and errors that name the line."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import pyarrow as pa
import pyarrow.csv as pc

from feddep.errors import InputError
from feddep.reading import plain_file
from feddep.tables.headers import checked_header

_BLOCK = 1 << 23
_LONGEST_LINE = 1 << 20
_DELIMITERS = ",;\t|"
_WIDE = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_BOM = b"\xef\xbb\xbf"


class CsvTable:
    """A CSV file: comma, semicolon, tab or bar; plain or gzip; UTF-8."""

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        with self._opened() as file:
            line = _header_line(file, self.name)
        self._delimiter = max(_DELIMITERS, key=line.count)
        if line.count(self._delimiter) == 0:
            self._delimiter = ","
        self.decimal_comma = self._delimiter != ","
        try:
            cells = next(csv.reader([line], delimiter=self._delimiter, strict=True))
        except (csv.Error, StopIteration) as error:
            raise InputError(
                f"{self.name}, line 1: expected the names of the columns on one line ({error})"
            ) from None
        self.header = checked_header(cells, self.name)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See :class:`~feddep.tables.sources.Table`."""
        inner = [f"c{number}" for number in range(len(self.header))]
        wanted = [inner[self.header.index(column)] for column in columns]
        wrong: list[pc.InvalidRow] = []

        def refuse(row: pc.InvalidRow) -> str:
            wrong.append(row)
            return "error"

        with self._opened() as file:
            _header_line(file, self.name)
            try:
                reader = pc.open_csv(
                    pa.PythonFile(_Checked(file, self.name), mode="r"),
                    pc.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=inner),
                    pc.ParseOptions(
                        delimiter=self._delimiter,
                        newlines_in_values=True,
                        invalid_row_handler=refuse,
                    ),
                    pc.ConvertOptions(
                        include_columns=wanted,
                        column_types=dict.fromkeys(inner, pa.string()),
                        strings_can_be_null=False,
                    ),
                )
                for batch in reader:
                    yield batch.rename_columns(list(columns))
            except (pa.ArrowException, EOFError, OSError, zlib.error) as error:
                if isinstance(error, pa.ArrowException) and _is_empty(error):
                    return  # a header and nothing else
                raise self._explained(error, wrong) from None

    def place(self, row: int) -> str:
        """See :class:`~feddep.tables.sources.Table`; counts again, for messages only."""
        with self._opened() as file:
            reader = csv.reader(_text(file), delimiter=self._delimiter)
            try:
                kept = (reader.line_num for cells in reader if cells)
                next(kept)  # the header
                for number, line in enumerate(kept):
                    if number == row:
                        return f"{self.name}, line {line}"
            except (csv.Error, StopIteration):
                pass
        return f"{self.name}, row {row + 1}"

    def _opened(self) -> IO[bytes]:
        try:
            file = plain_file(self._path)
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
        except OSError as error:
            raise InputError(f"{self.name} cannot be read ({error.strerror})") from None
        return cast(IO[bytes], gzip.open(file)) if zipped else file

    def _explained(self, error: Exception, wrong: Sequence[pc.InvalidRow]) -> InputError:
        quote = self._open_quote()
        if wrong and quote is None:
            row = wrong[0]
            where = self.name if row.number is None else self.place(row.number - 1)
            return InputError(
                f"{where}: expected {row.expected_columns} cells, as in line 1 "
                f"(got {row.actual_columns}); a cell with {self._delimiter!r} in it needs quotes"
            )
        if "UTF8" in str(error):
            return InputError(
                f"{self._not_unicode()} is not in UTF-8; save the file as CSV in UTF-8"
            )
        if isinstance(error, EOFError | OSError | zlib.error):
            return InputError(f"{self.name} is damaged or cut off ({error}); copy it again")
        if quote is not None:
            return InputError(f"{quote}: a quote is opened and never closed; close or remove it")
        return InputError(f"{self.name} is not a CSV file ({error}); save it as CSV in UTF-8")

    def _not_unicode(self) -> str:
        with self._opened() as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode()
                except UnicodeDecodeError:
                    return f"{self.name}, line {number}"
        return self.name

    def _open_quote(self) -> str | None:
        """Where a quote is opened that is never closed."""
        with self._opened() as file:
            reader = csv.reader(_text(file), delimiter=self._delimiter, strict=True)
            begins = 1
            try:
                for _ in reader:
                    begins = reader.line_num + 1
            except (csv.Error, EOFError, OSError, zlib.error):
                return f"{self.name}, line {begins}"
        return None


class _Checked(io.RawIOBase):
    """A stream that refuses zero bytes, which no text has."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name, self._lines = file, name, 2

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        at = block.find(b"\0")
        if at >= 0:
            line = self._lines + block.count(b"\n", 0, at)
            raise InputError(
                f"{self._name}, line {line} holds a zero byte, which no text has; it may be in "
                "UTF-16 or damaged: save it as CSV in UTF-8"
            )
        self._lines += block.count(b"\n")
        return block

    def readable(self) -> bool:
        return True


def _header_line(file: IO[bytes], name: str) -> str:
    """The first line that is not blank, without the byte order mark; the stream stands behind."""
    try:
        begin = file.readline(_LONGEST_LINE)
        while begin and not begin.strip().removeprefix(_BOM):
            begin = file.readline(_LONGEST_LINE)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{name} is damaged or cut off ({error}); copy it again") from None
    for mark, encoding in _WIDE.items():
        if begin.startswith(mark):
            raise InputError(f"{name} is in {encoding}; save it as CSV in UTF-8")
    if not begin:
        raise InputError(f"{name} is empty; expected a first line with the names of the columns")
    if len(begin) >= _LONGEST_LINE or b"\0" in begin:
        raise InputError(f"{name} is not a CSV file; save the table as CSV in UTF-8 or as Parquet")
    try:
        return begin.removeprefix(_BOM).decode().strip("\r\n")
    except UnicodeDecodeError:
        raise InputError(f"{name}, line 1 is not in UTF-8; save the file as CSV in UTF-8") from None


def _text(file: IO[bytes]) -> io.TextIOWrapper:
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")


def _is_empty(error: pa.ArrowException) -> bool:
    return "Empty CSV file" in str(error)
