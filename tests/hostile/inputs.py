"""Fuzzed inputs to everything that reads what others wrote, each case by its seed.

A worker process tries the cases, and its parent notices what no worker can: that it crashed, that a
case takes too long. A case that passes has returned how it ended (refused, or taken in a form that
is harmless); one that fails has raised anything else.
"""

import json
import mmap
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from hostile.record import SAVE_EVERY, Record

MOST_MEMORY = 512 << 20
"""Above what the process had when it was ready."""
MOST_SECONDS = float(os.environ.get("FEDDEP_HOSTILE_SECONDS", "10"))
"""Of computing, for one case."""
MOST_WAITING = 40
MOST_ADDRESSES = 12 << 30  # beyond what it had: whoever asks for more is refused by the system

Case = Callable[[random.Random], str]


@dataclass(frozen=True)
class Subject:
    """One thing to try.

    Attributes:
        address: ``module:function``; the function gets a folder and returns what tries one case.
        cases: of the whole campaign.
        share: of these, in the tests that run before every change.
    """

    address: str
    cases: int
    share: int


SUBJECTS = {
    "graphs": Subject("hostile.files:graphs", 120_000, 5_000),
    "shards": Subject("hostile.files:shards", 40_000, 1_000),
    "features": Subject("hostile.files:features", 60_000, 4_000),
    "tables": Subject("hostile.files:tables", 40_000, 1_500),
    "schemas": Subject("hostile.files:schemas", 60_000, 1_500),
    "settings": Subject("hostile.files:settings", 50_000, 1_500),
    "machines": Subject("hostile.files:machines", 30_000, 1_000),
    "consents": Subject("hostile.files:consents", 60_000, 1_500),
    "checkpoints": Subject("hostile.kept:checkpoints", 60_000, 1_500),
    "ledgers": Subject("hostile.kept:ledgers", 60_000, 1_500),
    "memories": Subject("hostile.kept:memories", 60_000, 1_500),
    "runs": Subject("hostile.kept:runs", 30_000, 1_000),
    "rows": Subject("hostile.kept:rows", 50_000, 1_500),
    "codec": Subject("hostile.letters:codec", 124_000, 1_500),
    "replies": Subject("hostile.letters:replies", 100_000, 1_500),
    "requests": Subject("hostile.letters:requests", 80_000, 1_500),
    "silo": Subject("hostile.letters:silo", 30_000, 1_500),
    "server": Subject("hostile.letters:server", 6_000, 50),
}


def draws_of(name: str, seed: int) -> random.Random:
    """The draws of one case."""
    return random.Random(f"{name}/{seed}")


def one(name: str, seed: int, address: str | None = None) -> str:
    """Tries one case in this process, and says how it ended; what is wrong is raised."""
    with tempfile.TemporaryDirectory(dir=_place()) as folder:
        case = prepared(address or SUBJECTS[name].address, Path(folder) / "honest")
        return case(draws_of(name, seed))


def prepared(address: str, folder: Path) -> Case:
    """What tries a case, from its address."""
    module, _, function = address.partition(":")
    case: Case = getattr(import_module(module), function)(folder)
    return case


# The parent


def campaign(name: str, record: Record, cases: int, address: str | None = None) -> None:
    """Tries the cases that were not tried yet, and again those that failed."""
    where, tally = address or SUBJECTS[name].address, record.tally("inputs", name)
    for seed in map(int, tally.failing):
        found, failing, _ = tried(name, where, seed, seed + 1)
        if not failing:
            record.change("inputs", name, lambda own, s=seed, f=found: own.note_again(s, min(f)))
    first = tally.tried
    while first < cases:
        found, failing, last = tried(name, where, first, cases)
        record.change("inputs", name, lambda own: own.note(found, failing, last))  # noqa: B023
        print(f"{name}: cases {first} to {last - 1}, {len(failing)} failing", flush=True)
        for seed, what in failing.items():
            print(f"  {seed}: {what}", flush=True)
        first = last


