"""Real processes of two users on one machine, for tests that run as root.

The users are numbers without names. Where Python lies in a folder that is root's alone, the
processes get a view of the file system in which it does not.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

SILO, NODE = 64801, 64802
missing = [name for name in ("setpriv", "unshare", "mount") if shutil.which(name) is None]
WHY_NOT = (
    "two users need root"
    if os.geteuid() != 0
    else f"two users need {', '.join(missing)}"
    if missing
    else ""
)
_HOME = Path.home()
_SHOWN = """
home=$1; prefix=$2; shift 2
stage=$(mktemp -d)
mount --bind "$prefix" "$stage" && mount -t tmpfs -o mode=755 tmpfs "$home" &&
mkdir -p "$prefix" && mount --move "$stage" "$prefix" && rmdir "$stage" && exec "$@"
"""


def as_user(number: int, *command: str | Path, group: int | None = None) -> list[str]:
    """The command that runs a command as a user; with no privilege that root had."""
    groups = ["--clear-groups"] if group is None else ["--groups", str(group)]
    plain = ["setpriv", "--reuid", str(number), "--regid", str(number), *groups]
    plain += ["--inh-caps=-all", "--bounding-set=-all", *map(str, command)]
    prefix = Path(sys.base_prefix).resolve()
    if not prefix.is_relative_to(_HOME):
        return plain
    return ["unshare", "--mount", "sh", "-c", _SHOWN, "sh", str(_HOME), str(prefix), *plain]


def given(path: Path, number: int) -> None:
    """Gives a folder and all in it to a user."""
    for own in (path, *path.rglob("*")):
        os.chown(own, number, number)


def reaches(group: Sequence[Path]) -> None:
    """Lets everybody enter folders on the way, as they may in a real installation."""
    for folder in group:
        folder.chmod(folder.stat().st_mode | 0o011)
