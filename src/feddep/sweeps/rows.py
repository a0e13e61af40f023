"""Rows of sweeps on disk: a file of JSON lines for each sweep, all in one folder."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from feddep.errors import DataError, InputError
from feddep.reading import json_of, plain_bytes

_MOST_BYTES = 1 << 32

Row = dict[str, Any]
"""``settings``, ``record`` and perhaps ``history`` of one run."""


def read_rows(file: Path) -> Iterator[Row]:
    """The rows of a file; none if there is no such file.

    Raises:
        DataError: a line is not a complete row, as after a full disk; it names the line.
    """
    try:
        lines = plain_bytes(file, _MOST_BYTES).splitlines() if file.exists() else []
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror})") from None
    for number, line in enumerate(lines, start=1):
        try:
            row = json_of(line)
            _check(row)
        except ValueError as error:
            raise DataError(
                f"line {number} of {file} is not a complete row ({error}); delete that line to "
                "repeat the run"
            ) from None
        yield row


def _check(row: Any) -> None:
    """Refuses what no run could have written."""
    parts = [row.get(name) for name in ("settings", "record")] if isinstance(row, dict) else []
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise ValueError("expected settings and record")
    scores = row["record"].get("scores", {})
    if not isinstance(scores, dict) or not all(isinstance(own, dict) for own in scores.values()):
        raise ValueError(f"the scores are {scores!r:.80}")
    for metric, own in scores.items():
        for name, score in own.items():
            if not isinstance(score, float | int | None):
                raise ValueError(f"the score {metric}.{name} is {score!r}")


def append_row(file: Path, row: Row) -> None:
    """Appends a row in one write."""
    with file.open("ab", buffering=0) as out:
        out.write((json.dumps(row) + "\n").encode())


@contextmanager
def in_use(folder: Path, *, alone: bool) -> Iterator[None]:
    """Holds the folder while a sweep runs; several sweeps may, unless one must be alone.

    Raises:
        InputError: another sweep holds the folder, and one of the two must be alone.
    """
    lock = os.open(folder, os.O_RDONLY)  # the folder itself, so nothing is left behind
    try:
        _take(lock, folder, alone=alone)
        yield
    finally:
        os.close(lock)


def _take(lock: int, folder: Path, *, alone: bool) -> None:
    try:
        fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"{_WHY[alone]} in {folder}; wait until it is done and try again"
        ) from None


_WHY: Mapping[bool, str] = {
    True: "this sweep measures seconds and needs the machine to itself, but another is running",
    False: "a sweep that measures seconds, and so needs the machine to itself, is running",
}
