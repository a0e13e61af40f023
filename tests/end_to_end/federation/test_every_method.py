"""Every federated method on Flower, two rounds: weights and bytes as in process."""

from importlib.util import find_spec

import numpy as np
import pytest

from feddep.algorithms import METHODS
from feddep.runs.pipeline import run
from feddep.runs.prediction import averaging_of
from feddep.runs.records import without_times
from feddep.scenario.build import build, resolve
from feddep.scenario.spec import RunSpec
from missing import RAY

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason=RAY)

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


@pytest.mark.parametrize("method", FEDERATED)
def test_as_in_process(method):
    from feddep.deployment.protocol.simulation import run_simulated

    links = {"partition.links": "known"} if METHODS[method].linked else {}
    given = {**GIVEN, **links, "method": method}
    spec = resolve(RunSpec().with_settings(given), given)
    shards = build(spec)
    here, there = run(spec, shards, workers=1), run_simulated(spec, shards)
    assert there.record["traffic"] == here.record["traffic"]
    assert there.record["scores"]["silo"] == here.record["scores"]["silo"]
    if method == "local":  # whose classifiers stay with the silos
        return
    unknown = without_times(here.record) | {"generation": None}  # the silos keep their memories
    if averaging_of(METHODS[method]).mender is not None:
        unknown["measures"] = None
    assert without_times(there.record) == unknown
    mine, theirs = here.model.weights, there.model.weights
    assert mine.keys() == theirs.keys()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
