"""One process at a time in a folder, and what earlier ones left behind when they were killed."""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Collection
from pathlib import Path

from feddep.errors import InputError

_SETTLED_SECONDS = 60.0


class FolderLock:
    """Keeps other processes out of a folder until it is released, or this process ends.

    The folder itself is locked, so nothing is left behind. A file system that knows no locks keeps
    nobody out.

    Raises:
        InputError: another process has the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise InputError(
                f"another process is working in {folder}; wait until it is done, or choose "
                "another --out"
            ) from None
        except OSError:
            self.release()

    def release(self) -> None:
        """Lets others in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        """A lock that nobody holds any more is released."""
        if getattr(self, "_descriptor", None) is not None:
            self.release()


def is_draft(file: Path, names: Collection[str]) -> bool:
    """Whether this is one of these files, half-written by some process."""
    found = re.fullmatch(r"\.(.+)\.\d+", file.name)
    return found is not None and found[1] in names


def delete_drafts(folder: Path, names: Collection[str]) -> None:
    """Deletes half-written files of processes that were killed; only for who holds the lock."""
    for draft in folder.glob(".*"):
        if is_draft(draft, names):
            draft.unlink(missing_ok=True)


def delete_abandoned(parent: Path, pattern: str) -> None:
    """Deletes folders that match and whose process is gone, which held them locked.

    Args:
        parent: where they are.
        pattern: of their names.
    """
    for folder in parent.glob(pattern):
        try:
            new = time.time() - folder.stat().st_mtime < _SETTLED_SECONDS  # perhaps not locked yet
            if new or folder.stat().st_uid != os.getuid():
                continue
            lock = FolderLock(folder)
        except (OSError, InputError):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
