"""The doctor's check of a silo's files: what they are, where they lead, and who can change them."""

import itertools
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from feddep.deployment.operations.checks import Check
from feddep.deployment.operations.config import SiloConfig

_MOST_ENTRIES = 100_000
_SHOWN = 5


def safe_files(config: SiloConfig) -> Check:
    """Checks that all a silo reads and keeps is plain files of its own, which nobody else writes.

    Whoever can put a pipe, a device or a link in the place of the log, the secret or the data
    decides what the silo keeps of what leaves it.
    """
    name = "safe files"
    if os.name != "posix":
        return Check(name, None, "this system has no file modes to check")
    single = [config.consent, config.key, config.ca, config.link_key, config.link_keys]
    roots = [path for path in (config.data, config.state, *single) if path and _is_there(path)]
    entries = list(itertools.islice(_entries(roots), _MOST_ENTRIES))
    wrong = [*_strange(entries), *_foreign(entries), *_replaceable(roots)]
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        remedy = (
            "put plain files of the user that runs feddep there, and let nobody else write to "
            "them or to the folders above (chmod go-w)"
        )
        return Check(name, False, "; ".join(wrong[:_SHOWN]) + more, remedy)
    return Check(name, True, f"{len(entries)} files and folders, which only their owner can change")


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _entries(roots: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """Every file and folder at and below some paths, each with the path that it belongs to."""
    for root in roots:
        yield root, root
        for folder, folders, files in os.walk(root):  # links are listed and not followed
            for name in (*folders, *files):
                yield root, Path(folder) / name


def _strange(entries: Sequence[tuple[Path, Path]]) -> Iterator[str]:
    """What is neither a file nor a folder, and links that lead elsewhere."""
    for root, path in entries:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            to = path.resolve()
            if root == path or not to.is_relative_to(root.resolve()):
                yield f"{path} is a link to {to}"
        elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            yield f"{path} is a {_KINDS.get(stat.S_IFMT(mode), 'file of another kind')}"


_KINDS = {
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def _foreign(entries: Sequence[tuple[Path, Path]]) -> Iterator[str]:
    """What belongs to somebody else, or lets others write."""
    own = {0, os.getuid()}
    for _, path in entries:
        about = path.lstat()
        if about.st_uid not in own:
            yield f"{path} belongs to user {about.st_uid}"
        elif not stat.S_ISLNK(about.st_mode) and about.st_mode & 0o022:
            yield f"{path} can be changed by others (mode {about.st_mode & 0o777:o})"


def _replaceable(roots: Sequence[Path]) -> Iterator[str]:
    """Folders above in which others can put something else in a path's place."""
    own = {0, os.getuid()}
    for folder in sorted({parent for path in roots for parent in path.absolute().parents}):
        about = folder.stat()
        open_to_others = about.st_mode & 0o022 and not about.st_mode & stat.S_ISVTX
        if open_to_others or about.st_uid not in own:
            yield f"whoever can write to {folder} can replace what is in it"
