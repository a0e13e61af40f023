"""Records on disk. Light to import, because programs that only start others use it too."""

import json
import os
from pathlib import Path
from typing import Any

from feddep.errors import DataError

SILO_RECORD = "silo.json"
"""What a silo has in place of a record, in the folder of its results of a run."""

Record = dict[str, Any]
"""The content of ``record.json``; docs/records.md describes every key."""


def read_record(path: Path) -> Record:
    """Reads a ``record.json``, or the one in a run folder."""
    file = path / "record.json" if path.is_dir() else path
    try:
        record = json.loads(file.read_text())
    except FileNotFoundError:
        raise DataError(f"cannot read the record {file}: {_what_is_there(path)}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the record {file}: {error}") from None
    if not isinstance(record, dict) or "scores" not in record:
        raise DataError(f"{file} is not a run record (it has no scores)")
    return record


def _what_is_there(path: Path) -> str:
    """What was found in place of a finished run, and what to do about it."""
    if (path / SILO_RECORD).exists():
        return "it holds what a silo has of a run; the record is with the server"
    if (path / "spec.toml").exists():
        return "the run is not finished; continue it with feddep run --resume"
    runs = sorted(str(file.parent) for file in path.glob("*/record.json"))
    return f"it holds several runs; name one, such as {runs[0]}" if runs else "no such file"


def write_atomically(path: Path, content: bytes | str) -> None:
    """Writes a whole file or nothing: a reader never sees half of it."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
