"""Some clients in one process."""

import numpy as np
import pytest
import torch

from feddep.algorithms import METHODS
from feddep.errors import InputError
from feddep.federation.messages import Request, group, grouped
from feddep.learning.evaluation import Scores, score
from feddep.models.kernels import FeatureTable
from feddep.models.weights import to_arrays
from feddep.runtime.client_pool import ClientPool, choose_device, warm_up

CPU = torch.device("cpu")


@pytest.fixture
def pool(small_shards, small_spec):
    """Clients 0 and 2 of the method ``local``; counts how often the whole graph is loaded."""
    graphs = {client: small_shards[client] for client in (2, 0)}
    pool = ClientPool(METHODS["local"], small_spec, CPU, graphs, lambda: loaded())
    pool.loads = 0

    def loaded():
        pool.loads += 1
        return small_shards.graph

    return pool


def train(client, round_=0):
    return Request(client, "local_training", "train", round_)


def test_every_client_has_a_memory_of_its_own(pool):
    assert pool.states == {0: {}, 2: {}}
    first, second = pool.handle([train(2), train(0)])
    assert (first.client, second.client) == (2, 0)
    one, other = (group(pool.states[c], "classifier") for c in (0, 2))
    assert not np.array_equal(one["features"], other["features"])


def test_a_client_goes_on_from_its_memory(pool):
    pool.handle([train(0)])
    pool.handle([train(0, 1)])
    twice = pool.states[0]
    pool.states[0] = {}
    pool.handle([train(0), train(0, 1)])
    assert np.array_equal(pool.states[0]["classifier/features"], twice["classifier/features"])
    assert pool.states[2] == {}


def test_a_client_that_is_elsewhere_is_not_answered_for(pool):
    with pytest.raises(KeyError):
        pool.handle([train(1)])


def test_a_classifier_is_scored_on_the_whole_graph(pool, small_shards, small_spec):
    graph = small_shards.graph
    weights = to_arrays(small_spec.classifier())
    expected = score(small_spec.classifier(), graph, FeatureTable(graph.features, CPU))
    assert pool.score(weights) == expected
    assert expected.val_total + expected.test_total > 40


def test_the_whole_graph_is_loaded_once_and_only_to_measure(pool, small_spec):
    pool.handle([train(0)])
    assert pool.loads == 0
    for _ in range(2):
        pool.score(to_arrays(small_spec.classifier()))
    assert pool.loads == 1


def test_own_classifiers_are_scored_in_the_clients_order(pool, small_spec):
    weights = to_arrays(small_spec.classifier())
    other = {name: array[..., ::-1].copy() for name, array in weights.items()}
    pool.states = {2: grouped("classifier", other), 0: grouped("classifier", weights)}
    found = pool.score_own()
    assert found == [pool.score(weights), pool.score(other)]
    assert found[0] != found[1]
    assert all(isinstance(scores, Scores) for scores in found)


def test_memories_can_be_given_from_the_start(small_shards, small_spec):
    states = {0: {"kept": np.ones(1)}}
    graphs = {0: small_shards[0], 1: small_shards[1]}
    pool = ClientPool(METHODS["local"], small_spec, CPU, graphs, lambda: small_shards.graph, states)
    assert set(pool.states[0]) == {"kept"}
    assert pool.states[1] == {}


@pytest.mark.parametrize(
    ("name", "available", "chosen"),
    [("cpu", True, "cpu"), ("cpu", False, "cpu"), ("auto", False, "cpu"), ("auto", True, "cuda")],
)
def test_the_device(monkeypatch, name, available, chosen):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert choose_device(name).type == chosen


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="torch finds no CUDA device; use cpu"):
        choose_device("cuda")
    with pytest.raises(InputError, match=r"auto, cpu or cuda \(got 'tpu'\)"):
        choose_device("tpu")


def test_warming_up_draws_nothing_from_anybody_s_stream():
    before = torch.get_rng_state()
    warm_up(CPU)
    assert torch.equal(before, torch.get_rng_state())
