"""A result stays in memory until it is on the disk: a full one costs no hours of training."""

import errno
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from feddep.errors import InputError
from feddep.runs.folder import RunFolder

_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}

log = logging.getLogger(__name__)

Write = Callable[[RunFolder], None]
"""Writes the whole result into a folder."""


def store(folder: RunFolder, write: Write, ask: Callable[[str], bool] | None = None) -> None:
    """Writes a result; if the disk cannot take it, asks for room, or puts it elsewhere.

    Args:
        folder: where it belongs.
        write: may be called several times.
        ask: tells somebody what is wrong and returns whether to try again; None asks at the
            terminal, if there is one.

    Raises:
        InputError: it is not in the folder; the message says where it is.
    """
    while True:
        try:
            write(folder)
            return
        except OSError as error:
            if error.errno not in _OF_THE_DISK:
                raise
            trouble = _told(error, folder.path)
        if not (ask or at_the_terminal)(trouble):
            raise InputError(f"{trouble}; {_put_elsewhere(folder.path, write)}")


def _told(error: OSError, path: Path) -> str:
    try:
        free = f" ({shutil.disk_usage(path).free / 1e6:,.0f} MB are free there)"
    except OSError:
        free = ""
    where = error.filename or path
    return f"the result cannot be written: {where}: {error.strerror or error}{free}"


def at_the_terminal(trouble: str) -> bool:
    """Asks whoever sits there; False if nobody does, or gives up."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    log.warning("%s. It is still in memory: make room, then press Enter to try again", trouble)
    try:
        input()
    except (EOFError, KeyboardInterrupt):
        return False
    return True


def _put_elsewhere(path: Path, write: Write) -> str:
    """Writes the result to the system's folder for temporary files, and says what to do."""
    again = "make room and run the same command with --resume, from the last checkpoint on"
    spec = path / "spec.toml"
    other: Path | None = None
    try:
        other = Path(tempfile.mkdtemp(prefix="feddep-result-"))
        if spec.exists():
            shutil.copyfile(spec, other / spec.name)
        write(RunFolder(other))
    except OSError:
        if other is not None:
            shutil.rmtree(other, ignore_errors=True)
        return again
    return f"it is in {other} instead: move it from there, or {again}"
