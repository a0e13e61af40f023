"""The doctor's checks of the wall between a silo's data and Flower's programs."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from feddep.deployment.operations.checks import Check
from feddep.deployment.operations.config import NodeConfig, SiloConfig
from feddep.deployment.operations.sandbox import programs, version
from feddep.deployment.operations.silo_socket import ask, user
from feddep.errors import FeddepError, InputError
from feddep.runtime.envelope import Envelope

_SPLIT = (
    "run Flower's programs as another user: set node_user and socket in silo.toml, and start "
    "`feddep node` as that user (docs/deployment.md)"
)
_READ, _ENTER, _WRITE = 4, 1, 2


def separation(config: SiloConfig) -> Check:
    """Checks that the user of Flower's programs reaches neither data nor secrets."""
    name = "separation"
    within = _within_programs(config)
    if within:
        found = f"{within} lies where installed programs lie, which the sandbox lets be read"
        return Check(name, False, found, "move it elsewhere")
    if config.node_user is None:
        return _one_user(name)
    if os.geteuid() == 0:
        found = "this is root, to whom file modes mean nothing"
        return Check(name, None, found, "run the doctor as the user that runs `feddep silo`")
    try:
        other = user(config.node_user)
    except InputError as error:
        return Check(name, False, str(error), "create the user, as the head of the unit says")
    if other.pw_uid in (0, os.getuid()):
        found = f"{config.node_user} is {'root' if other.pw_uid == 0 else 'this user itself'}"
        return Check(name, False, found, "give Flower's programs a user of their own")
    groups = os.getgrouplist(config.node_user, other.pw_gid)
    places = [config.data, config.state, config.consent]
    open_to = [str(path) for path in places if _reaches(path, other.pw_uid, groups)]
    if open_to:
        found = f"{config.node_user} can reach {', '.join(open_to)}"
        return Check(name, False, found, f"chmod go= {config.consent.parent}")
    return Check(name, True, f"{config.node_user} reaches neither data nor state nor consent")


def _one_user(name: str) -> Check:
    if os.geteuid() == 0:
        found = "Flower's programs run as root, together with the data"
        return Check(name, False, found, _SPLIT)
    if version():
        found = (
            "Flower's programs run as the same user as the data; only the sandbox keeps them off"
        )
        return Check(name, True, found, _SPLIT)
    found = (
        "Flower's programs run as the same user as the data, without a sandbox: whoever finds a "
        "hole in Flower reads data, secret, keys and disclosure log"
    )
    return Check(name, False, found, _SPLIT)


def _within_programs(config: SiloConfig) -> str:
    """What of the silo's own lies in a folder that the sandbox has to let programs read."""
    roots = [Path(root).resolve() for root in programs()]
    own = (config.data, config.state, config.consent, config.key)
    for path in own:
        if any(path.resolve().is_relative_to(root) for root in roots):
            return str(path)
    return ""


def sandbox() -> Check:
    """Checks that the kernel confines Flower's programs."""
    found = version()
    if found:
        return Check("sandbox", True, f"Flower's programs are confined by Landlock {found}")
    remedy = (
        "use Linux 5.13 or newer with Landlock (`cat /sys/kernel/security/lsm` lists it); until "
        "then only the other user and systemd's settings keep Flower's programs off this machine"
    )
    return Check("sandbox", True, "this kernel has no Landlock: nothing is confined", remedy)


def silo_answers(config: NodeConfig) -> Check:
    """Checks that the silo's daemon lets this user in."""
    try:
        answer = ask(str(config.socket), Envelope({"kind": "hello"})).header
    except FeddepError as error:
        remedy = (
            "start `feddep silo`, and let node_user and socket in its silo.toml name this user "
            "and this socket"
        )
        return Check("silo", False, f"{config.socket}: {error}", remedy)
    return Check("silo", True, f"{answer.get('name')} answers at {config.socket}")


def _reaches(path: Path, uid: int, groups: Collection[int]) -> bool:
    """Whether a user can read or change what is at a path, by the modes of all folders above."""
    folders_open = all(_allows(folder, _ENTER, uid, groups) for folder in path.resolve().parents)
    own = any(_allows(path, right, uid, groups) for right in (_READ, _WRITE, _ENTER))
    return (folders_open and own) or any(_replaceable(path, uid, groups))


def _replaceable(path: Path, uid: int, groups: Collection[int]) -> Iterator[bool]:
    for folder in path.resolve().parents:
        sticky = folder.stat().st_mode & 0o1000
        yield not sticky and _allows(folder, _WRITE, uid, groups)


def _allows(path: Path, right: int, uid: int, groups: Collection[int]) -> bool:
    status = path.stat()
    if status.st_uid == uid:
        return bool(status.st_mode >> 6 & right)
    if status.st_gid in groups:
        return bool(status.st_mode >> 3 & right)
    return bool(status.st_mode & right)
