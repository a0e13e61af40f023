"""What graph folders and shard collections share: manifests, hashes, CSV and atomic replacement.

Hashes are checked before a file is opened. A folder is written beside its place and then renamed,
so there is never half of one.
"""

import csv
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from feddep.errors import DataError, InputError
from feddep.graph.graph import Array
from feddep.reading import (
    MOST_CHARACTERS,
    MOST_TIMES,
    MOST_UNPACKED,
    is_plain,
    json_of,
    plain_bytes,
    plain_file,
)

AnyPath = str | os.PathLike[str]

MANIFEST = "manifest.json"

_REPLACEABLE = ("feddep-graph", "feddep-shards")  # formats: only our own folders are overwritten
_ROWS_AT_ONCE = 1 << 16
_LONGEST_LINE = 4 * MOST_CHARACTERS  # in UTF-8


class Manifest(BaseModel):
    """What a folder says about itself; unknown fields and wrong types are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


_AnyManifest = TypeVar("_AnyManifest", bound=Manifest)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes the manifest of a folder; it must be the last file to be written."""
    # What a folder does not have is left out, so that folders without it are as they always were.
    text = manifest.model_dump_json(indent=2, exclude_none=True)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path, kind: type[_AnyManifest]) -> _AnyManifest:
    """The manifest of a folder; a :class:`DataError` names the first thing wrong with it."""
    path = folder / MANIFEST
    try:
        return kind.model_validate_json(plain_bytes(path))
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"]) or "content"
        raise DataError(f"{path}: {where}: {first['msg']} (got {first['input']!r:.80})") from None


def format_of(folder: Path) -> str | None:
    """The format named in a folder's manifest, or None if there is none."""
    try:
        content = json_of(plain_bytes(folder / MANIFEST))
    except (OSError, ValueError):
        return None
    return content.get("format") if isinstance(content, dict) else None


def hash_files(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The SHA-256 of every named file of a folder, as a manifest lists them."""
    return {name: _sha256(folder / name) for name in names}


def verify_files(
    folder: Path,
    hashes: dict[str, str],
    required: set[str],
    optional: frozenset[str] | set[str] = frozenset(),
) -> None:
    """Checks every file against its hash in the manifest; an optional file may be absent."""
    if not required <= hashes.keys() <= required | optional:
        odd = sorted((hashes.keys() ^ required) - optional)
        raise DataError(f"{folder / MANIFEST}: files: missing or not expected: {', '.join(odd)}")
    for name, expected in hashes.items():
        path = folder / name
        if name in optional and not path.exists():
            continue
        if not is_plain(path):
            raise DataError(f"{path} is missing, though the manifest lists it")
        with as_data_error(path):
            found = _sha256(path)
        if found != expected:
            raise DataError(
                f"{path} is not the file its manifest describes: expected SHA-256 {expected} "
                f"(got {found}); restore the file or write the folder again"
            )


def _sha256(path: Path) -> str:
    with plain_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_csv(
    path: Path, header: Sequence[str], count: int, columns: Callable[[slice], Sequence[Array]]
) -> None:
    """Writes columns under a header line.

    Args:
        path: the file.
        header: names of the columns.
        count: number of rows.
        columns: gives some rows of each column; as text, all of them would take many times the
            room of the arrays that they come from.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for start in range(0, count, _ROWS_AT_ONCE):
            slices = (part.tolist() for part in columns(slice(start, start + _ROWS_AT_ONCE)))
            writer.writerows(zip(*slices, strict=True))


_AS_WRITTEN: dict[str, Any] = {"delimiter": ",", "quotechar": '"', "comments": None, "ndmin": 2}


def read_csv(path: Path, header: Sequence[str], dtype: type[np.generic]) -> Array:
    """``(rows, columns)`` the content of a CSV file of our own."""
    return np.concatenate([*csv_slices(path, header, dtype)])


def csv_slices(path: Path, header: Sequence[str], dtype: type[np.generic]) -> Iterator[Array]:
    """The content of a CSV file of our own, ``(rows, columns)`` a part at a time."""
    first_line = (",".join(header) + "\n").encode()
    _check_widths(path)
    with path.open("rb") as file:
        found = file.readline()
    if found != first_line:
        raise DataError(expected_at(path, 1, ",".join(header), found[:80].decode(errors="replace")))
    with as_data_error(path), path.open(encoding="utf-8") as lines:
        next(lines)
        yield np.empty((0, len(header)), dtype)
        while some := list(islice(lines, _ROWS_AT_ONCE)):
            yield _cells(path, np.loadtxt(some, dtype=dtype, **_AS_WRITTEN), len(header))


def _cells(path: Path, table: Array, width: int) -> Array:
    if table.size and table.shape[1] != width:
        raise DataError(expected_at(path, 2, f"{width} cells in every line", table.shape[1]))
    return table.reshape(-1, width)


def _check_widths(path: Path) -> None:
    """Refuses a table with a long line: an array of text gives every cell the longest one's room.

    Raises:
        DataError: it names the line.
    """
    if not is_plain(path):
        raise DataError(f"{path} is not a plain file")
    with path.open("rb") as file:
        number = longest = 0
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            if len(line) > _LONGEST_LINE:
                most = f"a line of at most {_LONGEST_LINE} bytes"
                raise DataError(expected_at(path, number, most, f"{line[:40]!r}…"))
            longest = max(longest, len(line))
        size = file.tell()
    room = number * 4 * longest  # of one column, as an array of text
    if room > max(MOST_UNPACKED, MOST_TIMES * size):
        raise DataError(
            f"{path}: its longest line has {longest} bytes, which as a table of {number} lines "
            f"takes {room:,} bytes; shorten the longest ids"
        )


def expected_at(path: Path, line: int, expectation: str, got: object) -> str:
    """A message that names the file, the line, what was expected and what came."""
    return f"{path}, line {line}: expected {expectation} (got {str(got)!r})"


@contextmanager
def as_data_error(path: Path) -> Iterator[None]:
    """Turns any error caused by a broken file into one that names the file."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # a damaged archive or array fails in many ways
        raise DataError(f"{path}: {error or type(error).__name__}") from None


@contextmanager
def replacing(folder: Path, overwrite: bool) -> Iterator[Path]:
    """A draft folder to fill; it replaces ``folder`` if nothing goes wrong."""
    target = folder.resolve()
    _refuse_to_lose(target, overwrite)
    draft = _sibling(target)
    draft.mkdir(parents=True)
    try:
        yield draft
        _put_in_place(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _refuse_to_lose(target: Path, overwrite: bool) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{target} is a file; name a folder")
    if not any(target.iterdir()):
        return
    if format_of(target) not in _REPLACEABLE:
        raise InputError(
            f"{target} holds something other than a graph or shards; name a new or empty folder"
        )
    if not overwrite:
        raise InputError(f"{target} exists already; name another folder, or ask to overwrite it")


def _put_in_place(draft: Path, target: Path) -> None:
    if not target.exists():
        draft.rename(target)
        return
    previous = _sibling(target)
    target.rename(previous)
    draft.rename(target)
    shutil.rmtree(previous)


def _sibling(target: Path) -> Path:
    """A name beside ``target``: renaming is atomic only on the same file system."""
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}")
