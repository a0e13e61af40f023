"""Checkpoints: what ``--resume`` continues from, and what tells a damaged or a strange one.

A checkpoint begins with a mark and the SHA-256 of all that follows: a packed message with the spec
of its run in the header. The one before is kept beside it, so that a damaged one costs a few
rounds and not the run.
"""

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from feddep.errors import DataError, InputError
from feddep.federation.messages import Arrays, packed_parts, unpack
from feddep.reading import plain_bytes
from feddep.runs.files import drafted, folder_to_disk
from feddep.runs.old_formats import read_spec, spec_of_text
from feddep.scenario.spec import difference

NAME, BEFORE = "checkpoint.bin", "checkpoint.before.bin"

_MARK = b"feddep-check-2\r\n"
_HASH_BYTES = 32
_MOST_BYTES = 1 << 36

log = logging.getLogger(__name__)

Checkpoint = tuple[dict[str, Any], dict[str, Any]]
"""A header of plain data, and arrays."""


def has_checkpoint(folder: Path) -> bool:
    """Whether there is anything to continue from."""
    return any((folder / name).is_file() for name in (NAME, BEFORE))


def save(folder: Path, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Stores all that is needed to continue; the checkpoint that was there becomes the one before.

    Args:
        folder: a run's, with its ``spec.toml``.
        header: plain data.
        arrays: written one by one, so that they are never twice in memory.
    """
    spec = folder / "spec.toml"
    text = spec.read_text(encoding="utf-8") if spec.exists() else ""
    with drafted(folder / NAME, aside=folder / BEFORE) as file:
        file.write(_MARK + bytes(_HASH_BYTES))
        digest = hashlib.sha256()
        for part in packed_parts({**header, "spec": text}, arrays, once=True):
            digest.update(part)
            file.write(part)
        file.seek(len(_MARK))
        file.write(digest.digest())


def load(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole and of this run; None if there is none at all.

    Raises:
        DataError: there are some, and none can be used.
    """
    trouble = ""
    for file in (folder / NAME, folder / BEFORE):
        if not file.exists():
            continue
        try:
            found = _read(file, folder / "spec.toml")
        except DataError as error:
            trouble = trouble or str(error)
            continue
        if trouble:
            log.warning("%s; continuing from the one before, %s", trouble, file.name)
        return found
    if trouble:
        raise DataError(
            f"{trouble}; there is none before it to continue from: delete it and start again"
        )
    return None


def delete(folder: Path) -> None:
    """Deletes the checkpoints of a run that is complete."""
    for name in (NAME, BEFORE):
        (folder / name).unlink(missing_ok=True)
    folder_to_disk(folder)


def _read(file: Path, spec: Path) -> Checkpoint:
    try:
        data = plain_bytes(file, _MOST_BYTES)
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror})") from None
    try:
        if not data.startswith(_MARK):  # until 0.2 it was a packed message and nothing else
            found = unpack(data)
            log.warning("%s is of an earlier version: nothing tells whether it was altered", file)
            return found
        start = len(_MARK) + _HASH_BYTES
        content = memoryview(data)[start:]
        if hashlib.sha256(content).digest() != data[len(_MARK) : start]:
            raise DataError("its content does not have the SHA-256 that it was written with")
        header, arrays = unpack(content, once=True)
        text = str(header.pop("spec"))
    except (DataError, LookupError) as error:
        raise DataError(f"{file} is damaged: {error}") from None
    _check_spec(file, text, spec)
    return header, arrays


def _check_spec(file: Path, text: str, spec: Path) -> None:
    """Refuses the checkpoint of another run."""
    if not spec.exists():
        return
    here = read_spec(spec)
    try:
        there = spec_of_text(text)
    except InputError as error:
        raise DataError(f"{file} is of another version: {error}") from None
    if there != here:
        raise DataError(f"{file} belongs to another run ({difference(there, here)})")
