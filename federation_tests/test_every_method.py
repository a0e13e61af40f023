"""Every federated method on Flower, two rounds: weights and bytes as in process.

Starting Ray takes longer than all the runs, so it is started once; a cluster is also what a
simulation on several machines runs on.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from feddep.algorithms import METHODS
from feddep.experiments.pipeline import run
from feddep.experiments.records import without_times
from feddep.scenario.build import build, resolve
from feddep.scenario.spec import RunSpec

pytest.importorskip("ray", reason="the simulation needs feddep[flower-sim]")

FEDERATED = [name for name in METHODS if name not in ("global", "oracle")]
GIVEN = {
    "preset": "paper",
    "partition.clients": 3,
    "model.hidden": 16,
    "training.rounds": 2,
    "embedding.epochs": 3,
    "embedding.width": 16,
    "generator.epochs": 2,
}


@pytest.fixture(scope="module")
def cluster():
    ray = str(Path(sys.executable).with_name("ray"))
    start = ("start", "--head", "--port=0", "--num-cpus=2", "--include-dashboard=false")
    started = subprocess.run([ray, *start], capture_output=True, text=True, check=True)
    address = next(
        word.split("'")[1] for word in started.stdout.split() if word.startswith("--address='")
    )
    yield address
    subprocess.run([ray, "stop", "--force"], capture_output=True, check=False)


@pytest.mark.parametrize("method", FEDERATED)
def test_as_in_process(cluster, method, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster)
    from feddep.deployment.simulation import run_simulated

    given = {**GIVEN, "method": method}
    spec = resolve(RunSpec().with_settings(given), given)
    shards = build(spec)
    here, there = run(spec, shards, workers=1), run_simulated(spec, shards)
    assert there.record["traffic"] == here.record["traffic"]
    assert there.record["scores"]["silo"] == here.record["scores"]["silo"]
    if method == "local":  # whose classifiers stay with the silos
        return
    assert without_times(there.record) == without_times(here.record)
    mine, theirs = here.model.weights, there.model.weights
    assert mine.keys() == theirs.keys()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
