import runpy
from pathlib import Path

import numpy as np
import pytest

import feddep
from feddep.algorithms import find_method
from feddep.federation.messages import group
from feddep.federation.run_phases import Progress, run_phases
from feddep.runtime.inprocess import InProcess
from feddep.scenario.build import learning_spec_for
from feddep.scenario.spec import RunSpec

EXAMPLE = Path(__file__).parents[2] / "examples" / "feddep_by_hand.py"


def test_it_fits_on_a_page():
    assert len(EXAMPLE.read_text().splitlines()) < 200


@pytest.fixture(scope="module")
def both():
    by_hand = runpy.run_path(str(EXAMPLE))["feddep_by_hand"]
    shards = feddep.partition(feddep.load("synthetic", nodes=200), clients=3)
    spec = RunSpec().with_settings({"training.rounds": 2, "partition.clients": 3})
    method = find_method("feddep")
    learning = learning_spec_for(spec, shards.graph, method)
    with InProcess(shards, method, learning, workers=1) as runtime:
        end = run_phases(
            method.phases, learning, runtime.clients, runtime, Progress(), lambda *_: None
        )
        return by_hand(shards, rounds=2), group(end.state, "classifier")


def test_the_plain_loops_give_the_package_s_weights(both):
    by_hand, package = both
    assert by_hand.keys() == package.keys()
    for name, array in by_hand.items():
        np.testing.assert_allclose(array, package[name], atol=1e-5, rtol=0, err_msg=name)


def test_the_embeddings_part_has_learnt_something(both):
    assert all(np.abs(array).max() > 1e-4 for name, array in both[1].items() if "embedding" in name)
