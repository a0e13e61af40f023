"""What all clients agree on, and what one of them works with."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from feddep.errors import InputError
from feddep.learning.silo import Secret, Silo, open_silo
from feddep.learning.spec import LearningSpec
from feddep.models.weights import to_arrays
from feddep.privacy.spec import PrivacySpec

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def silos(small_shards, small_spec):
    return [Silo(i, graph, small_spec, CPU) for i, graph in enumerate(small_shards)]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_all_parties_start_from_the_same_weights(silos, small_spec):
    for silo in silos:
        assert same(silo.classifier(), small_spec.classifier())


def test_the_seed_decides_the_initial_weights(small_spec):
    other = replace(small_spec, seed=1)
    assert not same(small_spec.classifier(), other.classifier())


def test_every_classifier_is_a_new_one(small_spec):
    one, other = small_spec.classifier(), small_spec.classifier()
    with torch.no_grad():
        one.features.zero_()
    assert not (other.features == 0).any()


def test_given_weights_are_taken(silos, small_spec):
    weights = {name: a + 1 for name, a in to_arrays(small_spec.classifier()).items()}
    found = to_arrays(silos[0].classifier(weights))
    assert all(np.array_equal(found[name], weights[name]) for name in weights)


def test_no_weights_at_all_are_refused_and_not_taken_for_the_initial_ones(small_spec):
    with pytest.raises(InputError, match="expected weights"):
        small_spec.classifier({})


def test_the_shape_follows_the_model_spec(small_spec):
    spec = replace(small_spec.model, hidden=5, layers=3, form="closed")
    shapes = {
        name: array.shape
        for name, array in to_arrays(replace(small_spec, model=spec).classifier()).items()
    }
    assert shapes["features"] == (60, 5)
    assert shapes["convolutions.0.neighbours"] == shapes["convolutions.1.neighbours"] == (5, 5)
    assert shapes["convolutions.2.neighbours"] == (5, 3)


def test_every_party_has_random_streams_of_its_own(silos):
    assert len({silo.seeds.integer("sampling") for silo in silos}) == len(silos)


def test_streams_depend_on_the_run_s_seed(silos, small_spec):
    other = Silo(0, silos[0].graph, replace(small_spec, seed=1), CPU)
    assert other.seeds.integer("sampling") != silos[0].seeds.integer("sampling")


def test_labels_and_features_are_those_of_the_graph(silos):
    silo = silos[1]
    assert silo.labels.tolist() == silo.graph.labels.tolist()
    identity = torch.eye(60)
    rows = silo.table.times(np.arange(silo.graph.nodes), identity)
    assert np.array_equal(rows, silo.graph.features.toarray())


def noisy_silo(graph, secret, epsilon=1.0):
    spec = LearningSpec(
        features=graph.feature_count,
        classes=graph.classes,
        privacy=PrivacySpec(mechanism="randomised-response", epsilon=epsilon),
    )
    return open_silo(0, graph, spec, torch.device("cpu"), secret)


def test_a_secret_perturbs_the_same_graph_alike_in_every_run_and_draws_all_else_anew(small_graph):
    one, other = (noisy_silo(small_graph, Secret(7, run)) for run in ("first", "second"))
    assert np.array_equal(one.graph.indices, other.graph.indices)
    assert one.seeds.integer("x") != other.seeds.integer("x")


def test_another_secret_epsilon_or_graph_has_noise_of_its_own(small_graph):
    secret = Secret(7, "run")
    spec = noisy_silo(small_graph, secret).spec
    fewer = small_graph.subgraph(np.arange(small_graph.nodes - 1))
    draws = {
        secret.for_graph(small_graph, spec).random(1)[0],
        Secret(8, "run").for_graph(small_graph, spec).random(1)[0],
        secret.for_graph(fewer, spec).random(1)[0],
        secret.for_graph(small_graph, noisy_silo(small_graph, secret, 2.0).spec).random(1)[0],
    }
    assert len(draws) == 4


def test_the_same_run_s_name_with_another_spec_is_another_run(small_graph):
    one, other = (noisy_silo(small_graph, Secret(7, "run"), e) for e in (1.0, 2.0))
    assert one.seeds.integer("x") != other.seeds.integer("x")


def test_with_a_secret_other_content_gets_other_noise(small_graph, small_spec):
    content = {"a": np.zeros(3, np.float32)}
    more = {"a": np.ones(3, np.float32)}
    for secret, differ in ((Secret(7, "run"), True), (None, False)):
        silo = open_silo(0, small_graph, small_spec, CPU, secret)
        draws = [silo.noise(silo.seeds, "n", what).random(4) for what in (content, content, more)]
        assert np.array_equal(draws[0], draws[1])
        assert np.array_equal(draws[0], draws[2]) is not differ
