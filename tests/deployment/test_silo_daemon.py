"""The silo's process that stays: envelopes over a socket that only its user can reach."""

import signal
import stat
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Client
from pathlib import Path

import numpy as np
import pytest

from feddep.deployment.operations import silo_daemon, silo_setup
from feddep.deployment.operations.silo_daemon import ask, socket_address
from feddep.errors import InputError, RuntimeFailureError
from feddep.runtime.envelope import Envelope


class Echo:
    """A service that says what it hears, and leaves when it is told to."""

    def graph(self) -> None:
        pass

    def answer(self, envelope: Envelope, pieces) -> Envelope:
        if envelope.header.get("kind") == "leave":
            raise SystemExit
        return Envelope({"heard": envelope.header, "pieces": pieces}, envelope.arrays)


def until_it_leaves() -> None:
    with suppress(SystemExit):
        silo_daemon.main()


@pytest.fixture
def address(monkeypatch):
    """Where the program listens; here it is a thread."""
    with socket_address() as address:
        monkeypatch.setattr(silo_setup, "open_service", lambda config: (Echo(), str(config)))
        monkeypatch.setattr(sys, "argv", ["silo_daemon", "silo.toml", address])
        monkeypatch.setattr(signal, "signal", lambda *_: None)  # for the main thread only
        thread = threading.Thread(target=until_it_leaves, daemon=True)
        thread.start()
        while not Path(address).exists():
            assert thread.is_alive()
            time.sleep(0.002)
        ask(address, Envelope({}))
        yield address
        with pytest.raises(RuntimeFailureError):
            ask(address, Envelope({"kind": "leave"}))
        thread.join(10)
        assert not thread.is_alive()


def test_an_envelope_is_answered_with_its_arrays(address):
    envelope = Envelope({"kind": "request"}, {"a": np.arange(6.0).reshape(2, 3)})
    for _ in range(3):
        answer = ask(address, envelope)
        assert answer.header == {"heard": {"kind": "request"}, "pieces": "silo.toml"}
        assert np.array_equal(answer.arrays["a"], envelope.arrays["a"])


def test_who_hangs_up_or_talks_nonsense_ends_nothing(address):
    with Client(address, "AF_UNIX"):
        pass
    with Client(address, "AF_UNIX") as connection:
        connection.send_bytes(b"nonsense")
        with pytest.raises((EOFError, OSError)):
            connection.recv_bytes()
    with Client(address, "AF_UNIX") as connection:
        connection.send_bytes(silo_daemon.pack({"kind": "request"}, {}))
    assert ask(address, Envelope({})).header["heard"] == {}


def test_nobody_else_reaches_the_socket(address):
    assert stat.S_IMODE(Path(address).parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(address).stat().st_mode) == 0o600
    assert len(address) < 100, "longer addresses do not exist"


def test_the_address_appears_only_when_somebody_listens(monkeypatch):
    reachable = []

    class Watched(silo_daemon.Listener):
        def __init__(self, address, family):
            super().__init__(address, family)
            reachable.append(Path(silo_address).exists())

        def accept(self):
            reachable.append(Path(silo_address).exists())
            raise SystemExit

    monkeypatch.setattr(silo_daemon, "Listener", Watched)
    monkeypatch.setattr(silo_setup, "open_service", lambda config: (Echo(), str(config)))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with socket_address() as silo_address:
        monkeypatch.setattr(sys, "argv", ["silo_daemon", "silo.toml", silo_address])
        until_it_leaves()
    assert reachable == [False, True]


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
