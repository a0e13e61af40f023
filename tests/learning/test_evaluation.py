"""Scoring: counts on literal predictions."""

import numpy as np
import pytest
import torch

from agreement import assert_agree
from feddep.graph.graph import Graph, Part
from feddep.learning.evaluation import SCORE_NAMES, Scores, pooled, predict, said, score
from feddep.learning.selection import AS_IN_THE_PAPER
from feddep.learning.spec import LearningSpec
from feddep.models.kernels import FeatureTable
from feddep.models.sage import ModelSpec

PAPER = LearningSpec(features=2, classes=2, selection=AS_IN_THE_PAPER)

# The model below answers the column of a node's largest feature.
LARGEST = [0, 0, 1, 1, 1, 0]
LABELS = [0, 1, 1, 1, 0, -1]
SPLIT = [Part.VAL, Part.VAL, Part.VAL, Part.TEST, Part.TEST, Part.NONE]


def graph(split=SPLIT):
    return Graph.from_edges(
        [(0, 1), (2, 3), (4, 5)], np.eye(2)[LARGEST] + 0.1, LABELS, classes=2, split=split
    )


def largest_feature():
    """F with identity matrices for the node itself and nothing for its neighbours."""
    spec = LearningSpec(features=2, classes=2, model=ModelSpec(hidden=2))
    names = dict(spec.classifier().named_parameters())
    weights = {
        name: np.eye(2) if name.endswith(("features", "own")) else np.zeros(tuple(p.shape))
        for name, p in names.items()
    }
    return spec.classifier(weights)


def table(g):
    return FeatureTable(g.features, torch.device("cpu"))


def test_counts_of_validation_and_test_nodes():
    g = graph()
    assert score(largest_feature(), g, table(g)) == Scores(2, 3, 1, 2)


def test_accuracies():
    scores = Scores(val_correct=2, val_total=3, test_correct=1, test_total=2)
    assert scores.val == pytest.approx(2 / 3)
    assert scores.test == 0.5


def test_without_nodes_there_is_no_accuracy():
    g = graph(split=[Part.TRAIN] * 5 + [Part.NONE])
    found = score(largest_feature(), g, table(g))
    assert (found.val, found.test) == (None, None)


def test_counts_can_be_stored_as_json_and_sent():
    g = graph()
    counts = said(largest_feature(), g, table(g), PAPER)
    assert set(counts) == SCORE_NAMES
    assert all(type(value) is int for value in counts.values())


def test_predictions_use_full_lists_without_dropout_and_without_gradients():
    g = graph()
    model = largest_feature()
    with torch.no_grad():
        model.convolutions[1].neighbours.copy_(10 * torch.eye(2))
    found = predict(model, g, table(g))
    assert not found.requires_grad
    # Client 0's features (1.1, 0.1), plus ten times those of node 1, which are the same.
    assert_agree(found[0], [12.1, 1.1], terms=10)
    assert torch.equal(found, predict(model, g, table(g)))


ONE = {"val_correct": 1, "val_total": 2, "test_correct": 3, "test_total": 4}
TWO = {"val_correct": 5, "val_total": 6, "test_correct": 0, "test_total": 4}


class TestPooled:
    def test_every_node_counts_the_same_whoever_owns_it(self):
        assert pooled([ONE, TWO]) == {"silo_val": 6 / 8, "silo_test": 3 / 8}

    def test_the_loss_is_weighted_by_training_nodes(self):
        rows = [
            ONE | {"loss": 2.0, "training_nodes": 30},
            TWO | {"loss": 1.0, "training_nodes": 10},
        ]
        assert pooled(rows)["loss"] == pytest.approx(1.75)

    def test_a_client_without_training_nodes_does_not_water_the_loss_down(self):
        rows = [
            ONE | {"loss": 2.0, "training_nodes": 30},
            TWO | {"loss": 0.0, "training_nodes": 0},
        ]
        assert pooled(rows)["loss"] == 2.0

    def test_what_cannot_be_counted_is_left_out(self):
        nothing = dict.fromkeys(SCORE_NAMES, 0)
        assert pooled([nothing]) == {}
        assert pooled([nothing | {"test_correct": 1, "test_total": 1}]) == {"silo_test": 1.0}
