"""The record's entry on generation, in whole runs that take a second."""

import json
import logging
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

import feddep
from feddep.algorithms import METHODS, find_method
from feddep.graph.graph import Part
from feddep.learning.generation_quality import NAMES
from feddep.learning.mending import KnownNeighbours, Mended
from feddep.phases.averaging import Averaging
from feddep.runs.pipeline import run
from small_runs import spec_of

RECORDS = Path(__file__).parents[2] / "docs" / "records.md"


@pytest.fixture(scope="module")
def shards():
    graph = feddep.load("synthetic", nodes=150)
    return feddep.partition(graph, clients=3, kind="random", links="known")


def generation(method, shards, **settings):
    spec = spec_of(find_method(method), shards, **settings)
    return run(spec, shards, workers=1).record["generation"]


def documented():
    """The keys of ``generation`` that the page about records describes."""
    rows = [line.split("|")[1] for line in RECORDS.read_text().splitlines() if "|" in line]
    about = [keys for keys in rows if keys.startswith(" `generation.")]
    return {key for keys in about for key in re.findall(r"\.(\w+)`", keys)}


def test_all_that_is_measured_is_documented():
    assert documented() == {*NAMES, "dead"}


@pytest.mark.parametrize("method", METHODS)
def test_a_record_has_what_is_documented_or_null(method, shards):
    found = generation(method, shards)
    if not any(getattr(phase, "mender", None) for phase in METHODS[method].phases):
        assert found is None
        return
    assert found.keys() == documented()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert all(found[name] is None or isinstance(found[name], float) for name in NAMES)
    assert found["dead"] == []
    assert 0 < found["share_mended"] <= 1
    assert 0 <= found["changed"] <= 1
    assert found["probe"] is not None and found["probe_own"] is not None


@dataclass(frozen=True)
class Remembering(KnownNeighbours):
    """A mender of somebody's own, that mends from what a run does not keep."""

    def mend(self, classifier, silo, memory, round):
        memory = {**memory, "mine": np.zeros((silo.graph.nodes, silo.spec.embedding_width), "f")}
        return self.recall(silo, memory), memory

    def recall(self, silo, memory):
        return Mended(silo, torch.tensor(memory["mine"]))


def test_null_where_a_mender_of_somebody_s_own_cannot_mend_again(shards, monkeypatch):
    """Its run still ends with a record."""
    own = replace(METHODS["oracle"], name="own", phases=(Averaging(mender=Remembering()),))
    monkeypatch.setitem(METHODS, "own", own)
    assert generation("own", shards) is None


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
