"""Tables that others read: CSV or Parquet, by the ending of a file's name, with a word about them.

What is said about a CSV stands in lines that begin with ``#``, before the names of the columns; in
Parquet it is the metadata ``feddep`` of the schema.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from feddep.errors import InputError
from feddep.graph.graph import Array
from feddep.runs.files import drafted

ENDINGS = (".csv", ".parquet")


def check_ending(file: Path) -> None:
    """Refuses a file that is neither CSV nor Parquet."""
    if file.suffix not in ENDINGS:
        raise InputError(f"expected a file that ends in {' or '.join(ENDINGS)} (got {file})")


def write_table(columns: Mapping[str, Array], file: Path, about: str = "") -> None:
    """Writes columns of the same length; a whole file or none.

    Args:
        columns: by name, in order.
        file: its name's ending says which kind.
        about: lines to stand before the table.

    Raises:
        InputError: the name ends in something else.
    """
    check_ending(file)
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    file.parent.mkdir(parents=True, exist_ok=True)
    with drafted(file) as opened:
        if file.suffix == ".parquet":
            known = {"feddep": about} if about else None
            pyarrow.parquet.write_table(table.replace_schema_metadata(known), opened)
        else:
            opened.write("".join(f"# {line}\n" for line in about.splitlines()).encode())
            _write_csv(table, opened)


def _write_csv(table: pa.Table, file: BinaryIO) -> None:
    file.write((",".join(map(_quoted, table.column_names)) + "\n").encode())
    # pyarrow quotes either every text or none, and refuses none where a text needs it.
    plain = all(_is_plain(column) for column in table.columns)
    options = pyarrow.csv.WriteOptions(
        include_header=False, quoting_style="none" if plain else "needed"
    )
    pyarrow.csv.write_csv(table, file, options)


def _is_plain(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_string(column.type):
        return True
    return not pc.any(pc.match_substring_regex(column, '[,"\r\n]')).as_py()


def _quoted(name: str) -> str:
    needs = any(sign in name for sign in ',"\r\n')
    return '"' + name.replace('"', '""') + '"' if needs else name
