"""FedDEP without prototypes: rows out, gradients back, every epoch."""

import functools

import numpy as np
import pytest
import torch

from agreement import assert_agree
from feddep.algorithms import find_method
from feddep.federation import messages
from feddep.phases import peer_search
from feddep.phases.peer_search import pull
from feddep.runs import pipeline
from small_runs import spec_of

EPOCHS, WIDTH, SLOTS = 3, 6, 2


def test_a_pull_is_the_gradient_of_the_squared_distance_to_the_nearest():
    embeddings = torch.tensor([[0.0, 0.0], [3.0, 3.0]])
    rows = np.array([[[1.0, 0.0], [2.0, 3.0]]], np.float32)
    assert pull(rows, embeddings).tolist() == [[[2.0, 0.0], [-2.0, 0.0]]]


def test_a_pull_agrees_with_autograd():
    rng = np.random.default_rng(0)
    embeddings = torch.tensor(rng.normal(size=(7, 4)), dtype=torch.float32)
    rows = torch.tensor(rng.normal(size=(5, 3, 4)), dtype=torch.float32, requires_grad=True)
    distances = torch.cdist(rows.reshape(15, 4), embeddings).square().amin(dim=1).sum()
    distances.backward()
    # 2 (row - nearest); autograd divides by a distance of four columns and multiplies by it.
    scale = 2 * (rows.detach().abs() + embeddings.abs().max())
    assert_agree(pull(rows.detach().numpy(), embeddings), rows.grad, terms=10, scale=scale)


@pytest.fixture(scope="module")
def result(small_shards):
    settings = {
        "training.rounds": 1,
        "embedding.width": WIDTH,
        "generator.epochs": EPOCHS,
        "generator.slots": SLOTS,
    }
    spec = spec_of(find_method("feddep-wo-proto"), small_shards, **settings)
    return pipeline.run(spec, small_shards, workers=1, device="cpu")


def test_every_epoch_costs_messages(result, small_shards):
    clients = small_shards.clients
    remaining = [graph.nodes - round(0.5 * graph.nodes) for graph in small_shards]
    rows = sum(remaining) * SLOTS * WIDTH * 4
    # Up: each client's rows, and a gradient for each row of each other client.
    up = EPOCHS * (rows + (clients - 1) * rows)
    assert result.traffic["phases"]["peer_search"]["up_bytes"] == up


def test_no_prototype_is_sent(result):
    assert "prototype_exchange" not in result.traffic["phases"]


def test_rows_that_do_not_fit_into_one_request_come_in_several(result, small_shards, monkeypatch):
    """A client that sends many rows does not push the others' requests over the limit."""
    one_by_one = functools.partial(messages.in_batches, room=1)
    monkeypatch.setattr(peer_search, "in_batches", one_by_one)
    again = pipeline.run(result.spec, small_shards, workers=1, device="cpu")
    assert again.record["scores"] == result.record["scores"]
    assert again.traffic["phases"]["peer_search"] == result.traffic["phases"]["peer_search"]
