"""Records on disk. Light to import, because programs that only start others use it too."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from feddep.errors import DataError
from feddep.reading import is_plain, json_of, plain_text

SILO_RECORD = "silo.json"
"""What a silo has in place of a record, in the folder of its results of a run."""

_SEAL = b"feddep-sealed-2\n"

SUMS = "SHA256SUMS"
"""Of the files of a finished run."""

Record = dict[str, Any]
"""The content of ``record.json``; docs/records.md describes every key."""


def read_record(path: Path) -> Record:
    """Reads a ``record.json``, or the one in a run folder."""
    file = path / "record.json" if path.is_dir() else path
    try:
        record = json_of(plain_text(file))
    except FileNotFoundError:
        raise DataError(f"cannot read the record {file}: {_what_is_there(path)}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the record {file}: {error}") from None
    if not isinstance(record, dict) or "scores" not in record:
        raise DataError(f"{file} is not a run record (it has no scores)")
    return record


def read_own(file: Path, *keys: str) -> dict[str, Any]:
    """A small JSON object of our own, with these keys.

    Raises:
        DataError: it is damaged.
    """
    try:
        found = dict(json_of(plain_text(file)))
        lost = set(keys) - found.keys()
    except (OSError, TypeError, ValueError) as error:
        raise DataError(f"cannot read {file}: {error}") from None
    if lost:
        raise DataError(f"{file} is damaged: it does not say {', '.join(sorted(lost))}")
    return found


def _what_is_there(path: Path) -> str:
    """What was found in place of a finished run, and what to do about it."""
    if (path / SILO_RECORD).exists():
        return "it holds what a silo has of a run; the record is with the server"
    if (path / "spec.toml").exists():
        return "the run is not finished; continue it with feddep run --resume"
    runs = sorted(str(file.parent) for file in path.glob("*/record.json"))
    return f"it holds several runs; name one, such as {runs[0]}" if runs else "no such file"


def write_atomically(path: Path, content: bytes | str) -> None:
    """Writes a whole file or nothing: a reader never sees half of it, and a crash leaves no half.

    When it returns, the file is on the disk and not just in a cache.
    """
    with drafted(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def drafted(path: Path, aside: Path | None = None) -> Iterator[BinaryIO]:
    """A file to fill; it takes its place at ``path`` if nothing goes wrong.

    Args:
        path: where it belongs.
        aside: where the file that is there now is put; None replaces it.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if aside is not None and path.exists():
            path.replace(aside)
        draft.replace(path)
        folder_to_disk(path.parent)  # otherwise the new name could be lost
    except OSError as error:
        raise _named(error, path) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def folder_to_disk(folder: Path) -> None:
    """Flushes a folder's list of names to the disk: only then does a new file survive a crash."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _named(error: OSError, path: Path) -> OSError:
    """The error with the file that it is about, which the system does not say of a write."""
    return OSError(error.errno, error.strerror or str(error), str(path))


def sealed(data: bytes) -> bytes:
    """Content with its own SHA-256 before it."""
    return _SEAL + hashlib.sha256(data).digest() + data


def unsealed(data: bytes) -> bytes:
    """The inverse of :func:`sealed`; content of earlier versions, without a seal, stays as it is.

    Raises:
        DataError: the content is not what was sealed.
    """
    if not data.startswith(_SEAL):
        return data
    start = len(_SEAL) + 32
    if hashlib.sha256(data[start:]).digest() != data[len(_SEAL) : start]:
        raise DataError("its content does not have the SHA-256 that it was written with")
    return data[start:]


def write_sums(folder: Path, files: Sequence[Path]) -> None:
    """Writes the SHA-256 of files in a folder, as ``sha256sum --check`` reads them."""
    rows = [f"{_sha256(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    write_atomically(folder / SUMS, "".join(rows))


def check_sums(folder: Path) -> None:
    """Refuses a folder in which a file is not the one that was written.

    A folder without sums, of an earlier version, is not checked; a missing file is for its reader.

    Raises:
        DataError: it names the file.
    """
    sums = folder / SUMS
    if not sums.exists():
        return
    try:
        rows = [row.split("  ", 1) for row in plain_text(sums).splitlines()]
        for expected, name in rows:
            file = folder / name
            if is_plain(file) and (found := _sha256(file)) != expected:
                raise DataError(
                    f"{file} is not the file that the run wrote: expected SHA-256 {expected} (got "
                    f"{found}); restore it, or delete {SUMS} to open the run as it is"
                )
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {sums}: {error}") from None


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
