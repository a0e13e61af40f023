"""The silo daemon as a program: when it can be reached, by whom, and how it ends."""

import signal
import socket
import stat
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from feddep.deployment.operations import silo_daemon, silo_setup, silo_socket
from feddep.deployment.operations.silo_socket import ask, listening, socket_address
from feddep.errors import InputError, RuntimeFailureError
from feddep.runtime.envelope import Envelope


class Echo:
    """A service that says what it hears, and breaks when it is told to."""

    def graph(self) -> None:
        pass

    def answer(self, envelope: Envelope, pieces) -> Envelope:
        if envelope.header.get("kind") == "break":
            raise SystemExit
        return Envelope({"heard": envelope.header, "pieces": pieces}, envelope.arrays)


@pytest.fixture
def made_of_echo(monkeypatch):
    def service(config):
        return Echo(), str(config)

    config = SimpleNamespace(node_user=None)
    monkeypatch.setattr(silo_setup, "open_service", service)
    monkeypatch.setattr(silo_daemon.SiloConfig, "read", lambda path: config)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # for the main thread only
    return config


@pytest.fixture
def address(monkeypatch, made_of_echo):
    """Where the program listens; here it is a thread."""
    with socket_address() as address:
        monkeypatch.setattr(sys, "argv", ["silo_daemon", "silo.toml", address])
        thread = threading.Thread(target=silo_daemon.main, daemon=True)
        thread.start()
        while not Path(address).exists():
            assert thread.is_alive()
            time.sleep(0.002)
        yield address


def test_an_envelope_is_answered_with_its_arrays(address):
    envelope = Envelope({"kind": "request"}, {"a": np.arange(6.0).reshape(2, 3)})
    for _ in range(3):
        answer = ask(address, envelope)
        assert answer.header == {"heard": {"kind": "request"}, "pieces": "silo.toml"}
        assert np.array_equal(answer.arrays["a"], envelope.arrays["a"])


def test_who_hangs_up_or_talks_nonsense_ends_nothing(address):
    for said in (b"", b"nonsense", bytes(8), (9).to_bytes(8, "little") + b"no packing"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address)
            connection.send(said)
    assert ask(address, Envelope({})).header["heard"] == {}


def test_a_daemon_that_breaks_ends_rather_than_stays_half_alive(address, monkeypatch):
    ended = []
    monkeypatch.setattr(silo_daemon.os, "_exit", ended.append)
    with pytest.raises(RuntimeFailureError):
        ask(address, Envelope({"kind": "break"}))
    until = time.monotonic() + 5
    while not ended and time.monotonic() < until:
        time.sleep(0.002)
    assert ended == [1]


def test_nobody_else_reaches_the_socket(address):
    assert stat.S_IMODE(Path(address).parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(address).stat().st_mode) == 0o600
    assert len(address) < 100, "longer addresses do not exist"


def test_the_address_appears_only_when_somebody_listens(monkeypatch):
    seen = []

    class Watched(socket.socket):
        def listen(self, *arguments):
            seen.append(Path(address).exists())
            super().listen(*arguments)
            seen.append(Path(address).exists())

    with socket_address() as address:
        monkeypatch.setattr(silo_socket.socket, "socket", Watched)
        with listening(address, None):
            seen.append(Path(address).exists())
    assert seen == [False, False, True]


def test_the_place_is_gone_afterwards():
    with socket_address() as address:
        folder = Path(address).parent
        assert folder.is_dir()
    assert not folder.exists()


def test_nobody_there():
    with socket_address() as address, pytest.raises(RuntimeFailureError, match="does not answer"):
        ask(address, Envelope({"kind": "hello"}))


def test_a_silo_that_cannot_start_says_why(monkeypatch):
    def broken(config):
        raise InputError(f"cannot read {config}")

    monkeypatch.setattr(silo_setup, "open_service", broken)
    monkeypatch.setattr(sys, "argv", ["silo_daemon", "silo.toml", "/nowhere"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit, match=r"error: cannot read silo\.toml"):
        silo_daemon.main()
