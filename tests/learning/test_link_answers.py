"""What silos answer about linked nodes, against whoever asks often and in other words."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy import stats

from agreement import assert_agree
from feddep.algorithms.linked import METHOD
from feddep.errors import InputError
from feddep.federation.messages import Request, grouped
from feddep.graph.graph import Graph, Part
from feddep.learning.link_codes import LinksSpec, cells_of
from feddep.learning.link_mending import Codes, beliefs, remembered, typical_features
from feddep.learning.link_rows import Counterparties
from feddep.learning.mending import Mended
from feddep.learning.silo import Secret, open_silo
from feddep.learning.spec import LearningSpec, TrainingSpec
from feddep.models.weights import to_arrays

NODES, CLASSES = 4000, 4
TALK = Codes()
EVERY_OTHER = np.arange(NODES) % 2 == 0


def silo(run="one", *, secret=7, links=None, seed=0):
    """Half of the nodes are confirmed; features name a class of each."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, CLASSES, NODES)
    split = np.where(EVERY_OTHER, np.int8(Part.TRAIN), np.int8(Part.TEST))
    graph = Graph.from_edges(
        [], np.eye(CLASSES)[labels].astype(np.float32), labels, classes=CLASSES, split=split
    )
    spec = LearningSpec(
        features=CLASSES,
        classes=CLASSES,
        seed=seed,
        fusion="codes",
        links=links or LinksSpec(epsilon=2.0),
        training=TrainingSpec(rounds=8),
    )
    root = None if secret is None else Secret(secret, run)
    return open_silo(0, graph, spec, torch.device("cpu"), root)


def answers(own, scale=1.0, release=0):
    """What is said under a classifier; the scale changes its weights but no prediction."""
    model = own.classifier()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(scale)
    return TALK.said(model, Mended(own), own, release)


def kept(epsilon, values):
    keep = np.exp(epsilon) / (np.exp(epsilon) + values - 1)
    return keep**2 + (1 - keep) ** 2 / (values - 1)


def test_what_is_confirmed_is_answered_alike_in_every_run_and_under_every_classifier():
    first, again = answers(silo("one")), answers(silo("two"), scale=0.5)
    np.testing.assert_array_equal(first[EVERY_OTHER], again[EVERY_OTHER])


def test_the_same_question_has_the_same_answer_about_every_node():
    np.testing.assert_array_equal(answers(silo("one")), answers(silo("two")))


def test_another_classifier_that_predicts_the_same_is_answered_with_noise_of_its_own():
    """Otherwise two answers that differ would prove, at any ε, that the prediction changed."""
    first, again = answers(silo("one")), answers(silo("two"), scale=0.5)
    guessed = first[~EVERY_OTHER] == again[~EVERY_OTHER]
    assert guessed.mean() == pytest.approx(kept(2.0, CLASSES), abs=0.04)


def test_another_epsilon_is_another_question():
    """So that only a budget over all runs ends what a server learns by asking at many of them."""
    first, other = (answers(silo(links=LinksSpec(epsilon=e))) for e in (2.0, 2.0001))
    same = int((first == other)[EVERY_OTHER].sum())
    assert stats.binomtest(same, int(EVERY_OTHER.sum()), kept(2.0, CLASSES)).pvalue > 1e-6


@pytest.mark.parametrize("secret", [7, None])
def test_releases_of_one_run_have_noise_of_their_own_confirmed_or_not(secret):
    links = LinksSpec(epsilon=4.0, refreshes=2)
    own = silo(secret=secret, links=links)
    same = answers(own, release=0) == answers(own, release=1)
    for half in (EVERY_OTHER, ~EVERY_OTHER):
        assert same[half].mean() == pytest.approx(kept(2.0, CLASSES), abs=0.04)


def test_a_code_that_no_classifier_changes_is_the_same_in_all_releases():
    own = silo(links=LinksSpec(epsilon=4.0, refreshes=2, code="both"))
    confirmed, scores = (answers(own, release=0) == answers(own, release=1)).T
    assert confirmed.all()
    assert not scores.all()


