"""The server's Flower app, which ``feddep federate`` starts next to the SuperLink."""

import fcntl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file

from feddep.deployment.operations.programs import TROUBLE
from feddep.deployment.protocol.federate import federate
from feddep.deployment.protocol.noted_heads import ServersNotes
from feddep.deployment.protocol.registry import read_registry
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import FeddepError, InputError
from feddep.federation.messages import State, grouped
from feddep.runs.files import write_atomically
from feddep.runs.folder import RunFolder
from feddep.runtime.flower import Context, Grid, ServerApp
from feddep.runtime.flower.channel import FlowerChannel
from feddep.scenario.spec import RunSpec

LOCK = "server.lock"
"""The file that a running server holds locked, so that no second one works on the same run."""
_LOCK_SECONDS = 60.0

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the spec in the run's folder."""
    config = context.run_config
    path = Path(str(config["folder"]))
    try:
        with _alone(path):
            federate(
                FlowerChannel(grid),
                RunSpec.read(path / "spec.toml"),
                RunFolder(path),
                wait_policy=_wait_policy(config),
                largest_norm=float(config["largest-norm"]),
                known=_crossings(str(config["crossings"])),
                notes=ServersNotes(Path(str(config["heads"]))) if config["heads"] else None,
                registry=read_registry(Path(str(config["registry"]))),
            )
    except FeddepError as error:
        with suppress(OSError):  # Flower's log has it, too
            write_atomically(path / TROUBLE, f"{type(error).__name__}\n{error}\n")
        raise


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Waits until no other server uses the folder: one that was stopped takes a moment to end.

    Raises:
        InputError: another server still runs, or the folder cannot be written.
    """
    until = time.monotonic() + _LOCK_SECONDS
    try:
        lock = (folder / LOCK).open("w")
    except OSError as error:
        raise InputError(
            f"the server cannot write to {folder}: {error.strerror}; choose another --out"
        ) from None
    with lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise InputError(f"another server is running in {folder}; stop it") from None
                time.sleep(0.2)
        yield


def _wait_policy(config: Mapping[str, Any]) -> WaitPolicy:
    return WaitPolicy(
        quorum=float(config["quorum"]),
        grace=float(config["grace"]),
        wait=float(config["wait"]),
        resend=float(config["resend"]),
    )


def _crossings(file: str) -> State:
    """The edges between silos, if the server was given them."""
    try:
        return grouped("crossings", load_file(file)) if file else {}
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot read the crossings {file}: {error}") from None
