"""``feddep run --runtime flower-sim`` without Ray: what it is given, and what it gives."""

import pytest
from direct_channel import DirectChannel, services
from envelopes import SMALL

from feddep.deployment.protocol import simulation
from feddep.deployment.protocol.simulation import CLUSTER, check_can_run, run_simulated
from feddep.errors import InputError
from feddep.graph.shard import read_shards
from feddep.scenario.spec import RunSpec

SPEC = RunSpec().with_settings({**SMALL, "method": "fedavg", "training.rounds": 1})


def test_every_client_is_a_node(small_shards, monkeypatch):
    told = {}

    def simulate(main, folder, silos, cores, address):
        told.update(silos=silos, cores=cores, address=address, folder=folder)
        assert read_shards(folder).clients == 3
        main(None)

    monkeypatch.setattr(simulation, "simulated_app", lambda folder: folder)
    monkeypatch.setenv(CLUSTER, "10.0.0.1:6379")
    monkeypatch.setattr(simulation, "simulate", simulate)
    monkeypatch.setattr(
        simulation, "FlowerChannel", lambda grid: DirectChannel(services(small_shards))
    )
    result = run_simulated(SPEC, small_shards, workers=2)
    assert result.record["scores"]["global"]["test"] is not None, "the whole graph is known here"
    assert "federation" not in result.record
    folder = told.pop("folder")
    assert told == {"silos": 3, "cores": 2, "address": "10.0.0.1:6379"}
    assert not folder.exists()


@pytest.mark.parametrize("method", ["global", "oracle"])
def test_what_is_no_federation_is_refused_beforehand(method):
    with pytest.raises(InputError, match="cannot run on Flower"):
        check_can_run(method)
