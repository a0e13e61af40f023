"""What is measured about generated neighbours, on graphs small enough to work out."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from feddep.graph.graph import Graph, Part
from feddep.learning import generation_quality
from feddep.learning.generation_quality import NAMES, SiloQuality, measure_generation

# Classes 0 and 1 in turn: six nodes to train on, four to validate, two to test.
SPLIT = [Part.TRAIN] * 6 + [Part.VAL] * 4 + [Part.TEST] * 2
LABELS = [0, 1] * 6
TELLING = np.array([[-1.0, 0.5], [1.0, 0.5]] * 6, np.float32)


def silo(**changes):
    graph = Graph.from_edges([], np.eye(12, dtype=np.float32), LABELS, split=SPLIT)
    same = np.zeros(12, np.int64)
    found = SiloQuality(
        graph=graph,
        rows=TELLING,
        counts=np.ones(12, np.float32),
        lost=np.arange(12),
        own=TELLING,
        with_rows=same,
        without_rows=same,
    )
    return replace(found, **changes)


def measured(*silos, ratio=None):
    return measure_generation(silos, ratio)


def test_everything_is_measured():
    assert measured(silo()).keys() == set(NAMES)


def test_counts_of_all_silos_together():
    found = measured(silo(counts=np.arange(12, dtype=np.float32)), silo(counts=np.ones(12)))
    joined = [*range(12), *[1] * 12]
    assert found["count_mean"] == pytest.approx(np.mean(joined))
    assert found["count_sd"] == pytest.approx(np.std(joined))
    expected = np.corrcoef(joined, [*range(12), *range(12)])[0, 1]
    assert found["count_correlation"] == pytest.approx(expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": None},
        {"lost": None},
        {"counts": np.ones(12, np.float32)},
        {"counts": np.full(12, np.nan, np.float32)},
    ],
)
def test_no_correlation_where_there_is_nothing_to_compare(changes):
    assert measured(silo(**changes))["count_correlation"] is None


def test_a_probe_reads_the_class_from_rows_that_tell_it():
    found = measured(silo(own=np.ones((12, 1), np.float32)))
    assert (found["probe"], found["probe_own"], found["probe_majority"]) == (1.0, 0.5, 0.5)


def test_only_nodes_with_generated_neighbours_are_probed():
    rows = TELLING.copy()
    rows[[6, 7, 8]] = 0  # three of the four validation nodes
    rows[9] = TELLING[0]  # looks like the other class
    found = measured(silo(rows=rows))
    assert found["probe"] == 0.0
    assert found["share_mended"] == 9 / 12


def test_without_any_row_there_is_no_probe():
    found = measured(silo(rows=np.zeros((12, 2), np.float32)))
    assert found["probe"] is found["probe_own"] is None
    assert found["share_mended"] == 0


def test_what_rows_change_is_counted_over_validation_and_test_nodes():
    changed = np.zeros(12, np.int64)
    changed[[0, 1, 6, 10, 11]] = 1  # two to train on, one to validate, two to test
    assert measured(silo(with_rows=changed))["changed"] == 3 / 6


def test_labels_of_test_nodes_are_never_read():
    whole = silo()
    hidden = whole.graph.labels.copy()
    hidden[-2:] = hidden[-2:][::-1]
    other = replace(whole, graph=replace(whole.graph, labels=hidden))
    assert measured(whole, ratio=0.5) == measured(other, ratio=0.5)
    trained = whole.graph.labels.copy()
    trained[:6] = trained[:6][::-1]
    assert measured(whole) != measured(replace(whole, graph=replace(whole.graph, labels=trained)))


def test_a_silo_with_a_single_class_to_train_on_predicts_that_one():
    graph = replace(silo().graph, labels=np.array([1] * 6 + [0, 1, 1, 1] + [0, 1]))
    assert measured(silo(graph=graph))["probe"] == 3 / 4


def test_rows_wider_than_long_are_probed_in_their_span(monkeypatch):
    """The same answers as on all columns, for dense rows and sparse ones."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=90)
    features = (rng.random((90, 400)) < 0.05 + 0.1 * np.eye(3)[labels].repeat(134, 1)[:, :400]) * 1
    rows = features.astype(np.float32)
    split = [Part.TRAIN] * 50 + [Part.VAL] * 40
    graph = Graph.from_edges([], rows, labels.tolist(), split=split)
    same = np.zeros(90, np.int64)
    wide = SiloQuality(graph, rows, None, None, sp.csr_array(rows), same, same)
    short = measured(wide)
    seen = []
    monkeypatch.setattr(generation_quality, "_in_their_span", lambda *both: seen.append(1) or both)
    assert measured(wide) == short
    assert seen
    assert 0.6 < short["probe"] < 1
    assert short["probe"] == short["probe_own"]


def test_wide_rows_of_training_nodes_that_are_all_zero_tell_nothing():
    assert measured(silo(own=np.zeros((12, 99), np.float32)))["probe_own"] == 0.5
