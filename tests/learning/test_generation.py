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
    centred,
    reconstruction_loss,
    squared_distances,
)
from feddep.learning.prototypes import Prototypes
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec, TrainingSpec
from feddep.models import generator as generator_module
from feddep.models.generator import Generated, GeneratorSpec, normalised, select
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


AS_IN_THE_PAPER = GeneratorSpec(distances="summed")


def test_the_whole_loss_is_the_sum_worked_by_hand():
    loss = reconstruction_loss(GENERATED, TARGETS, AS_IN_THE_PAPER)
    assert_worked(loss, (DEGREE + OWN + FOREIGN) / 4)


def test_scaled_distances_are_divided_by_the_root_of_the_width_and_the_number_of_silos():
    loss = reconstruction_loss(GENERATED, TARGETS, GeneratorSpec())
    assert_worked(loss, (DEGREE + OWN / 2**0.5 + FOREIGN / 2 / 2**0.5) / 4)


def test_mean_distances_are_divided_by_the_width_and_the_number_of_silos():
    loss = reconstruction_loss(GENERATED, TARGETS, GeneratorSpec(distances="mean"))
    assert_worked(loss, (DEGREE + OWN / 2 + FOREIGN / 2 / 2) / 4)


def test_pulls_of_more_silos_weigh_no_more():
    pulled = replace(TARGETS, foreign=(), pulled=torch.zeros(4, 2, 2))
    losses = [
        reconstruction_loss(GENERATED, replace(pulled, pulls=pulls), GeneratorSpec())
        for pulls in (1, 9)
    ]
    assert_worked(losses[1], losses[0].item())
    # ‖(1,0)‖² + ‖(0,1)‖² + ‖(1,1)‖² + 0, each over √2
    assert_worked(losses[0], (DEGREE + OWN / 2**0.5 + 4.0 / 2**0.5) / 4)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((1, 0, 0), DEGREE), ((0, 1, 0), OWN), ((0, 0, 1), FOREIGN), ((2, 3, 5), None)],
)
def test_each_term_has_its_weight(weights, expected):
    spec = replace(
        AS_IN_THE_PAPER,
        degree_weight=weights[0],
        own_weight=weights[1],
        foreign_weight=weights[2],
    )
    if expected is None:
        expected = 2 * DEGREE + 3 * OWN + 5 * FOREIGN
    assert_worked(reconstruction_loss(GENERATED, TARGETS, spec), expected / 4)


def test_rows_that_are_not_kept_need_not_be_there():
    there = torch.tensor([5, 2, 6, 4])  # in any order
    few = Generated(GENERATED.degree, GENERATED.rows[there], there, torch.ones(4), 2)
    assert_worked(reconstruction_loss(few, TARGETS, AS_IN_THE_PAPER), (DEGREE + OWN + FOREIGN) / 4)
    assert torch.equal(few.mean(), GENERATED.mean())  # halves and wholes: nothing to round
    pulled = replace(TARGETS, pulled=torch.arange(16.0).view(4, 2, 2), pulls=3)
    expected = reconstruction_loss(GENERATED, pulled, AS_IN_THE_PAPER)
    assert_worked(reconstruction_loss(few, pulled, AS_IN_THE_PAPER), expected.item())


def test_without_other_silos_there_is_no_foreign_term():
    alone = Targets(TARGETS.missing_degree, TARGETS.has_hidden, TARGETS.own, [])
    loss = reconstruction_loss(GENERATED, alone, AS_IN_THE_PAPER)
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


THIN = GeneratorSpec(slots=3, keep=1.0, sampler="thin", rounding="nearest")


@pytest.mark.parametrize("sampler", ["thin", "select"])
def test_the_first_rounded_degree_rows_are_taken(sampler):
    degree = torch.tensor([0.4, 0.6, 2.4, 9.0])
    kept = select(degree, replace(THIN, sampler=sampler), np.random.default_rng(0))
    assert kept.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize("sampler", ["thin", "select"])
