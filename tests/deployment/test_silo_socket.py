"""What a peer on the silo's socket can do: be heard, and nothing else."""

import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from feddep.deployment.operations import silo_daemon, silo_socket
from feddep.deployment.operations.silo_socket import ask, listening, receive, send, user_of
from feddep.errors import DataError, InputError, RuntimeFailureError
from feddep.runtime.envelope import LARGEST_MESSAGE, Envelope


@contextmanager
def daemon(tmp_path: Path, answer=lambda envelope: envelope, silence: float = 5.0):
    address = str(tmp_path / "s")
    run = threading.Thread(
        target=silo_daemon.serve, args=(address, None, answer, silence), daemon=True
    )
    run.start()
    while not Path(address).exists():
        time.sleep(0.002)
    yield address


def connected(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    connection.settimeout(10)
    return connection


def test_what_is_sent_is_received():
    there, here = socket.socketpair()
    with there, here:
        envelope = Envelope({"kind": "request"}, {"a": np.arange(300_000.0)})
        threading.Thread(target=send, args=(there, envelope, 5.0)).start()
        found = receive(here, 5.0)
    assert found.header == envelope.header
    assert np.array_equal(found.arrays["a"], envelope.arrays["a"])
    with pytest.raises(ValueError, match="read-only"):
        found.arrays["a"][0] = 1


def test_a_silent_peer_is_hung_up_on_and_nobody_else_waits(tmp_path):
    with daemon(tmp_path, silence=0.4) as address, connected(address) as silent:
        silent.send(b"\x10")
        began = time.monotonic()
        assert ask(address, Envelope({"kind": "hello"})).header == {"kind": "hello"}
        assert time.monotonic() - began < 0.35, "while the other one is still silent"
        assert silent.recv(1) == b"", "hung up on"


def test_a_peer_that_dawdles_is_hung_up_on(tmp_path):
    with daemon(tmp_path, silence=0.3) as address, connected(address) as slow:
        slow.send((100).to_bytes(8, "little"))
        until = time.monotonic() + 5
        with pytest.raises(OSError, match=r"reset|pipe"):
            while time.monotonic() < until:
                slow.send(b"x")
                time.sleep(0.05)


def test_who_does_not_take_the_answer_holds_up_nobody(tmp_path):
    large = Envelope({}, {"a": np.zeros(4_000_000)})
    with daemon(tmp_path, lambda _: large, silence=0.3) as address, connected(address) as deaf:
        send(deaf, Envelope({"kind": "hello"}))
        time.sleep(0.5)
        assert ask(address, Envelope({})).arrays.keys() == {"a"}


@pytest.mark.parametrize("length", [LARGEST_MESSAGE + 1, 2**63, 2**64 - 1])
def test_a_message_that_is_announced_as_too_large_is_not_read(tmp_path, length):
    with daemon(tmp_path) as address, connected(address) as peer:
        peer.send(length.to_bytes(8, "little") + b"x" * 100)
        with suppress(ConnectionResetError):
            assert peer.recv(1) == b"", "hung up on"
        assert ask(address, Envelope({})).header == {}


def test_what_is_announced_and_not_sent_takes_no_memory():
    there, here = socket.socketpair()
    with there, here:
        there.send(LARGEST_MESSAGE.to_bytes(8, "little"))
        there.close()
        with pytest.raises(EOFError, match="hung up"):
            receive(here, 5.0)


def test_what_is_no_message_is_refused():
    there, here = socket.socketpair()
    with there, here:
        there.send((8).to_bytes(8, "little") + b"nonsense")
        with pytest.raises(DataError):
            receive(here, 5.0)


def test_another_user_is_not_heard(tmp_path, monkeypatch):
    heard = []
    monkeypatch.setattr(silo_daemon, "user_of", lambda connection: os.getuid() + 1)
    with daemon(tmp_path, heard.append) as address:
        with pytest.raises(RuntimeFailureError, match="does not answer"):
            ask(address, Envelope({"kind": "hello"}))
        monkeypatch.undo()
        assert heard == []


def test_the_kernel_says_who_is_there():
    there, here = socket.socketpair()
    with there, here:
        assert user_of(here) == os.getuid()


def test_an_unknown_user_is_named(tmp_path):
    with (
        pytest.raises(InputError, match="no user nobody-at-all on this machine"),
        listening(str(tmp_path / "s"), "nobody-at-all"),
    ):
        pass
    assert not (tmp_path / "s").exists()


def test_a_place_that_cannot_be_had(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"cannot make the socket .*set another in silo\.toml"),
        listening(str(tmp_path / "file" / "s"), None),
    ):
        pass


def test_the_socket_is_gone_afterwards(tmp_path):
    with listening(str(tmp_path / "s"), None):
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []
    assert silo_socket.SILENCE <= 60
