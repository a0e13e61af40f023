"""Mini-batch training on one silo."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import cross_entropy

from agreement import assert_agree, assert_weights_agree, rounds_terms, training_terms
from feddep.errors import InputError
from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import whole_graph
from feddep.learning.evaluation import predict
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec, TrainingSpec
from feddep.learning.trainer import descend, train
from feddep.models.sage import ModelSpec
from feddep.models.sgd import SageSgd
from feddep.models.weights import to_arrays
from feddep.privacy.spec import PrivacySpec
from feddep.seeding import Seeds

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def silo(small_shards, small_spec):
    return Silo(0, small_shards[0], small_spec, CPU)


def trained(silo, seed=0, rounds=1):
    """The weights after some rounds, and the losses."""
    model = silo.classifier()
    losses = [train(model, silo, Seeds(seed).child(r)) for r in range(rounds)]
    return to_arrays(model), losses


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one | other)


def with_training(silo, **changes):
    spec = replace(silo.spec.training, **changes)
    return Silo(silo.client, silo.graph, replace(silo.spec, training=spec), CPU)


def lonely_silo(**training):
    """Four nodes without edges: nothing is left to chance but the order, and one batch has none."""
    split = [Part.TRAIN, Part.TRAIN, Part.VAL, Part.TRAIN]
    features = sp.csr_array([[1, 0, 2], [0, 1, 0], [5, 5, 5], [1, 1, 0]])
    graph = Graph.from_edges([], features, [0, 1, 1, 0], split=split)
    spec = LearningSpec(
        features=3,
        classes=2,
        model=ModelSpec(hidden=4, dropout=0),
        training=TrainingSpec(**training),
    )
    return Silo(0, graph, spec, CPU)


def test_one_batch_is_one_step_down_the_gradient():
    silo = lonely_silo(learning_rate=0.3, weight_decay=0.01)
    model = silo.classifier()
    scores = model(silo.table, whole_graph(silo.graph, 2))[[0, 1, 3]]
    loss = cross_entropy(scores, torch.tensor([0, 1, 0]))
    loss.backward()
    expected = {
        name: (p - 0.3 * (p.grad + 0.01 * p)).detach().numpy()
        for name, p in model.named_parameters()
    }
    weights, losses = trained(silo)
    terms = training_terms(model, degree=0, batch=3)
    assert_agree(losses, [loss.item()], terms=terms, precision=np.float32)
    assert_weights_agree(weights, expected, terms=terms)


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_a_step_is_that_of_torch_s_own_sgd(decay):
    rng = np.random.default_rng(0)
    ours, theirs = ([torch.nn.Parameter(torch.ones(20, 5))] for _ in range(2))
    optimiser = torch.optim.SGD(theirs, lr=0.1, weight_decay=decay)
    for _ in range(5):
        gradient = torch.tensor(rng.standard_normal((20, 5)), dtype=torch.float32)
        descend(ours, [gradient], 0.1, decay)
        theirs[0].grad = gradient
        optimiser.step()
    assert torch.equal(ours[0], theirs[0])


def test_the_loss_is_the_mean_over_nodes_whatever_the_batches():
    # A learning rate of next to nothing: every batch meets the same weights.
    silos = [lonely_silo(learning_rate=1e-12, batch_size=size) for size in (1, 2, 3)]
    losses = [trained(silo)[1][0] for silo in silos]
    terms = training_terms(silos[0].classifier(), degree=0, batch=3)
    assert_agree(losses, losses[0], terms=terms, precision=np.float32)


def test_training_reduces_the_loss(silo):
    _, losses = trained(with_training(silo, learning_rate=0.3), rounds=15)
    assert np.mean(losses[-3:]) < 0.8 * np.mean(losses[:3])


def test_the_same_streams_give_the_same_weights(silo):
    one, same_again, other = (trained(silo, seed)[0] for seed in (1, 1, 2))
    assert same(one, same_again)
    assert not same(one, other)


def test_units_are_dropped_in_training(silo):
    plain = replace(silo.spec, model=replace(silo.spec.model, dropout=0))
    without = Silo(silo.client, silo.graph, plain, CPU)
    assert not same(trained(silo)[0], trained(without)[0])


def test_other_random_draws_in_between_change_nothing(silo):
    before, _ = trained(silo)
    torch.manual_seed(1)
    torch.rand(5)
    np.random.default_rng().random(5)
    assert same(before, trained(silo)[0])


@pytest.mark.parametrize(("size", "epochs"), [(16, 1), (100, 1), (7, 3), (1, 1)])
def test_every_training_node_once_in_each_epoch(silo, monkeypatch, size, epochs):
    nodes = silo.graph.members(Part.TRAIN)
    seen = []
    step = SageSgd.step

    def counting(self, ego):
        seen.append(ego.targets)
        return step(self, ego)

    monkeypatch.setattr(SageSgd, "step", counting)
    trained(with_training(silo, batch_size=size, local_epochs=epochs))
    assert len(seen) == epochs * math.ceil(len(nodes) / size)
    counts = np.bincount(np.concatenate(seen), minlength=silo.graph.nodes)
    assert (counts[nodes] == epochs).all()
    assert counts.sum() == epochs * len(nodes)


def test_a_silo_without_training_nodes_leaves_the_weights_alone(silo):
    split = np.where(silo.graph.split == Part.TRAIN, Part.NONE, silo.graph.split)
    idle = Silo(0, silo.graph.with_split(split), silo.spec, CPU)
    weights, losses = trained(idle)
    assert losses == [0]
    assert same(weights, to_arrays(idle.classifier()))


def test_labels_of_other_nodes_are_never_looked_at(silo):
    labels = silo.graph.labels.copy()
    hidden = silo.graph.split != Part.TRAIN
    labels[hidden] = (labels[hidden] + 1) % silo.graph.classes
    other = Silo(0, replace(silo.graph, labels=labels), silo.spec, CPU)
    assert same(trained(silo)[0], trained(other)[0])


def test_sparse_features_are_never_made_dense(silo, monkeypatch):
    assert isinstance(silo.graph.features, sp.csr_array)
    fresh = Silo(0, silo.graph, silo.spec, CPU)

    def refuse(*_, **__):
        raise AssertionError("a sparse matrix was made dense")

    for name in ("toarray", "todense", "__array__"):
        for kind in (sp.csr_array, sp.csc_array, sp.coo_array):
            monkeypatch.setattr(kind, name, refuse, raising=False)
    monkeypatch.setattr(torch.Tensor, "to_dense", refuse)
    trained(fresh)


def test_dense_and_sparse_features_learn_the_same(silo):
    dense = replace(silo.graph, features=silo.graph.features.toarray())
    one, other = trained(silo)[0], trained(Silo(0, dense, silo.spec, CPU))[0]
    terms = rounds_terms(silo.spec, len(silo.graph.members(Part.TRAIN)))
    assert_weights_agree(one, other, terms=terms)


def test_divergence_is_an_error_that_says_what_to_do(silo):
    with pytest.raises(InputError, match=r"diverged at client 0.*lower training.learning_rate"):
        trained(with_training(silo, learning_rate=1e30), rounds=5)


class TestClassWeights:
    @pytest.mark.parametrize(("kind", "probability"), [("none", 1 / 3), ("balanced", 1 / 2)])
    def test_a_rare_class_pulls_as_hard_as_the_others(self, kind, probability):
        """Three nodes that look alike, and one of them is of class 1."""
        graph = Graph.from_edges([], np.ones((3, 1)), [0, 0, 1], split=[Part.TRAIN] * 3)
        spec = LearningSpec(
            features=1,
            classes=2,
            model=ModelSpec(hidden=4, dropout=0),
            training=TrainingSpec(class_weights=kind),
        )
        silo = Silo(0, graph, spec, CPU)
        model = silo.classifier()
        for round_ in range(200):
            train(model, silo, Seeds(0).child(round_))
        found = torch.softmax(predict(model, graph, silo.table), dim=1)[:, 1]
        assert found.tolist() == pytest.approx([probability] * 3, abs=1e-3)

    def test_a_focus_slows_down_what_is_right_already(self):
        losses = [trained(lonely_silo(focal=gamma), rounds=50)[1][-1] for gamma in (0.0, 2.0)]
        assert losses[1] < losses[0], "the focal loss is the smaller one"

    def test_clipped_gradients_do_not_know_of_them(self):
        with pytest.raises(InputError, match=r"training\.class_weights and training\.focal"):
            LearningSpec(
                features=3,
                classes=2,
                training=TrainingSpec(class_weights="balanced"),
                privacy=PrivacySpec(mechanism="dp-sgd"),
            )
