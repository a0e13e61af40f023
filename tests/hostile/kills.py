"""``kill -9`` of real processes at random moments, until the run ends as the undisturbed one did.

A life of a run is a ``feddep run`` with its workers; all of its processes are killed at once, at a
moment that the seed draws from the time that an undisturbed run takes. The next life resumes.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from feddep.runs.weight_files import read_arrays
from hostile.record import Record

RUNS = {"fedavg": 20, "feddep": 30}
SAME, KILLS = "the undisturbed result", "kills"
_LIVES = 3
_SETTINGS = (
    *("synthetic.nodes=400", "partition.clients=3", "training.rounds=6", "model.hidden=16"),
    *("embedding.epochs=3", "generator.epochs=2", "generator.refresh=2"),
)


class Run:
    """One run of a method, as often as it takes.

    Args:
        method: its method.
        folder: where runs go; the undisturbed one is made first.
    """

    def __init__(self, method: str, folder: Path) -> None:
        self.method, self.folder = method, folder
        began = time.monotonic()
        self._to_its_end(self._start("undisturbed"))
        self.seconds = time.monotonic() - began
        self.expected = result_of(folder / "undisturbed")

    def killed(self, seed: int) -> tuple[str, int]:
        """How the run ends whose first lives end at moments of this seed, and how many ended so."""
        draws, name, kills = random.Random(f"{self.method}/{seed}"), f"killed-{seed}", 0
        for life in range(_LIVES):
            process = self._start(name, resume=life > 0)
            try:
                process.wait(self.seconds * draws.random())
                break  # it was done before
            except subprocess.TimeoutExpired:
                kill(process)
                kills += 1
        self._to_its_end(self._start(name, resume=True))
        found = result_of(self.folder / name)
        shutil.rmtree(self.folder / name)
        if found != self.expected:
            return f"another result than undisturbed in {_differing(found, self.expected)}", kills
        return SAME, kills

    def _start(self, name: str, *, resume: bool = False) -> subprocess.Popen[bytes]:
        settings = [part for setting in _SETTINGS for part in ("--set", setting)]
        command = [sys.executable, "-m", "hostile.kills", "run", "--method", self.method]
        command += ["--out", str(self.folder / name), "--workers", "2", *settings]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, *(["--resume"] if resume else [])],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _to_its_end(self, process: subprocess.Popen[bytes]) -> None:
        if process.wait() != 0:
            logs = sorted(self.folder.glob("*.log"), key=lambda log: log.stat().st_mtime)
            raise RuntimeError(
                f"feddep run ended with {process.returncode}: {logs[-1].read_text()}"
            )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill -9 of a program and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def result_of(folder: Path) -> dict[str, Any]:
    """All of a finished run that must be the same again: everything but times."""
    record = json.loads((folder / "record.json").read_text())
    lines = map(json.loads, (folder / "history.jsonl").read_text().splitlines())
    names = sorted(str(f.relative_to(folder)) for f in folder.rglob("*.safetensors"))
    return {
        "record": {key: value for key, value in record.items() if key != "seconds"},
        "history": [{**line, "seconds": 0} for line in lines],
        **{name: plain(*read_arrays(folder / name)) for name in names},
    }


def plain(arrays: dict[str, Any], about: dict[str, str]) -> object:
    """The content of a file of arrays; their order in it is by chance."""
    return about, {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}


def _differing(one: dict[str, Any], other: dict[str, Any]) -> str:
    return ", ".join(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def campaign(method: str, record: Record, runs: int) -> None:
    """Tries the runs that were not tried yet, and again those that failed."""
    tally = record.tally("kills", method)
    if tally.tried >= runs and not tally.failing:
        return
    with tempfile.TemporaryDirectory() as folder:
        run = Run(method, Path(folder))
        for seed in map(int, tally.failing):
            if run.killed(seed)[0] == SAME:
                record.change("kills", method, lambda own, s=seed: own.note_again(s, SAME))
        for seed in range(tally.tried, runs):
            ended, kills = run.killed(seed)
            found, failing = ({SAME: 1}, {}) if ended == SAME else ({}, {seed: ended})
            noted = (found | {KILLS: kills}, failing, seed + 1)
            record.change("kills", method, lambda own, noted=noted: own.note(*noted))
            print(f"{method}: run {seed}, killed {kills} times: {ended}", flush=True)


def one(method: str, seed: int) -> str:
    """How one seed ends."""
    with tempfile.TemporaryDirectory() as folder:
        return Run(method, Path(folder)).killed(seed)[0]


if __name__ == "__main__":
    from feddep.cli.main import main
    from feddep.runs import journal

    journal.CHECKPOINT_SECONDS = 0.0  # one after every round, so that there is much to tear
    main()
