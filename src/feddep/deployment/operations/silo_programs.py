"""Starts a silo's programs: the daemon that holds its data, and Flower's, which hold nothing.

Flower's SuperNode speaks with the server and needs the silo's node key. For each message Flower
starts a further program, which has no use for the key. Both run in a sandbox of their own, and in
production as another user than the daemon (``feddep node``).
"""

import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from feddep.deployment.operations import probes
from feddep.deployment.operations.config import NodeConfig, SiloConfig
from feddep.deployment.operations.processes import child, end_process, environment, free_port
from feddep.deployment.operations.sandbox import Sandbox
from feddep.deployment.operations.silo_checks import registration
from feddep.deployment.operations.silo_socket import socket_address
from feddep.errors import InputError, RuntimeFailureError
from feddep.runs.files import write_atomically
from feddep.scenario.toml import toml_value

DAEMON = (sys.executable, "-P", "-m", "feddep.deployment.operations.silo_daemon")
ONE_MESSAGE = (sys.executable, "-P", "-m", "feddep.deployment.operations.client_app")

_START_SECONDS = 120.0
_SIGN_IN_SECONDS, _SIGN_IN_PAUSE = 180.0, 5.0
_KEPT = ("LANG", "LC_ALL", "PYTHONPATH", "TZ")  # of the environment, for programs of a message
_OTHERS = ("agentapp", "connector", "model", "serverapp", "simulation")


def with_data(path: Path, data: Path) -> Path:
    """Writes a silo's configuration with another data folder to its state, and returns the file."""
    config = SiloConfig.read(path)
    rows = config.model_dump(exclude_none=True) | {"data": data.resolve()}
    config.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = [
        f"{name} = {toml_value(value if isinstance(value, bool) else str(value))}"
        for name, value in rows.items()
    ]
    own = config.state / "silo.toml"
    write_atomically(own, "\n".join(text) + "\n")
    return own


class Node:
    """Flower's running programs of a silo: use it as a context manager.

    Args:
        config: the silo's key, and how to reach the server.
        address: where the silo's daemon listens.
        state: folder for what Flower's programs write.

    Attributes:
        processes: the SuperNode, and the program that starts one for each message.
    """

    def __init__(self, config: SiloConfig | NodeConfig, address: str, state: Path) -> None:
        self._config, self._address, self._state = config, address, state
        self.processes: list[subprocess.Popen[bytes]] = []

    @classmethod
    def alone(cls, config: NodeConfig) -> "Node":
        """The programs that ``feddep node`` starts, unless the server does not know their key."""
        check_registered(config)
        return cls(config, str(config.socket), config.state)

    def __enter__(self) -> "Node":
        self._prepare()
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts both programs."""
        port = free_port()
        secret = self._state / "runtime.secret"
        write_atomically(secret, secrets.token_hex(32))
        secret.chmod(0o600)
        self.processes = [
            child(self._super_node(port, secret), environment(self._state)),
            child(self._starter(port, secret), self._environment_of_a_message()),
        ]

    def stop(self) -> None:
        """Ends both programs."""
        for process in reversed(self.processes):
            end_process(process)

    def ended(self) -> int | None:
        """The exit code of the first of both programs that has ended; None if none has."""
        codes = [process.poll() for process in self.processes]
        return next((code for code in codes if code is not None), None)

    def wait(self) -> int:
        """Waits until a program ends for good, and returns its exit code."""
        return wait_for(self)

    def _prepare(self) -> None:
        """Lays out the folder: what a program of a message may write is apart from the rest."""
        for folder in (self._state, self._state / "flwr", self._state / "messages"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        programs = self._state / "bin"
        programs.mkdir(exist_ok=True, mode=0o700)
        answer = f'exec {shlex.join(ONE_MESSAGE)} "$@"'
        refuse = "echo 'this silo runs nothing but feddep' >&2; exit 1"
        for name in ("clientapp", *_OTHERS):
            text = f"#!/bin/sh\n{answer if name == 'clientapp' else refuse}\n"
            file = programs / f"flwr-{name}"
            write_atomically(file, text)
            file.chmod(0o700)

    def _super_node(self, port: int, secret: Path) -> list[str]:
        config = self._config
        readable = tuple(map(str, (config.ca, config.key, secret)))
        box = Sandbox(read=readable, write=(str(self._state / "flwr"),))
        return box.around(
            [
                _found("flower-supernode"),
                *("--root-certificates", str(config.ca)),
                *("--superlink", config.server),
                *("--auth-supernode-private-key", str(config.key)),
                *("--isolation", "process"),
                *("--superexec-auth-secret-file", str(secret)),
                *("--port", str(port)),  # for Flower's own programs on this machine
                *("--node-config", f"socket={toml_value(self._address)}"),
            ]
        )

    def _starter(self, port: int, secret: Path) -> list[str]:
        box = Sandbox(
            read=(str(self._state / "bin"), str(secret)),
            write=(str(self._state / "messages"),),
            connect=(port,),
        )
        return box.around(
            [
                _found("flower-superexec"),
                "--insecure",  # does not leave this machine
                *("--runtime-api-address", f"127.0.0.1:{port}"),
                *("--superexec-auth-secret-file", str(secret)),
            ]
        )

    def _environment_of_a_message(self) -> dict[str, str]:
        """No variable of the operator's that is not needed, and no program but our own."""
        folder = str(self._state / "messages")
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        flower = {k: v for k, v in environment(self._state).items() if k.startswith("FLWR_")}
        own = {"FLWR_HOME": folder, "HOME": folder, "TMPDIR": folder}
        return kept | flower | own | {"PATH": str(self._state / "bin")}


