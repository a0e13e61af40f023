"""Takes from a process whatever it does not need of files and network: Landlock, in Linux 5.13+.

Landlock needs neither privileges nor another program. What a process gives up it cannot get back,
and neither can any that it starts. A process inside cannot look into the memory of one outside.

    python -m feddep.deployment.operations.sandbox SETTINGS COMMAND...

starts a command that way; SETTINGS is a :class:`Sandbox` as JSON.
"""

import ctypes
import json
import os
import struct
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from feddep.errors import RuntimeFailureError

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on all processors
_VERSION_FLAG, _BENEATH, _PORT = 1, 1, 2
_NO_NEW_PRIVILEGES = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE = 1 << 14
_FILES_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE  # the others are about folders
_BIND, _CONNECT = 1, 2
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6
_SCOPES = 3  # abstract sockets and signals
_SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"),
    *(f"/etc/{name}" for name in ("hosts", "host.conf", "resolv.conf", "nsswitch.conf")),
    *(f"/etc/{name}" for name in ("passwd", "group", "services", "ld.so.cache", "ld.so.conf")),
    *(f"/etc/{name}" for name in ("ssl", "pki", "ca-certificates", "localtime", "alternatives")),
    *("/run/systemd/resolve", "/sys/devices/system/cpu"),
)
_PACKAGES = ("site-packages", "dist-packages")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """What a process may still do, besides running the installed programs.

    Attributes:
        read: files and folders that it may read.
        write: folders in which it may do anything.
        connect: the only TCP ports that it may connect to; None leaves the network alone.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    connect: tuple[int, ...] | None = None

    def around(self, command: Sequence[str]) -> list[str]:
        """The command that runs a command inside, or the command alone where that is impossible."""
        if not version():
            return list(command)
        settings = json.dumps(asdict(self))
        return [sys.executable, "-P", "-m", __name__, settings, *command]


def version() -> int:
    """The kernel's version of Landlock; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc().syscall(_CREATE, None, 0, _VERSION_FLAG)))


def programs() -> list[str]:
    """Where Python, the installed packages and this one are: what every program has to read."""
    own = Path(__file__).resolve().parents[3]
    paths = sysconfig.get_paths()
    # An environment may take packages from another one.
    installed = {place for place in sys.path if Path(place).name in _PACKAGES}
    roots = {sys.prefix, sys.base_prefix, paths["purelib"], paths["platlib"], str(own)}
    return [*_SYSTEM, *sorted(roots | installed)]


def enter(sandbox: Sandbox) -> None:
    """Confines this process, and all that it will start, for good.

    Raises:
        RuntimeFailureError: the kernel does not do it; nothing may run then.
    """
    known = version()
    if not known:
        raise RuntimeFailureError("this kernel has no Landlock, so nothing can be confined")
    files = max((mask for since, mask in _FILES_BY_VERSION.items() if since <= known))
    network = _CONNECT if known >= _NETWORK_SINCE and sandbox.connect is not None else 0
    scopes = _SCOPES if known >= _SCOPES_SINCE else 0
    fields = [files, network, scopes][: 1 + (known >= _NETWORK_SINCE) + (known >= _SCOPES_SINCE)]
    ruleset = _called(_CREATE, struct.pack(f"={len(fields)}Q", *fields), 8 * len(fields), 0)
    try:
        for path in (*programs(), *sandbox.read):
            _allow(ruleset, path, _READ & files)
        for path in _DEVICES:
            _allow(ruleset, path, (_READ_FILE | _WRITE_FILE) & files)
        for path in sandbox.write:
            _allow(ruleset, path, files)
        for port in sandbox.connect or () if network else ():
            _called(_ADD, ruleset, _PORT, struct.pack("=QQ", _CONNECT, port), 0)
        _ok(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _called(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    """Allows access to what is under a path; what is not there needs no rule."""
    with _opened(path) as descriptor:
        if descriptor is None:
            return
        folder = Path(path).is_dir()
        rights = access if folder else access & _OF_A_FILE
        _called(_ADD, ruleset, _BENEATH, struct.pack("=Qi", rights, descriptor), 0)


@contextmanager
def _opened(path: str) -> Iterator[int | None]:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _called(number: int, *arguments: int | bytes) -> int:
    numbers = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    return _ok(int(_libc().syscall(ctypes.c_long(number), *numbers)))


def _ok(result: int) -> int:
    if result < 0:
        why = os.strerror(ctypes.get_errno())
        raise RuntimeFailureError(f"the sandbox cannot be set up: {why}")
    return result


def main() -> None:
    """Confines this process and becomes the command."""
    settings, command = json.loads(sys.argv[1]), sys.argv[2:]
    enter(Sandbox(**settings))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