def test_a_simulation_draws_what_it_drew_whatever_the_classifier():
    np.testing.assert_array_equal(answers(silo(secret=None)), answers(silo(secret=None), scale=0.5))


def test_independent_answers_add_up_and_repeated_ones_do_not():
    own = silo(links=LinksSpec(epsilon=4.0, refreshes=2, code="both"))
    found = Counterparties(
        np.array([0]), np.array([0]), np.array([1]), np.array([[1, 3]]), np.array([True])
    )
    once = remembered(found, {}, own)
    twice = remembered(found, once, own)
    first, second = beliefs(own, once)[0], beliefs(own, twice)[0]
    np.testing.assert_array_equal(first[: CLASSES + 1], second[: CLASSES + 1])
    assert second[CLASSES + 1 + 3] > first[CLASSES + 1 + 3]


def test_a_server_that_asks_before_another_round_than_agreed_is_refused():
    own = silo(links=LinksSpec(epsilon=4.0, refreshes=2))
    phase = METHOD.phases[1]
    weights = grouped("classifier", to_arrays(own.classifier()))
    with pytest.raises(InputError, match="before the rounds 4, 6, not before round 5"):
        phase.answer(Request(0, phase.name, "answer", 5, weights), {}, own)


class TestCells:
    def test_a_cell_follows_from_the_features_alone_sparse_or_dense(self):
        rows = np.random.default_rng(0).normal(size=(300, 9)).astype(np.float32)
        found = cells_of(rows, 16)
        np.testing.assert_array_equal(found, cells_of(sp.csr_array(rows), 16))
        np.testing.assert_array_equal(found, cells_of(rows * np.float32(3), 16))
        assert set(found.tolist()) == set(range(16))
        np.testing.assert_array_equal(15 - found, cells_of(-rows, 16))  # the other side of each

    def test_near_rows_share_more_cells_than_far_ones(self):
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(2000, 30))
        near = rows + 0.2 * rng.normal(size=rows.shape)
        others = (near, rows[::-1])
        shared = [np.mean(cells_of(rows, 64) == cells_of(other, 64)) for other in others]
        assert shared[0] > 0.5 > 0.1 > shared[1]

    def test_they_are_answered_alike_in_every_run_under_every_classifier(self):
        links = LinksSpec(code="features", epsilon=1.0)
        first = answers(silo("one", links=links))
        np.testing.assert_array_equal(first, answers(silo("two", links=links, seed=5), scale=0.5))
        assert links.exchanges(50) == [25]
        assert LinksSpec(code="features", refreshes=3).exchanges(50) == [25]

    def test_answers_are_the_cells_as_often_as_the_mechanism_keeps_them(self):
        own = silo(links=LinksSpec(code="features", epsilon=2.0, planes=2))
        truth = cells_of(own.graph.features, 4)
        right = int((answers(own)[:, 0] == truth).sum())
        keep = np.exp(2.0) / (np.exp(2.0) + 3)
        assert stats.binomtest(right, NODES, keep).pvalue > 1e-6

    def test_a_counterparty_looks_like_the_own_nodes_of_its_cell(self):
        own = silo(links=LinksSpec(code="features", planes=6))
        groups = cells_of(own.graph.features, 64)
        cell = int(groups[0])
        believed = np.zeros((1, 64))
        believed[0, cell] = 1.0
        (shown,) = typical_features(own, believed)
        there = own.graph.features[groups == cell]
        wanted = (there.sum(axis=0) + own.graph.features.mean(axis=0)) / (len(there) + 1)
        assert_agree(shown, wanted, terms=2 * NODES)

    def test_an_owner_allows_them_as_features_at_a_price(self):
        spec = LinksSpec(code="features", epsilon=2.0)
        assert spec.shows == "everything"
        assert "in which of 16 cells the features lie" in spec.in_words