class Silo:
    """A running silo; use it as a context manager.

    Args:
        path: its configuration file. If that names another user for Flower's programs, only the
            daemon is started.
        daemon: the program that answers envelopes, without its arguments.

    Attributes:
        daemon: its process.
        node: Flower's programs, if they run here too.
    """

    def __init__(self, path: Path, daemon: Sequence[str] = DAEMON) -> None:
        self._path, self._config = path, SiloConfig.read(path)
        self._command = daemon
        self._cleanup = ExitStack()
        self.daemon: subprocess.Popen[bytes] | None = None
        self.node: Node | None = None

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        """All that have been started."""
        own = [] if self.daemon is None else [self.daemon]
        return own if self.node is None else [*own, *self.node.processes]

    def __enter__(self) -> "Silo":
        config, together = self._config, self._config.socket is None
        if together:
            check_registered(config)
        with ExitStack() as undo:
            undo.push(self._cleanup.__exit__)
            address = str(config.socket or self._cleanup.enter_context(socket_address()))
            Path(address).unlink(missing_ok=True)  # of a silo that was killed
            self.daemon = child(
                [*self._command, str(self._path), address], environment(config.state)
            )
            self._cleanup.callback(end_process, self.daemon)
            self._wait_for(Path(address))
            if together:
                self.node = Node(config, address, config.state / "node")
                self._cleanup.enter_context(self.node)
            undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._cleanup.close()

    def wait(self) -> int:
        """Waits until one of the silo's programs ends for good, and returns its exit code."""
        return wait_for(self.node, self.daemon)

    def _wait_for(self, socket: Path) -> None:
        until = time.monotonic() + _START_SECONDS
        while not socket.exists():
            if self.daemon is not None and self.daemon.poll() is not None:
                raise InputError("the silo cannot start; see the reason above")
            if time.monotonic() > until:
                raise RuntimeFailureError(f"the silo was not ready within {_START_SECONDS:g} s")
            time.sleep(0.1)


def wait_for(node: Node | None, daemon: "subprocess.Popen[bytes] | None" = None) -> int:
    """Waits until a program ends for good, and returns its exit code.

    The server takes a killed silo to be online until it has missed enough heartbeats, and does not
    let it sign in again before. So Flower's programs are restarted for a while when they end.
    """
    started = time.monotonic()
    while True:
        time.sleep(0.5)
        code = None if daemon is None else daemon.poll()
        if code is not None:
            return code
        code = None if node is None else node.ended()
        if code is None or node is None:
            continue
        node.stop()
        if time.monotonic() - started > _SIGN_IN_SECONDS:
            return code
        time.sleep(_SIGN_IN_PAUSE)
        node.start()


def check_registered(config: SiloConfig | NodeConfig) -> None:
    """Refuses a key that the server says it does not know.

    Raises:
        InputError: says what to do about it.
    """
    known = registration(probes.Server(config.host, config.port, config.ca), config)
    if known.ok is False:
        raise InputError(f"{known.found}: {known.remedy}")


def _found(program: str) -> str:
    """Where a program of Flower is: beside Python, or on the PATH."""
    return shutil.which(program, path=environment(Path())["PATH"]) or program