def tried(
    name: str, address: str, first: int, last: int
) -> tuple[dict[str, int], dict[int, str], int]:
    """How cases end, which fail and why, and the case to go on with; one worker tries them."""
    with tempfile.TemporaryDirectory(dir=_place()) as folder:
        progress = Progress(Path(folder) / "progress")
        command = [sys.executable, "-X", "faulthandler", "-m", "hostile.inputs", name, address]
        done = subprocess.run(
            [*command, str(first), str(last), folder],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        at, found = progress.read()
        failing = progress.failing()
    if done.returncode:
        if not progress.ready(at):
            raise RuntimeError(f"{name} could not be prepared: {done.stderr[-2000:]}")
        failing[at] = f"{_end(done.returncode)}: {' '.join(done.stderr[-300:].split())}"
        at += 1
    return found, failing, at


def _end(code: int) -> str:
    if -code == signal.SIGPROF:
        return f"took more than {MOST_SECONDS:g} s"
    if -code == signal.SIGALRM:
        return f"waited for more than {MOST_WAITING} s"
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"


class Progress:
    """What a worker has done, where it survives the worker.

    Args:
        file: memory that parent and worker share; beside it, what failed.
    """

    ENDS = ("refused", "taken", "not written")
    _LAYOUT = struct.Struct(f"<q{len(ENDS)}q")

    def __init__(self, file: Path) -> None:
        self._failing = file.with_suffix(".failing")
        if not file.exists():
            file.write_bytes(self._LAYOUT.pack(-1, *(0 for _ in self.ENDS)))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), 0)

    def read(self) -> tuple[int, dict[str, int]]:
        """The case under way, and how those before it ended."""
        at, *counts = self._LAYOUT.unpack(self._memory[: self._LAYOUT.size])
        return at, {end: n for end, n in zip(self.ENDS, counts, strict=True) if n}

    def ready(self, at: int) -> bool:
        """Whether any case was begun."""
        return at >= 0

    def at(self, seed: int, found: Counter[str]) -> None:
        """Notes the case that is begun."""
        counts = (found[end] for end in self.ENDS)
        self._memory[: self._LAYOUT.size] = self._LAYOUT.pack(seed, *counts)

    def fail(self, seed: int, what: str) -> None:
        """Notes what is wrong with a case."""
        with self._failing.open("a") as file:
            file.write(json.dumps([seed, what]) + "\n")

    def failing(self) -> dict[int, str]:
        """What was noted so."""
        lines = self._failing.read_text().splitlines() if self._failing.exists() else []
        return dict(map(json.loads, lines))


def _place() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


# The worker


def work(name: str, address: str, first: int, last: int, folder: Path) -> None:
    """Tries cases until a minute has passed, or one has taken too much memory."""
    progress, found = Progress(folder / "progress"), Counter[str]()
    case = prepared(address, folder / "honest")
    idle, until = peak(), time.monotonic() + SAVE_EVERY
    limit = _addresses() + MOST_ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    seed = first
    while seed < last and time.monotonic() < until and peak() - idle < MOST_MEMORY:
        progress.at(seed, found)
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)  # the signal ends the process
        signal.alarm(MOST_WAITING)
        try:
            ended = case(draws_of(name, seed))
            if peak() - idle >= MOST_MEMORY:
                raise MemoryError(f"took {(peak() - idle) >> 20} MiB")
            found[ended] += 1
        except Exception as error:
            progress.fail(seed, _told(error))
        seed += 1
    signal.setitimer(signal.ITIMER_PROF, 0)
    progress.at(seed, found)


def _told(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ""
    if trace is not None:
        where = f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}{where}"


def peak() -> int:
    """The most memory that this process ever had.

    Not ``ru_maxrss``, which begins with what the process that started this one had.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def _addresses() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    asked, where, start, end, own = sys.argv[1:]
    work(asked, where, int(start), int(end), Path(own))
