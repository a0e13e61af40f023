"""Measures of a classification, against scikit-learn and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from feddep.learning.measures import (
    average_precision,
    balanced_accuracy,
    best_threshold,
    class_counts,
    macro_f1,
    precision_at_k,
    recall_at_fpr,
    roc_auc,
)

RANKINGS = (average_precision, roc_auc, precision_at_k, recall_at_fpr, best_threshold)

pairs = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=2, max_size=40).filter(
    lambda rows: len({positive for positive, _ in rows}) == 2
)


def arrays(rows):
    positive, scores = zip(*rows, strict=True)
    return np.array(positive), np.array(scores, float) / 7


@given(pairs)
@settings(max_examples=150, deadline=None)
def test_rankings_are_those_of_scikit_learn_ties_included(rows):
    positive, scores = arrays(rows)
    found = average_precision(positive, scores)
    assert found == pytest.approx(metrics.average_precision_score(positive, scores), abs=1e-12)
    assert roc_auc(positive, scores) == pytest.approx(metrics.roc_auc_score(positive, scores))


@given(pairs)
@settings(max_examples=100, deadline=None)
def test_the_threshold_is_the_one_with_the_highest_f1(rows):
    positive, scores = arrays(rows)
    found = metrics.f1_score(positive, scores >= best_threshold(positive, scores))
    best = max(metrics.f1_score(positive, scores >= level) for level in scores)
    assert found == pytest.approx(best)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_means_over_classes_are_those_of_scikit_learn(rows):
    labels, chosen = np.array(rows).T
    counts = class_counts(labels, chosen, 4)
    expected = metrics.balanced_accuracy_score(labels, chosen)
    assert balanced_accuracy(counts) == pytest.approx(expected)
    assert macro_f1(counts) == pytest.approx(metrics.f1_score(labels, chosen, average="macro"))


def test_precision_among_as_many_as_are_positive_shares_a_tie_at_the_border():
    positive = np.array([True, False, True, False, False])
    assert precision_at_k(positive, np.array([5.0, 4, 3, 2, 1])) == 0.5
    assert precision_at_k(positive, np.array([5.0, 3, 3, 3, 1])) == pytest.approx((1 + 1 / 3) / 2)


def test_recall_counts_what_stands_before_too_many_false_alarms():
    positive = np.array([True] * 4 + [False] * 100)
    scores = np.concatenate([[10, 9, 6, 1], [8], [7], np.full(98, 2.0)])
    assert recall_at_fpr(positive, scores) == 0.5  # one false alarm is 1%, two are too many
    assert recall_at_fpr(positive, scores, 0.02) == 0.75
    assert recall_at_fpr(positive, -scores) == 0.25


@pytest.mark.parametrize("measure", RANKINGS)
@pytest.mark.parametrize("positive", [[True, True], [False, False], []])
def test_nodes_of_one_class_cannot_be_ranked(measure, positive):
    assert measure(np.array(positive, bool), np.arange(len(positive), dtype=float)) is None


@pytest.mark.parametrize("measure", RANKINGS)
def test_a_score_that_is_no_number_stands_last(measure):
    positive = np.array([True, False, True, False])
    broken = measure(positive, np.array([0.9, 0.8, np.nan, 0.3]))
    assert broken == measure(positive, np.array([0.9, 0.8, 0.0, 0.3]))
    assert 0 <= measure(positive, np.full(4, np.nan)) <= 1


def test_without_nodes_there_is_no_mean_over_classes():
    counts = class_counts(np.array([], int), np.array([], int), 3)
    assert (balanced_accuracy(counts), macro_f1(counts)) == (None, None)
