"""A silo and a server under a hostile peer: 512 MiB over the idle process, and seconds."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from feddep.runtime.envelope import LARGEST_MESSAGE

MOST_BYTES, MOST_SECONDS = 512 << 20, 20.0
DAEMON = """
import sys
from feddep.deployment.operations import silo_daemon
silo_daemon.serve(sys.argv[1], None, lambda envelope: envelope, 5.0)
"""


def python(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "burden",
    [
        "repeated_nodes",
        "a_billion_validation_nodes",
        "endless_work",
        "replays",
        "others_large_messages",
    ],
)
def test_what_a_peer_asks_or_tells_exhausts_nobody(burden: str):
    process = python("-m", "hostile.burdens", burden)
    told, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    found = json.loads(told)
    assert found["bytes"] < MOST_BYTES
    assert found["seconds"] < MOST_SECONDS


@pytest.fixture
def daemon(tmp_path: Path):
    address = tmp_path / "s"
    process = python("-c", DAEMON, str(address))
    until = time.monotonic() + 120
    while not address.exists() and time.monotonic() < until:
        time.sleep(0.05)
    yield process.pid, str(address)
    process.kill()
    process.wait()


def peak_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) << 10


def connected(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    connection.settimeout(60)
    return connection


@pytest.mark.slow
def test_a_message_of_a_gibibyte_is_refused_before_it_is_received(daemon):
    pid, address = daemon
    idle, began = peak_of(pid), time.monotonic()
    with connected(address) as peer:
        peer.sendall((1 << 30).to_bytes(8, "little"))
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(1 << 10):
                peer.sendall(bytes(1 << 20))
        with suppress(ConnectionResetError):
            assert peer.recv(1) == b""
    assert time.monotonic() - began < MOST_SECONDS
    assert peak_of(pid) - idle < 32 << 20


@pytest.mark.slow
def test_many_peers_that_say_all_but_the_last_byte(daemon):
    pid, address = daemon
    idle = peak_of(pid)

    def nearly() -> None:
        with connected(address) as peer, suppress(OSError):
            peer.sendall(LARGEST_MESSAGE.to_bytes(8, "little"))
            rest = LARGEST_MESSAGE - 1
            while rest:
                rest -= peer.send(bytes(min(rest, 1 << 20)))
            peer.recv(1)

    peers = [threading.Thread(target=nearly, daemon=True) for _ in range(8)]
    for peer in peers:
        peer.start()
    for peer in peers:
        peer.join(120)
    assert (100 << 20) < peak_of(pid) - idle < MOST_BYTES
