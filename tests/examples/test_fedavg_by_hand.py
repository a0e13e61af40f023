import runpy
from pathlib import Path

import torch

import feddep
from agreement import assert_weights_agree, rounds_terms
from feddep.algorithms import find_method
from feddep.federation.messages import group
from feddep.federation.run_phases import Progress, run_phases
from feddep.runtime.inprocess import InProcess
from feddep.scenario.build import learning_spec_for
from feddep.scenario.spec import RunSpec

EXAMPLE = Path(__file__).parents[2] / "examples" / "fedavg_by_hand.py"


def test_the_plain_loops_give_the_package_s_weights():
    fedavg = runpy.run_path(str(EXAMPLE))["fedavg"]
    shards = feddep.partition(feddep.load("synthetic", nodes=200), clients=3)
    spec = RunSpec().with_settings({"training.rounds": 2, "partition.clients": 3})
    method = find_method("fedavg")
    learning = learning_spec_for(spec, shards.graph, method)
    with InProcess(shards, method, learning, workers=1) as runtime:
        end = run_phases(
            method.phases, learning, runtime.clients, runtime, Progress(), lambda *_: None
        )
        threads = torch.get_num_threads()
        by_hand = fedavg(shards, rounds=2)
        assert threads == 1
    nodes = max(len(graph.members(feddep.Part.TRAIN)) for graph in shards)
    package = group(end.state, "classifier")
    assert_weights_agree(by_hand, package, terms=rounds_terms(learning, nodes, rounds=2))
