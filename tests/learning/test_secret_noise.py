"""A real silo's noise comes from its secret, through a cipher, and from nothing else."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from feddep.federation.messages import Request, group, grouped
from feddep.graph.graph import Part
from feddep.learning.local_gnn import train_local_gnn
from feddep.learning.private_training import inner_lists
from feddep.learning.prototypes import EmbeddingSpec
from feddep.learning.silo import Secret, open_silo
from feddep.learning.updates import noised_update
from feddep.models.weights import to_arrays
from feddep.phases.averaging import Averaging
from feddep.phases.code_graph import CodeGraph
from feddep.privacy.spec import PrivacySpec
from feddep.seeding import Seeds

CPU = torch.device("cpu")
CAPPED = PrivacySpec(mechanism="dp-sgd", occurrences=1, noise=2.0)
PERTURBING = (
    PrivacySpec(mechanism="randomised-response", epsilon=2.0),
    PrivacySpec(mechanism="randomised-response", epsilon=2.0, keep_edge=0.3),
    PrivacySpec(mechanism="one-shot"),
)


@pytest.fixture
def graph(small_graph):
    return small_graph.with_split(np.full(small_graph.nodes, Part.TRAIN))


@pytest.fixture
def no_pcg64(monkeypatch):
    def refuse(*_args):
        raise AssertionError("numpy's generator was made")

    for name in ("default_rng", "PCG64", "Generator"):
        monkeypatch.setattr(np.random, name, refuse)


def silo(graph, spec, privacy, secret=7, run="run"):
    return open_silo(0, graph, replace(spec, privacy=privacy), CPU, Secret(secret, run))


def trained(own, weights):
    request = Request(0, "averaging", "train", 0, grouped("classifier", weights))
    reply, _ = Averaging().answer(request, {}, own)
    return group(reply.arrays, "classifier")


@pytest.mark.usefixtures("no_pcg64")
@pytest.mark.parametrize("privacy", PERTURBING)
def test_flips_and_samples_of_the_graph_are_drawn_without_pcg64(small_graph, small_spec, privacy):
    spec = replace(small_spec, training=replace(small_spec.training, fanout=2))
    found = silo(small_graph, spec, privacy).graph
    assert not np.array_equal(found.indices, small_graph.indices)


def test_capped_dp_sgd_is_trained_without_pcg64(graph, small_spec, request):
    weights = to_arrays(small_spec.classifier())
    request.getfixturevalue("no_pcg64")
    own = silo(graph, small_spec, CAPPED)
    inner_lists(own)
    assert not np.array_equal(trained(own, weights)["bias"], weights["bias"])


def test_dp_sgd_on_a_local_gnn_draws_from_the_public_seed_at_most_its_start(
    graph, small_spec, monkeypatch
):
    stream = Seeds.stream

    def public(self, *names):
        assert self.root == small_spec.seed, f"{names} was drawn by numpy from a secret"
        return stream(self, *names)

    monkeypatch.setattr(Seeds, "stream", public)
    spec = replace(small_spec, embedding=EmbeddingSpec(epochs=1, shared_start=True))
    train_local_gnn(silo(graph, spec, CAPPED))


@pytest.mark.usefixtures("no_pcg64")
def test_codes_and_updates_are_noised_without_pcg64(small_graph, small_spec):
    own = silo(small_graph, small_spec, PrivacySpec())
    embeddings = np.zeros((small_graph.nodes, 4), np.float32)
    request = Request(0, "code_graph", "show", 0)
    codes = CodeGraph().answer(request, {"embeddings": embeddings}, own)[0].arrays["codes"]
    assert codes.std() > 0
    before = {"w": np.zeros(100, np.float32)}
    rng = own.noise(own.seeds, "update", before)
    found = noised_update(before, before, clip=1.0, noise=1.0, rng=rng)
    assert found["w"].std() == pytest.approx(1, rel=0.3)


@pytest.mark.parametrize("privacy", PERTURBING[:2])
def test_flips_follow_the_secret_and_not_the_run(small_graph, small_spec, privacy):
    def flips(secret=7, run="run", seed=0):
        own = silo(small_graph, replace(small_spec, seed=seed), privacy, secret, run)
        return own.graph.edge_list().tolist()

    assert flips() == flips(run="other", seed=1)
    assert flips() != flips(secret=8)


def test_noise_on_gradients_follows_secret_run_and_data(graph, small_spec):
    weights = to_arrays(small_spec.classifier())
    other_features = replace(graph, features=graph.features * np.float32(2))
    other_labels = replace(graph, labels=(graph.labels + 1) % 3)
    silos = [
        silo(graph, small_spec, CAPPED),
        silo(graph, small_spec, CAPPED, secret=8),
        silo(graph, small_spec, CAPPED, run="other"),
        silo(other_features, small_spec, CAPPED),
        silo(other_labels, small_spec, CAPPED),
    ]
    again = silo(graph, small_spec, CAPPED)
    assert len({own.mechanism(own.seeds, "dp-sgd").key for own in silos}) == len(silos)
    first, same = trained(silos[0], weights), trained(again, weights)
    assert all(np.array_equal(first[name], same[name]) for name in first)
