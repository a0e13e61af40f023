"""Starts the server's programs: Flower's, with our configuration, and a run on them.

The server and the silos run the feddep that is installed on their machines. Starting a run sends
them no code, only a folder with one small file that names two modules of the package.
"""

import json
import logging
import socket
import ssl
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from feddep.deployment.operations.config import ServerConfig, host_and_port
from feddep.deployment.operations.processes import child, end_process, environment
from feddep.deployment.operations.reconcile import known_keys, registry_of, remove_strangers
from feddep.deployment.protocol.registry import write_registry
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import (
    FeddepError,
    InputError,
    InterruptedRunError,
    RuntimeFailureError,
)
from feddep.runs.files import Record, read_record, write_atomically
from feddep.scenario.toml import toml_value

TROUBLE = "trouble.txt"
"""The file with the reason why a run ended early, for whoever started it."""

NUMBER = "flower-run.txt"
"""The file with Flower's number of a run that has not ended."""

REGISTRY = "registry.json"
"""The file in the server's state that says whose key is behind each address."""

log = logging.getLogger("feddep")
_CONNECTION = "feddep"
_DATABASE = "flower.db"
_START_SECONDS = 120.0
_APP = """\
[build-system]
requires = []
build-backend = "none"

[project]
name = "feddep-run"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "feddep"

[tool.flwr.app.components]
serverapp = "feddep.deployment.operations.server_app:app"
clientapp = "feddep.deployment.operations.client_app:app"

[tool.flwr.app.config]
folder = ""
crossings = ""
heads = ""
registry = ""
quorum = 1.0
grace = 600.0
wait = 3600.0
resend = 300.0
largest-norm = 1e6
"""


class Server:
    """A running SuperLink; use it as a context manager.

    Args:
        config: where it listens, its certificate and the silos' keys.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Server":
        config = self._config
        known = known_keys(config.silos)
        config.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = config.state / _DATABASE
        for stranger in remove_strangers(database, known):
            log.warning("removed a node whose key is not in %s: %s", config.silos, stranger)
        command = [
            "flower-superlink",
            *("--ssl-ca-certfile", str(config.ca)),
            *("--ssl-certfile", str(config.certificate)),
            *("--ssl-keyfile", str(config.key)),
            *("--host", config.host, "--port", str(config.port)),
            *("--database", str(database)),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        ]
        self._process = child(command, environment(config.state))
        try:
            self._wait_until_it_answers()
            for name in sorted(known.values()):
                self._register(config.silos / f"{name}.pub")
            write_registry(config.state / REGISTRY, registry_of(database, known))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def running(self) -> subprocess.Popen[bytes]:
        """The process."""
        if self._process is None:
            raise RuntimeFailureError("the server is not started; use it in a with statement")
        return self._process

    def stop(self) -> None:
        """Stops the server."""
        if self._process is not None:
            end_process(self._process)

    def _wait_until_it_answers(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self.running.poll() is not None:
                raise RuntimeFailureError(
                    f"the server ended with exit code {self.running.returncode}; see its message "
                    "above, and run `feddep doctor` to look for the cause"
                )
            if answers(self._config):
                return
            time.sleep(0.2)
        raise RuntimeFailureError(f"the server did not answer within {_START_SECONDS:g} s")

    def _register(self, key: Path) -> None:
        """Registers a silo's key, unless the server knows it already."""
        done = flwr(
            self._config, "supernode", "register", str(key), _CONNECTION, "--name", key.stem
        )
        if done.returncode and "already" not in done.stdout + done.stderr:
            raise RuntimeFailureError(
                f"cannot register the silo {key.stem}: {(done.stderr or done.stdout).strip()}"
            )


