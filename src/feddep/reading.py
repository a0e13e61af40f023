"""Reading files that somebody else may have written, within limits that hold before anything else.

Everything is refused by an :class:`OSError` or a :class:`ValueError`, as the system and the parsers
do, so a reader that names the file for these names it for all.
"""

import errno
import json
import os
import stat
import tomllib
import zipfile
from io import BufferedReader
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 28
"""Of a file that is read in one piece: specs, manifests, records, histories."""

_PART = 1 << 16

MOST_CHARACTERS = 500
"""Of one cell of our own tables, such as a node's id: an array holds all cells at the width of the
longest."""

MOST_UNPACKED, MOST_TIMES = 1 << 28, 30
"""An archive may unpack to so many bytes, or to so many times its own size."""


def plain_file(path: Path, *, pipes: bool = False) -> BufferedReader:
    """A file, opened for reading.

    Args:
        path: the file. A device is refused: it may never end. So is a pipe, on which a reader
            waits for ever.
        pipes: take a pipe, too: the user named it, as in ``feddep run --spec <(command)``.

    Raises:
        OSError: it cannot be read or is no plain file.
    """
    try:
        # Without waiting: a pipe that nobody writes to would hold us up before it is looked at.
        descriptor = os.open(path, os.O_RDONLY | (0 if pipes else os.O_NONBLOCK))
    except ValueError:  # a zero byte
        raise OSError(errno.EINVAL, "no file can have such a name", str(path)) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode)):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a plain file", str(path))


def plain_bytes(path: Path, most: int = MOST_BYTES, *, pipes: bool = False) -> bytes:
    """The content of a file, as :func:`plain_file` opens it.

    Args:
        path: the file.
        most: bytes that it may have.
        pipes: take a pipe, too.

    Raises:
        OSError: it cannot be read, is no plain file or too large.
    """
    with plain_file(path, pipes=pipes) as file:
        about = os.fstat(file.fileno())
        size, parts = about.st_size, []
        # A pipe tells no size, and a file may grow.
        while size <= most and (part := file.read(max(_PART, about.st_size))):
            parts.append(part)
            size = sum(map(len, parts))
    if size > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def plain_text(path: Path, most: int = MOST_BYTES, *, pipes: bool = False) -> str:
    """The same as text in UTF-8; anything else is a :class:`ValueError`."""
    return plain_bytes(path, most, pipes=pipes).decode("utf-8").replace("\r\n", "\n")


def is_plain(path: Path) -> bool:
    """Whether this is a file, and neither a pipe, a socket nor a device; links are followed."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def json_of(text: str | bytes) -> Any:
    """The content of a JSON text; nested too deeply for Python is a :class:`ValueError`, too."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def toml_of(text: str) -> dict[str, Any]:
    """The content of a TOML text, likewise."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def check_unpacked(path: Path) -> None:
    """Refuses an archive that holds far more than its size tells.

    No member yields more than its entry says, so what the entries say can be relied on.

    Raises:
        ValueError: it unpacks to too much.
        zipfile.BadZipFile: it is no archive.
    """
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    most = max(MOST_UNPACKED, MOST_TIMES * path.stat().st_size)
    if unpacked > most:
        raise ValueError(f"it unpacks to {unpacked:,} bytes, and {most:,} are allowed")
