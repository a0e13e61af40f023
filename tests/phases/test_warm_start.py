"""The classifier may start from the average of the local GNNs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agreement import agreeing, assert_agree
from feddep.algorithms import find_method
from feddep.federation.client import Client
from feddep.federation.messages import group
from feddep.federation.metering import Meter
from feddep.federation.phase import Ask
from feddep.graph.graph import Part
from feddep.learning.local_gnn import local_embeddings
from feddep.learning.prototypes import EmbeddingSpec
from feddep.learning.silo import Silo
from feddep.models.weights import to_arrays
from feddep.phases.averaging import Averaging
from feddep.phases.local_gnn import LocalGnnTraining

PHASE = LocalGnnTraining()
METHOD = find_method("feddep")
WIDTH = 6
MEAN = {"terms": 4, "scale": 1}  # of three clients' weights, none above 1


class Conversation:
    """The phase's one round: the server's memory after it, the clients', and the traffic."""

    def __init__(self, shards, learning, method=METHOD, **embedding):
        spec = EmbeddingSpec(**{"width": WIDTH, "epochs": 1} | embedding)
        self.spec = replace(learning, embedding=spec, fusion=method.fusion)
        self.silos = [Silo(i, g, self.spec, torch.device("cpu")) for i, g in enumerate(shards)]
        nodes = [Client(silo, method.phases, silo.spec) for silo in self.silos]
        self.states, self.replies = [{} for _ in self.silos], []

        def exchange(requests):
            replies = []
            for request in requests:
                client = request.client
                reply, self.states[client] = nodes[client].handle(request, self.states[client])
                replies.append(reply)
            self.replies += replies
            return replies

        self.meter = Meter(type("Clients", (), {"exchange": staticmethod(exchange)})())
        ask = Ask(len(self.silos), PHASE.name, 0, self.meter.exchange)
        self.state, self.report = PHASE.serve(self.spec, ask, {"known": np.ones(1)})

    def mean(self, name):
        """Of the local GNNs' weights, by training nodes."""
        counts = [len(silo.graph.members(Part.TRAIN)) for silo in self.silos]
        weights = [local_embeddings(silo)[1][name].astype(float) for silo in self.silos]
        return np.average(weights, axis=0, weights=counts)


@pytest.fixture(scope="module")
def warm(small_shards, small_spec):
    return Conversation(small_shards, small_spec, warm_start=True)


SHARED = [
    "features",
    "bias",
    "convolutions.0.neighbours",
    "convolutions.0.own",
    "convolutions.0.bias",
]


def test_what_both_have_is_the_mean_weighted_by_training_nodes(warm):
    start = group(warm.state, "classifier")
    initial = to_arrays(warm.spec.classifier())
    assert {len(silo.graph.members(Part.TRAIN)) for silo in warm.silos} != {0}
    for name in SHARED:
        assert_agree(start[name], warm.mean(name), **MEAN, name=name)
        assert not agreeing(start[name], initial[name], **MEAN).all(), name


def test_everything_else_starts_as_ever(warm):
    start, initial = group(warm.state, "classifier"), to_arrays(warm.spec.classifier())
    assert start.keys() == initial.keys()
    others = initial.keys() - set(SHARED)
    assert "embedding" in others
    assert {name for name in others if name.startswith("convolutions.1.")}
    assert all(np.array_equal(start[name], initial[name]) for name in others)


def test_the_last_convolution_is_not_shared_even_if_it_happens_to_fit(small_shards, small_spec):
    classes = small_spec.classes
    found = Conversation(small_shards, small_spec, warm_start=True, width=classes)
    start = group(found.state, "classifier")
    name = "convolutions.1.neighbours"
    assert local_embeddings(found.silos[0])[1][name].shape == start[name].shape
    assert np.array_equal(start[name], to_arrays(found.spec.classifier())[name])


def test_what_has_another_shape_is_not_shared(small_shards, small_spec):
    # One convolution of the local GNN, to width 6, where F has one from 8 to 8.
    found = Conversation(small_shards, small_spec, warm_start=True, depth=1)
    start, initial = group(found.state, "classifier"), to_arrays(found.spec.classifier())
    changed = {name for name in initial if not np.array_equal(start[name], initial[name])}
    assert changed == {"features", "bias"}
    assert_agree(start["features"], found.mean("features"), **MEAN)


def test_only_the_shared_weights_are_sent(warm):
    sizes = {name: a.nbytes for name, a in group(warm.state, "classifier").items()}
    up = len(warm.silos) * sum(sizes[name] for name in SHARED)
    assert warm.meter.counts() == {"local_gnn": {"up_bytes": up, "down_bytes": 0}}


def test_averaging_goes_on_from_there(warm):
    sent = []

    def send(requests):
        sent.extend(requests)
        raise StopIteration

    with pytest.raises(StopIteration):
        Averaging().serve(warm.spec, Ask(3, "averaging", 0, send), warm.state)
    start = group(warm.state, "classifier")
    for request in sent:
        arrays = group(request.arrays, "classifier")
        assert all(np.array_equal(arrays[name], start[name]) for name in start)


def test_embeddings_are_the_same_with_and_without(warm, small_shards, small_spec):
    cold = Conversation(small_shards, small_spec)
    for one, other in zip(warm.states, cold.states, strict=True):
        assert np.array_equal(one["embeddings"], other["embeddings"])


def test_by_default_nothing_is_sent_and_the_server_learns_nothing(small_shards, small_spec):
    cold = Conversation(small_shards, small_spec)
    assert cold.state.keys() == {"known"}
    assert all(not reply.arrays and not reply.metrics for reply in cold.replies)
    assert cold.meter.counts() == {"local_gnn": {"up_bytes": 0, "down_bytes": 0}}


def test_without_a_local_gnn_there_is_nothing_to_start_from(small_shards, small_spec):
    found = Conversation(small_shards, small_spec, warm_start=True, depth=0)
    assert found.state.keys() == {"known"}
    assert not any(reply.arrays for reply in found.replies)