def run_on_silos(
    config: ServerConfig,
    folder: Path,
    wait_policy: WaitPolicy,
    largest_norm: float,
    crossings: Path | None = None,
) -> Record:
    """Makes the server run the spec in a folder, and waits for the record.

    Args:
        config: the server's configuration; this machine must reach its control API.
        folder: the run's folder, with its ``spec.toml``.
        wait_policy: how long the server waits for which silos.
        largest_norm: the norm beyond which a reply is left out.
        crossings: file with the edges between silos, for methods that need them.

    Raises:
        InterruptedRunError: the run ended early, or the user stopped it; it can be resumed.
    """
    app = config.state / "app"
    app.mkdir(parents=True, exist_ok=True)
    write_atomically(app / "pyproject.toml", _APP)
    (folder / TROUBLE).unlink(missing_ok=True)
    settings = {
        "folder": str(folder.resolve()),
        "largest-norm": float(largest_norm),
        "crossings": str(crossings.resolve()) if crossings else "",
        "heads": str(config.state.resolve() / "heads"),
        "registry": str(config.state.resolve() / REGISTRY),
        **{name: float(value) for name, value in vars(wait_policy).items()},
    }
    asked = folder / "flower-run.toml"  # Flower's command-line syntax cannot escape characters
    rows = [f"{name} = {toml_value(value)}" for name, value in settings.items()]
    write_atomically(asked, "\n".join(rows) + "\n")
    try:
        run = _started(config, folder, app, asked)
    finally:
        asked.unlink()
    try:
        done = flwr(config, "log", run, _CONNECTION)  # until it ends
    except KeyboardInterrupt:
        flwr(config, "stop", run, _CONNECTION)
        raise InterruptedRunError(
            "stopped; run the same command with --resume to continue from the last round"
        ) from None
    if (folder / "record.json").exists():
        (folder / NUMBER).unlink()
        return read_record(folder)
    raise _trouble(folder, done)


def _started(config: ServerConfig, folder: Path, app: Path, asked: Path) -> str:
    """Starts a run and returns Flower's number for it, by which it can be stopped.

    The number is also stored in the folder. If one is there already, its starter was killed; that
    run may still be going, so it is stopped first.
    """
    number = folder / NUMBER
    if number.exists():
        flwr(config, "stop", number.read_text().strip(), _CONNECTION)
    options = ("--format", "json", "--run-config", str(asked))
    done = flwr(config, "run", str(app), _CONNECTION, *options)
    try:
        run = str(int(json.loads(done.stdout)["run-id"]))
    except (ValueError, LookupError, TypeError):
        raise RuntimeFailureError(
            f"the server does not accept the run. Flower says: {_last_words(done)}"
        ) from None
    write_atomically(number, run + "\n")
    return run


def flwr(config: ServerConfig, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs Flower's command-line tool ``flwr`` against the server."""
    home = config.state / "flwr"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    rows = [
        "[superlink]",
        f"default = {toml_value(_CONNECTION)}",
        f"[superlink.{_CONNECTION}]",
        f"address = {toml_value(host_and_port(_reachable(config.host), config.port))}",
        f"root-certificates = {toml_value(str(config.ca))}",
    ]
    write_atomically(home / "config.toml", "\n".join(rows) + "\n")
    return subprocess.run(
        ["flwr", *arguments],
        env=environment(config.state),
        capture_output=True,
        text=True,
        check=False,
    )


def answers(config: ServerConfig) -> bool:
    """Whether the server's address answers TLS with a certificate that our authority signed."""
    try:
        context = ssl.create_default_context(cafile=str(config.ca))
    except OSError as error:
        raise InputError(f"cannot read the certificate {config.ca}: {error}") from None
    host = _reachable(config.host)
    try:
        with (
            socket.create_connection((host, config.port), timeout=2) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except OSError:
        return False


def _trouble(folder: Path, done: "subprocess.CompletedProcess[str]") -> FeddepError:
    file = folder / TROUBLE
    if file.exists():
        kind, _, text = file.read_text().partition("\n")
        file.unlink()
        known: Sequence[type[FeddepError]] = (InterruptedRunError, InputError)
        return next((c for c in known if c.__name__ == kind), RuntimeFailureError)(text.strip())
    return InterruptedRunError(
        "the run ended without a result; run the same command with --resume to continue. "
        f"Flower says: {_last_words(done)}"
    )


def _last_words(done: "subprocess.CompletedProcess[str]") -> str:
    return (done.stderr or done.stdout).strip()[-800:]


def _reachable(host: str) -> str:
    """The address at which this machine reaches its own listener, even one on all interfaces."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
