"""Pseudo-FL, proved from the traffic record."""

from types import SimpleNamespace

import numpy as np
import pytest

from feddep.algorithms import find_method
from feddep.runs import pipeline
from small_runs import carry_out, pool_of, spec_of

CLUSTERS, WIDTH = 4, 6


@pytest.fixture(scope="module")
def result(small_shards):
    settings = {"embedding.clusters": CLUSTERS, "embedding.width": WIDTH}
    spec = spec_of(find_method("feddep"), small_shards, **settings)
    return pipeline.run(spec, small_shards, workers=1, device="cpu")


def test_prototypes_go_up_once_and_nothing_else_before_the_averaging_rounds(result, small_shards):
    phases = result.traffic["phases"]
    clients = small_shards.clients
    assert list(phases) == ["local_gnn", "prototype_exchange", "generator_training", "averaging"]
    up = clients * CLUSTERS * WIDTH * 4
    assert 0 < phases["prototype_exchange"]["up_bytes"] <= up
    assert phases["prototype_exchange"]["down_bytes"] <= (clients - 1) * up
    for silent in ("local_gnn", "generator_training"):
        assert phases[silent] == {"up_bytes": 0, "down_bytes": 0}


def test_averaging_sends_the_classifier_and_nothing_else(result, small_shards):
    weights = result.model.weights
    size = sum(array.nbytes for array in weights.values())
    rounds = result.record["rounds"]
    assert result.traffic["phases"]["averaging"] == {
        "up_bytes": small_shards.clients * rounds * size,
        "down_bytes": small_shards.clients * (rounds + 1) * size,
    }


def test_every_client_has_a_generator_of_its_own(result, small_shards, tmp_path):
    assert len(result.generators) == small_shards.clients
    first, second = (generator["rows"] for generator in result.generators[:2])
    assert not np.array_equal(first, second)
    result.save(tmp_path / "run")
    stored = sorted((tmp_path / "run/clients").glob("*/generator.safetensors"))
    assert len(stored) == small_shards.clients


def test_the_method_declares_what_leaves_a_client():
    assert find_method("feddep").discloses == {"prototypes", "classifier"}


def test_clients_of_one_process_hold_what_they_were_sent_once(small_shards):
    pool = pool_of(find_method("feddep"), small_shards)
    carry_out(pool, small_shards, pool_as_transport(pool))
    states = [pool.states[client] for client in range(small_shards.clients)]
    assert states[0]["foreign/2"] is states[1]["foreign/2"]
    assert not np.shares_memory(states[0]["foreign/2"], states[2]["prototypes"])


def pool_as_transport(pool):
    return SimpleNamespace(exchange=pool.handle)
