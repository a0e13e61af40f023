"""What a run between silos left, beside the same run on one machine."""

import json
import time
from pathlib import Path

import numpy as np
from cluster import Cluster, Program
from safetensors.numpy import load_file


def in_process(cluster: Cluster, spec: Path) -> Path:
    """The same run on one machine; one for each spec."""
    from feddep.runs.folder import RunFolder
    from feddep.runs.pipeline import run
    from feddep.scenario.build import build, resolve
    from feddep.scenario.spec import RunSpec, read_settings

    out = cluster.folder / f"here-{spec.stem}"
    if not out.exists():
        given = read_settings(spec)
        asked = resolve(RunSpec().with_settings(given), given)
        folder = RunFolder.claim(out, asked, resume=False)
        run(asked, build(asked), workers=1, folder=folder)
    return out


def assert_same(one: Path, other: Path) -> None:
    mine, theirs = (load_file(path / "model.safetensors") for path in (one, other))
    assert mine.keys() == theirs.keys()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    records = [json.loads((path / "record.json").read_text()) for path in (one, other)]
    assert records[0]["traffic"] == records[1]["traffic"]


def record_of(path: Path) -> dict:
    return json.loads((path / "record.json").read_text())


def wait_for_rounds(folder: Path, rounds: int, program: Program) -> None:
    """Until the history has so many rounds."""
    until = time.monotonic() + 300
    file = folder / "history.jsonl"
    while not file.exists() or len(file.read_text().splitlines()) < rounds:
        assert program.process.poll() is None, program.log.read_text()[-2000:]
        assert time.monotonic() < until
        time.sleep(0.05)
