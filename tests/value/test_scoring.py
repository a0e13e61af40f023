import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from agreement import assert_agree
from feddep.value.scoring import Metric, hits, resampled

RARE = Metric("average precision", 1)


def two_columns(scores):
    return np.stack([1 - scores, scores], axis=1)


@pytest.mark.parametrize("ties", [False, True])
def test_average_precision_is_scikit_learn_s_under_any_weights(ties):
    rng = np.random.default_rng(0)
    labels = (rng.random(200) < 0.1).astype(np.int64)
    scores = rng.random(200)
    scores = np.round(scores, 1) if ties else scores
    weights = resampled(rng, 200, 5)
    found = RARE.scores(labels, two_columns(scores), weights)
    expected = [average_precision_score(labels, scores, sample_weight=row) for row in weights]
    assert_agree(found, np.array(expected), terms=400)


def test_without_a_node_of_the_class_there_is_no_score():
    assert RARE.score(np.zeros(4, np.int64), two_columns(np.arange(4) / 4)) is None


def test_accuracy_counts_nodes_as_often_as_they_were_drawn():
    labels, right = np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
    weights = np.array([[1.0, 1, 1], [0, 0, 3], [2, 1, 0]])
    assert Metric("accuracy").scores(labels, right, weights).tolist() == [2 / 3, 0.0, 1.0]


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        ([0] * 9 + [1], 2, Metric("average precision", 1)),
        ([1] * 9 + [0], 2, Metric("average precision", 0)),
        ([0, 0, 0, 1], 2, Metric("accuracy")),
        ([0] * 9 + [1], 3, Metric("accuracy")),
        ([0] * 9, 2, Metric("accuracy")),
    ],
)
def test_a_rare_class_is_looked_for_and_otherwise_nodes_are_counted(labels, classes, expected):
    assert Metric.for_classes(np.array(labels), classes) == expected


def test_right_alerts_are_counted_among_the_highest_scores():
    positive = np.array([True, False, True, False])
    assert hits(positive, np.array([0.1, 0.2, 0.9, 0.3])) == (1, 2)
