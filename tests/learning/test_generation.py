"""Losses against numbers worked by hand, on four nodes with two slots and d_z = 2."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agreement import assert_agree, training_terms
from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import NeighbourSampler
from feddep.learning.generation import (
    GeneratorTraining,
    Targets,
    reconstruction_loss,
    squared_distances,
)
from feddep.learning.prototypes import Prototypes
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec, TrainingSpec
from feddep.models import generator as generator_module
from feddep.models.generator import Generated, GeneratorSpec, select
from feddep.models.sage import ModelSpec
from feddep.seeding import Seeds

GENERATED = Generated(
    degree=torch.tensor([0.0, 1.5, 2.0, 1.0]),
    rows=torch.tensor(
        [
            [[0.5, 0.5], [0.5, 0.5]],
            [[1.0, 0.0], [0.0, 0.0]],
            [[0.0, 1.0], [1.0, 1.0]],
            [[0.0, 0.0], [0.0, 0.0]],
        ]
    ).flatten(0, 1),
    places=torch.arange(8),
    kept=torch.tensor([0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0]),
    slots=2,
)
TARGETS = Targets(
    missing_degree=torch.tensor([0.0, 1.0, 4.0, 1.0]),
    has_hidden=torch.tensor([[False, True], [True, False], [True, True], [False, False]]),
    own=torch.tensor([[1.0, 1.0], [0.0, 0.0]]),
    foreign=[torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 2.0]])],
)
# smooth L1: 0, 0.5² / 2, |2| - 0.5, 0
DEGREE = 0.125 + 1.5
# node 1: (1,0) to (1,1) is 1; node 2: (0,1) to either is 1, (1,1) to (1,1) is 0; node 3: nothing
OWN = 1.0 + 1.0 + 0.0
# first silo: |(1,0)|² = 1; 1 + 2; 0. Second: 0; (0,1) to (0,2) is 1, (1,1) to (1,0) is 1; 1
FOREIGN = (1.0 + 3.0 + 0.0) + (0.0 + 2.0 + 1.0)


def assert_worked(loss, expected):
    """Of positive terms: for each of eight rows those of two columns and three distances."""
    assert_agree(loss, expected, terms=8 * 2 * 3)


def test_the_whole_loss_is_the_sum_worked_by_hand():
    loss = reconstruction_loss(GENERATED, TARGETS, GeneratorSpec())
    assert_worked(loss, (DEGREE + OWN + FOREIGN) / 4)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((1, 0, 0), DEGREE), ((0, 1, 0), OWN), ((0, 0, 1), FOREIGN), ((2, 3, 5), None)],
)
def test_each_term_has_its_weight(weights, expected):
    spec = GeneratorSpec(degree_weight=weights[0], own_weight=weights[1], foreign_weight=weights[2])
    if expected is None:
        expected = 2 * DEGREE + 3 * OWN + 5 * FOREIGN
    assert_worked(reconstruction_loss(GENERATED, TARGETS, spec), expected / 4)


def test_rows_that_are_not_kept_need_not_be_there():
    there = torch.tensor([5, 2, 6, 4])  # in any order
    few = Generated(GENERATED.degree, GENERATED.rows[there], there, torch.ones(4), 2)
    assert_worked(reconstruction_loss(few, TARGETS, GeneratorSpec()), (DEGREE + OWN + FOREIGN) / 4)
    assert torch.equal(few.mean(), GENERATED.mean())  # halves and wholes: nothing to round
    pulled = replace(TARGETS, pulled=torch.arange(16.0).view(4, 2, 2), pulls=3)
    expected = reconstruction_loss(GENERATED, pulled, GeneratorSpec())
    assert_worked(reconstruction_loss(few, pulled, GeneratorSpec()), expected.item())


def test_without_other_silos_there_is_no_foreign_term():
    alone = Targets(TARGETS.missing_degree, TARGETS.has_hidden, TARGETS.own, [])
    loss = reconstruction_loss(GENERATED, alone, GeneratorSpec())
    assert_worked(loss, (DEGREE + OWN) / 4)


def test_the_mean_is_over_kept_rows_and_zero_where_there_are_none():
    expected = [[0.0, 0.0], [1.0, 0.0], [0.5, 1.0], [0.0, 0.0]]
    assert GENERATED.mean().tolist() == expected


def test_squared_distances_are_those_of_the_broadcast_difference():
    rng = np.random.default_rng(0)
    a, b = (torch.tensor(rng.normal(size=(n, 5)), dtype=torch.float32) for n in (7, 3))
    expected = ((a[:, None] - b[None]) ** 2).sum(dim=2)
    scale = ((a.abs()[:, None] + b.abs()[None]) ** 2).sum(dim=2)
    assert_agree(squared_distances(a, b), expected, terms=5 + 4, scale=scale)


def test_the_first_rounded_degree_rows_are_taken():
    degree = torch.tensor([0.4, 0.6, 2.4, 9.0])
    kept = select(degree, GeneratorSpec(slots=3, keep=1.0), np.random.default_rng(0))
    assert kept.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_each_taken_row_is_kept_at_the_rate():
    degree = torch.full((4000,), 5.0)
    kept = select(degree, GeneratorSpec(slots=5, keep=0.3), np.random.default_rng(0))
    assert kept.mean().item() == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / 20000) ** 0.5)


@pytest.fixture
def training():
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(
        rng.integers(0, 40, (80, 2)),
        rng.integers(0, 2, (40, 12)),
        rng.integers(0, 2, 40),
        split=rng.choice([Part.TRAIN, Part.VAL, Part.TEST], 40, p=[0.6, 0.2, 0.2]),
    )
    spec = LearningSpec(
        features=12,
        classes=2,
        fusion="all",
        model=ModelSpec(hidden=8, embedding_start="glorot"),
        training=TrainingSpec(batch_size=8),
        generator=GeneratorSpec(epochs=30, slots=3, learning_rate=0.02),
    )
    silo = Silo(0, graph, spec, torch.device("cpu"))
    width = spec.embedding_width
    centres = np.tanh(rng.normal(size=(3, width))).astype(np.float32)
    foreign = [np.tanh(rng.normal(size=(2, width))).astype(np.float32)]
    return GeneratorTraining(silo, Prototypes(centres, rng.integers(0, 3, 40)), foreign)


def sampler(training, graph):
    spec = training.silo.spec
    return NeighbourSampler(graph, spec.training.fanout, spec.model.layers)


def test_targets_name_the_clusters_of_hidden_neighbours(training):
    impaired, targets = training.impaired, training.targets
    for i in range(len(impaired.remaining)):
        hidden = impaired.hidden[impaired.start[i] : impaired.start[i + 1]]
        clusters = set(training.prototypes.cluster[hidden].tolist())
        assert set(np.flatnonzero(targets.has_hidden[i]).tolist()) == clusters
        assert targets.missing_degree[i] == len(hidden)


def test_training_lowers_the_loss_that_is_left(training):
    def loss(generator):
        rng = np.random.default_rng(5)
        nodes = np.arange(training.impaired.graph.nodes)
        ego = sampler(training, training.impaired.graph).sample(nodes, rng)
        with torch.no_grad():
            generated = generator(training.table, ego, rng)
            everything = replace(generated, kept=torch.ones_like(generated.kept))
            spec = training.silo.spec.generator
            return reconstruction_loss(everything, training.targets, spec).item()

    generator = training.generator()
    before = loss(generator)
    training.pretrain(generator, Seeds(3), 20)
    assert loss(generator) < before


def test_the_classifier_s_gradient_reaches_the_generator(training):
    silo = training.silo
    classifier, generator = silo.classifier(), training.generator()
    with torch.no_grad():
        generator.degree_bias.fill_(3.0)  # so that rows are taken
    lists, rng = sampler(training, silo.graph), np.random.default_rng(0)
    batch = lists.sample(silo.graph.members(Part.TRAIN)[:8], rng)
    around = lists.sample(batch.nodes, rng)
    scores = classifier(silo.table, batch, generator(silo.table, around, rng).mean())
    loss = torch.nn.functional.cross_entropy(scores, silo.labels[batch.targets])
    gradients = torch.autograd.grad(loss, [generator.rows, generator.encoder.features])
    assert all(gradient.abs().max() > 0 for gradient in gradients)


def test_of_wide_rows_only_those_that_are_kept_are_generated(training, monkeypatch):
    def learnt():
        generator = training.generator()
        training.pretrain(generator, Seeds(3), 2)
        training.joint_step(generator, training.silo.classifier(), Seeds(4))
        (_, found), *_ = training.generated(generator, Seeds(5))
        return found, training.mend(generator, Seeds(5)), training.generate(generator, Seeds(6))

    found, mended, every = learnt()
    monkeypatch.setattr(generator_module, "WIDE", 1)
    few, mended_by_few, every_still = learnt()
    assert len(found.rows) == len(found.degree) * found.slots
    assert len(few.rows) == found.kept.sum() < len(found.rows)
    assert set(few.places.tolist()) == set(found.places[found.kept > 0].tolist())
    # Two epochs of one batch and a joint step, through both models; rows are tanh, up to 1.
    generator, classifier = training.generator(), training.silo.classifier()
    fanout = training.silo.spec.training.fanout
    terms = training_terms(generator, fanout, batch=40, steps=3)
    terms += training_terms(classifier, fanout, batch=8)
    assert_agree(mended_by_few, mended, terms=terms, scale=1)
    assert_agree(every_still, every, terms=terms, scale=1)


def test_a_joint_step_changes_the_generator_and_not_the_classifier(training):
    classifier, generator = training.silo.classifier(), training.generator()
    before = [p.detach().clone() for p in (*classifier.parameters(), *generator.parameters())]
    training.joint_step(generator, classifier, Seeds(0))
    after = [*classifier.parameters(), *generator.parameters()]
    same = [torch.equal(one, two) for one, two in zip(before, after, strict=True)]
    count = len(list(classifier.parameters()))
    assert all(same[:count])
    assert not all(same[count:])


def test_mended_embeddings_are_finite_and_the_same_again(training):
    generator = training.generator()
    training.pretrain(generator, Seeds(3), 20)
    one, two = (training.mend(generator, Seeds(4)) for _ in range(2))
    assert one.shape == (40, training.silo.spec.embedding_width)
    assert np.isfinite(one).all()
    np.testing.assert_array_equal(one, two)
