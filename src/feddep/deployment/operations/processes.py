"""Starting and ending other programs: Flower's, and our own."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Flower must neither send telemetry nor install anything."""

_PR_SET_PDEATHSIG = 1


def child(command: Sequence[str], env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Starts a program, with this environment, that ends when this process does."""
    return subprocess.Popen(list(command), env=dict(env), preexec_fn=_end_with_parent)


def _end_with_parent() -> None:
    """Tells Linux to end this process with its parent, even if the parent is killed.

    Otherwise the SuperNode of a killed silo would stay signed in and keep the silo from returning.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """Terminates a process, and kills it if it does not end."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def environment(state: Path) -> dict[str, str]:
    """Environment variables for Flower's programs, without telemetry and run-time installs."""
    own = str(Path(sys.executable).parent)  # Flower's programs find each other on the PATH
    paths = {"PATH": os.pathsep.join([own, os.environ.get("PATH", "")])}
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return os.environ | OFFLINE | one_thread | paths | {"FLWR_HOME": str(state / "flwr")}


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
