"""The socket between the program that holds a silo's data and Flower's programs.

Whoever speaks here may be hostile: Flower's programs talk to a network. So the kernel is asked who
it is, a message has a largest size, memory is taken as bytes arrive and not as they are announced,
and a peer that falls silent is hung up on.
"""

import os
import pwd
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from feddep.errors import InputError, RuntimeFailureError
from feddep.federation.messages import pack, unpack
from feddep.runtime.envelope import LARGEST_MESSAGE, Envelope

SILENCE = 60.0
"""Seconds in which a peer has to say all it has to say; it is on the same machine."""

_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 20
_CREDENTIALS = struct.Struct("=3i")


def send(connection: socket.socket, envelope: Envelope, seconds: float | None = None) -> None:
    """Sends an envelope.

    Raises:
        OSError: the peer does not take it.
    """
    data = pack(envelope.header, envelope.arrays)
    until = None if seconds is None else time.monotonic() + seconds
    for piece in (_LENGTH.pack(len(data)), data):
        rest = memoryview(piece)
        while rest:
            _set_time_left(connection, until)
            rest = rest[connection.send(rest[:_CHUNK]) :]


def receive(
    connection: socket.socket,
    seconds: float | None = None,
    largest: int = LARGEST_MESSAGE,
) -> Envelope:
    """Receives an envelope.

    Raises:
        DataError: it is none.
        OSError: it does not come, is too large, or does not come in time.
    """
    until = None if seconds is None else time.monotonic() + seconds
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size, until))
    if length > largest:
        raise OSError(f"a message of {length} bytes, where {largest} are allowed")
    header, arrays = unpack(_read(connection, length, until))
    return Envelope(header, arrays)


def _read(connection: socket.socket, length: int, until: float | None) -> memoryview:
    data = bytearray()
    while len(data) < length:
        _set_time_left(connection, until)
        piece = connection.recv(min(_CHUNK, length - len(data)))
        if not piece:
            raise EOFError("the peer hung up")
        data += piece
    return memoryview(data).toreadonly()


def _set_time_left(connection: socket.socket, until: float | None) -> None:
    if until is None:
        connection.settimeout(None)
        return
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("the peer took too long")
    connection.settimeout(left)


def ask(address: str, envelope: Envelope) -> Envelope:
    """Hands an envelope to the silo's program and waits for its answer, however long it takes.

    Raises:
        RuntimeFailureError: it does not answer; Flower reports it, and the server asks again.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address)
            send(connection, envelope)
            return receive(connection)
    except (OSError, EOFError) as error:
        raise RuntimeFailureError(f"the silo daemon does not answer ({error})") from None


def user_of(connection: socket.socket) -> int:
    """The number of the user at the other end, as the kernel tells it."""
    if not hasattr(socket, "SO_PEERCRED"):  # not Linux: the socket's mode alone keeps others out
        return os.getuid()
    size = _CREDENTIALS.size
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(_CREDENTIALS.unpack(told)[1])


def user(name: str) -> pwd.struct_passwd:
    """The user of a name.

    Raises:
        InputError: there is none.
    """
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise InputError(
            f"node_user: there is no user {name} on this machine; create it (the head of the "
            "systemd unit says how), or set another"
        ) from None


@contextmanager
def socket_address() -> Iterator[str]:
    """A path for a socket that only this user can reach; socket paths must be short."""
    with tempfile.TemporaryDirectory(prefix="feddep-", dir="/tmp") as folder:
        yield str(Path(folder) / "silo")


@contextmanager
def listening(address: str, node_user: str | None) -> Iterator[socket.socket]:
    """Listens at an address, which appears only once somebody listens there.

    Args:
        address: the path; one that an earlier program left behind is replaced.
        node_user: another user who may connect.

    Raises:
        InputError: the socket cannot be made.
    """
    path, unready = Path(address), Path(f"{address}.unready")
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
            unready.unlink(missing_ok=True)
            listener.bind(str(unready))
            unready.chmod(0o600)
            if node_user is not None:
                os.chown(unready, -1, user(node_user).pw_gid)
                unready.chmod(0o660)
            listener.listen(8)
            unready.replace(path)
        except OSError as error:
            raise InputError(_cannot_listen(address, node_user, error)) from None
        try:
            yield listener
        finally:
            with suppress(OSError):
                path.unlink()


def _cannot_listen(address: str, node_user: str | None, error: OSError) -> str:
    if isinstance(error, PermissionError) and node_user is not None:
        return (
            f"cannot make the socket {address} for {node_user}: {error.strerror}; this user has to "
            f"be able to write to its folder, and to be a member of {node_user}'s group"
        )
    return f"cannot make the socket {address}: {error.strerror or error}; set another in silo.toml"