def test_each_taken_row_is_kept_at_the_rate(sampler):
    degree = torch.full((4000,), 5.0)
    spec = replace(THIN, slots=5, keep=0.3, sampler=sampler)
    kept = select(degree, spec, np.random.default_rng(0))
    assert kept.mean().item() == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / 20000) ** 0.5)


def test_selecting_keeps_as_many_rows_as_are_missing_if_enough_pass():
    degree = torch.full((4000,), 1.0)
    spec = replace(THIN, slots=5, keep=0.5, sampler="select")
    kept = select(degree, spec, np.random.default_rng(0))
    assert kept.sum(dim=1).max() == 1
    none = 0.5**5  # all five fail
    spread = (none * (1 - none) / 4000) ** 0.5
    assert kept.sum(dim=1).mean().item() == pytest.approx(1 - none, abs=4 * spread)
    # A row passes with probability 1/2 and is kept if none before it passed.
    shares = kept.mean(dim=0).tolist()
    assert shares == pytest.approx([0.5**slot for slot in range(1, 6)], abs=4 * 0.5 / 4000**0.5)


def test_a_count_between_two_numbers_is_rounded_to_either_with_itself_as_the_mean():
    degree = torch.full((4000,), 1.2)
    spec = replace(THIN, slots=5, rounding="random")
    counts = select(degree, spec, np.random.default_rng(0)).sum(dim=1)
    assert set(counts.tolist()) == {1.0, 2.0}
    assert counts.mean().item() == pytest.approx(1.2, abs=4 * (0.2 * 0.8 / 4000) ** 0.5)


def test_a_count_that_is_no_number_takes_no_row():
    kept = select(torch.tensor([torch.nan]), GeneratorSpec(), np.random.default_rng(0))
    assert not kept.any()


def test_a_normalised_encoding_has_mean_square_one_and_forgets_scale_and_offset():
    h = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [5.0, 6.0, 7.0]])
    # minus the mean (-1, 0, 1), positive part (0, 0, 1), over √(1/3)
    for row in normalised(h):
        assert row.tolist() == pytest.approx([0.0, 0.0, 3**0.5], rel=1e-4)


def test_centring_leaves_nodes_without_neighbours_at_zero():
    missing = torch.tensor([[1.0, 0.0], [0.0, 0.0], [3.0, 2.0]])
    given = missing.clone()
    assert centred(missing).tolist() == [[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]
    assert torch.equal(missing, given)
    nothing = torch.zeros(2, 2)
    assert torch.equal(centred(nothing), nothing)


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
        mended, _ = training.mend(generator, Seeds(5))
        return found, mended, training.generate(generator, Seeds(6))

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


def test_a_joint_step_shows_the_classifier_what_it_is_trained_on(training, monkeypatch):
    """z̄ minus its mean, as F gets it in its own epochs."""
    shown = []
    classifier, generator = training.silo.classifier(), training.generator()
    with torch.no_grad():
        generator.degree_bias.fill_(3.0)
    forward = type(classifier).forward

    def noting(self, table, ego, missing=None, dropout=None):
        if missing is not None:
            shown.append(missing.detach())
        return forward(self, table, ego, missing, dropout)

    monkeypatch.setattr(type(classifier), "forward", noting)
    training.joint_step(generator, classifier, Seeds(0))
    assert len(shown) == training.silo.spec.generator.joint_batches > 0
    for missing in shown:
        assert missing.abs().max() > 0.01
        terms = len(missing) + 2
        assert_agree(missing.sum(dim=0), 0, terms=terms, scale=missing.abs().sum(dim=0) + 1)


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
    (one, counts), (two, counts_again) = (training.mend(generator, Seeds(4)) for _ in range(2))
    assert one.shape == (40, training.silo.spec.embedding_width)
    assert counts.shape == (40,)
    assert np.isfinite(one).all() and np.isfinite(counts).all()
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(counts, counts_again)
