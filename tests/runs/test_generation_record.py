"""The record's entry on generation, in whole runs that take a second."""

import logging
from dataclasses import replace

import numpy as np
import pytest

import feddep
from feddep.algorithms import find_method
from feddep.graph.graph import Part
from feddep.learning.generation_quality import NAMES
from feddep.runs.pipeline import run
from small_runs import spec_of

MENDING = [
    "feddep",
    "feddep-wo-dgen",
    "feddep-wo-proto",
    "feddep-wo-nfdp",
    "fedsage",
    "fedgnn",
    "fedgraph",
    "fedgsl",
    "oracle",
]


@pytest.fixture(scope="module")
def shards():
    return feddep.partition(feddep.load("synthetic", nodes=150), clients=3, kind="random")


def generation(method, shards, **settings):
    spec = spec_of(find_method(method), shards, **settings)
    return run(spec, shards, workers=1).record["generation"]


@pytest.mark.parametrize("method", MENDING)
def test_every_method_that_mends_says_what_it_generates(method, shards):
    found = generation(method, shards)
    assert found.keys() == {*NAMES, "dead"}
    assert found["dead"] == []
    assert 0 < found["share_mended"] <= 1
    assert 0 <= found["changed"] <= 1
    assert found["probe"] is not None and found["probe_own"] is not None


@pytest.mark.parametrize("method", ["fedavg", "local", "global"])
def test_a_method_that_mends_nothing_has_nothing_to_say(method, shards):
    assert generation(method, shards) is None


@pytest.mark.parametrize("method", ["oracle", "fedgnn", "fedgraph"])
def test_who_knows_the_true_neighbours_counts_them_right(method, shards):
    found = generation(method, shards)
    lost = len(shards.lost_edges())
    assert found["count_correlation"] == pytest.approx(1)
    assert found["count_mean"] == pytest.approx(2 * lost / shards.graph.nodes)


def test_the_ratio_of_weights_is_that_of_the_input_layer(shards):
    spec = spec_of(find_method("feddep"), shards)
    result = run(spec, shards, workers=1)
    weights = result.models[0].weights
    expected = np.linalg.norm(weights["embedding"]) / np.linalg.norm(weights["features"])
    assert result.record["generation"]["weight_ratio"] == pytest.approx(expected, rel=1e-5)


def test_labels_of_test_nodes_change_nothing(shards):
    graph = shards.graph
    test = graph.members(Part.TEST)
    labels = graph.labels.copy()
    labels[test] = np.roll(labels[test], 1)
    assert not np.array_equal(labels, graph.labels)
    other = replace(shards, graph=replace(graph, labels=labels))
    assert generation("feddep", shards) == generation("feddep", other)


RUN_AWAY = {"generator.learning_rate": 1e30}
# Next to nothing is hidden, so next to nothing is missed, and that is rounded to nothing.
NOTHING_TO_MISS = {
    "generator.pool": "val",
    "generator.impaired_share": 0.01,
    "generator.learning_rate": 0.01,
    "generator.rounding": "nearest",
}


@pytest.mark.parametrize(
    ("settings", "words"),
    [(RUN_AWAY, "no numbers"), (NOTHING_TO_MISS, "generates no neighbour at all")],
    ids=["run away", "nothing to miss"],
)
def test_a_dead_generator_is_said_aloud_and_in_the_record(shards, caplog, settings, words):
    with caplog.at_level(logging.WARNING):
        found = generation("feddep", shards, **settings)
    assert found["dead"] == [0, 1, 2]
    assert found["share_mended"] == 0
    told = [record.message for record in caplog.records if words in record.message]
    assert len(told) == 3  # each client once
    assert "generator.learning_rate" in told[0]
