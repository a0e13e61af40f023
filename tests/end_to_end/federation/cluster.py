"""A server and its silos as real processes on this machine, started with the commands of a user."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

FEDDEP = str(Path(sys.executable).with_name("feddep"))
SPEC = """\
method = "{method}"
preset = "paper"
[partition]
clients = {silos}
[model]
hidden = {hidden}
[training]
rounds = {rounds}
[embedding]
epochs = 3
width = 16
[generator]
epochs = 2
"""


def feddep(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    """A command of ours, to its end."""
    command = [FEDDEP, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Program:
    """A command of ours that goes on, in a process group of its own."""

    def __init__(self, name: str, log: Path, *command: str | Path) -> None:
        self.name, self.log = name, log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*map(str, command)],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self, text: str) -> int:
        """How often the log has it."""
        return len(re.findall(re.escape(text), self.log.read_text(errors="replace")))

    def wait_until(self, text: str, seconds: float = 180, times: int = 1) -> None:
        until = time.monotonic() + seconds
        while self.said(text) < times:
            tail = self.log.read_text(errors="replace")[-2000:]
            assert self.process.poll() is None, f"{self.name} ended: {tail}"
            assert time.monotonic() < until, f"{self.name} never said {text!r}: {tail}"
            time.sleep(0.2)

    def kill(self) -> None:
        """Kill -9 of the program and all that it started."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        # Flower's programs start sessions of their own, so the group alone is not all of it.
        for pid in [*_descendants(self.process.pid), self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            for pid in [*_descendants(self.process.pid), self.process.pid]:
                os.kill(pid, signal.SIGKILL)
            self.process.wait()


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [*_descendants(child), child]
    return found


@dataclass
class Cluster:
    """A federation's folder, and what runs of it."""

    folder: Path
    silos: int
    port: int = field(default_factory=free_port)
    server: Program | None = None
    running: dict[int, Program] = field(default_factory=dict)

    def prepare(self, *partition: str) -> None:
        kit = self.folder / "kit"
        names = [part for i in range(self.silos) for part in ("--silo", f"bank-{i}")]
        done = feddep(
            "deploy", "init", kit, "--host", "localhost", "--port", str(self.port), *names,
            "--no-proxy",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        shards = self.folder / "shards"
        done = feddep("partition", "--clients", str(self.silos), "--out", shards, *partition)
        assert done.returncode == 0, done.stderr
        for i in range(self.silos):
            (shards / f"client-{i:03d}").rename(self.silo(i) / "data")
            self.change(i, "secret = true", "secret = false")
            self.change(i, "rounds = 100", "rounds = 10", "consent.toml")

    def silo(self, number: int) -> Path:
        return self.folder / "kit" / "silos" / f"bank-{number}"

    @property
    def server_file(self) -> Path:
        return self.folder / "kit" / "server" / "server.toml"

    def change(self, number: int, before: str, after: str, name: str = "silo.toml") -> None:
        file = self.silo(number) / name
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after))

    def start_server(self) -> None:
        log = self.folder / "server.log"
        ready = log.read_text(errors="replace").count("the server is ready") if log.exists() else 0
        self.server = Program("server", log, FEDDEP, "server", self.server_file)
        self.server.wait_until("the server is ready", times=ready + 1)

    def start_silo(self, number: int, *command: str | Path) -> None:
        self.start_silos({number: command})

    def start_silos(self, commands: Mapping[int, Sequence[str | Path]]) -> None:
        """Starts them together, as each takes a while, and waits for all."""
        ready = {}
        for number, command in commands.items():
            log = self.folder / f"silo-{number}.log"
            before = log.read_text(errors="replace") if log.exists() else ""
            ready[number] = before.count("the silo is ready") + 1
            command = command or (FEDDEP, "silo", self.silo(number) / "silo.toml")
            self.running[number] = Program(f"silo {number}", log, *command)
        for number, times in ready.items():
            self.running[number].wait_until("the silo is ready", times=times)

    def start(self) -> None:
        self.start_server()
        self.start_silos(dict.fromkeys(range(self.silos), ()))

    def stop(self) -> None:
        for program in [*self.running.values(), self.server]:
            if program is not None and program.process.poll() is None:
                program.kill()

    def spec(self, method: str = "feddep", rounds: int = 2, hidden: int = 16, **more: str) -> Path:
        file = self.folder / f"{method}-{rounds}-{hidden}.toml"
        text = SPEC.format(method=method, silos=self.silos, rounds=rounds, hidden=hidden)
        file.write_text(text + "".join(f"{key} = {value}\n" for key, value in more.items()))
        return file

    def federate(self, spec: Path, out: str, *options: str) -> Program:
        """`feddep federate` in the background."""
        return Program(
            "federate",
            self.folder / f"{out}.log",
            *(FEDDEP, "federate", spec, "--config", self.server_file),
            *("--out", self.folder / out, "--wait", "240", "--resend", "20", *options),
        )

    def finish(self, program: Program, seconds: float = 600) -> str:
        """Waits for it; what it said."""
        program.process.wait(seconds)
        return program.log.read_text(errors="replace")


@dataclass
class CountingProxy:
    """Passes bytes on between silos and server, and counts them."""

    target: int
    port: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
                outer = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            for source, sink in ((inner, outer), (outer, inner)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                with self._lock:
                    self.bytes += len(data)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
