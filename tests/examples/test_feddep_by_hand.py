import runpy
from pathlib import Path

import numpy as np
import pytest

import feddep
from agreement import assert_weights_agree, rounds_terms
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
    # More epochs, and rounding decides which prototype is the nearest and which row is kept.
    settings = {"training.rounds": 2, "partition.clients": 3, "generator.epochs": 2}
    spec = RunSpec().with_settings(settings)
    method = find_method("feddep")
    learning = learning_spec_for(spec, shards.graph, method)
    with InProcess(shards, method, learning, workers=1) as runtime:
        end = run_phases(
            method.phases, learning, runtime.clients, runtime, Progress(), lambda *_: None
        )
        nodes = max(len(graph.members(feddep.Part.TRAIN)) for graph in shards)
        terms = rounds_terms(learning, nodes, rounds=2)
        return by_hand(shards, rounds=2, epochs=2), group(end.state, "classifier"), terms


def test_the_plain_loops_give_the_package_s_weights(both):
    by_hand, package, terms = both
    assert_weights_agree(by_hand, package, terms=terms)


def test_the_embeddings_part_has_learnt_something(both):
    assert all(np.abs(array).max() > 1e-4 for name, array in both[1].items() if "embedding" in name)
