"""Scores that fit the task: per silo and pooled, a threshold, and the majority class."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn import metrics

import feddep
from feddep.graph.graph import Graph, Part
from feddep.learning.classifier import softmax
from feddep.reports.comparison import run_summary
from feddep.runs.measuring import RANKINGS, Scored, measured

SPLIT = [Part.TRAIN] * 4 + [Part.VAL] * 8 + [Part.TEST] * 8


def silo(seed: int, labels: list[int] | None = None, classes: int = 2) -> Scored:
    rng = np.random.default_rng(seed)
    drawn = [0, 0, 0, 1] + [0, 0, 0, 0, 0, 1, 0, 1] * 2 if labels is None else labels
    graph = Graph.from_edges([], np.eye(20), drawn, classes=classes, split=SPLIT)
    scores = rng.normal(size=(20, classes)) + np.eye(classes)[graph.labels]
    return Scored(graph, torch.tensor(scores, dtype=torch.float32))


def of(one: Scored, part: Part) -> tuple[np.ndarray, np.ndarray]:
    nodes = one.graph.members(part)
    return one.graph.labels[nodes], softmax(one.scores)[nodes, 1]


def test_a_silo_s_scores_are_those_of_scikit_learn():
    one = silo(0)
    found = measured([one], "accuracy")["silos"][0]["test"]
    labels, probability = of(one, Part.TEST)
    assert found["nodes"] == 8
    assert found["accuracy"] == metrics.accuracy_score(labels, probability > 0.5)
    for name, score in [
        ("average_precision", metrics.average_precision_score),
        ("roc_auc", metrics.roc_auc_score),
    ]:
        assert found[name] == pytest.approx(score(labels, probability), abs=1e-6)


def test_counts_are_added_up_and_rankings_averaged_over_silos_that_have_both_classes():
    silos = [silo(0), silo(1), silo(2, labels=[0] * 20)]
    found = measured(silos, "accuracy")
    pooled, own = found["pooled"]["test"], [each["test"] for each in found["silos"]]
    assert pooled["accuracy"] == pytest.approx(np.mean([each["accuracy"] for each in own]))
    truth = np.concatenate([of(each, Part.TEST)[0] for each in silos])
    called = np.concatenate([of(each, Part.TEST)[1] for each in silos]) > 0.5
    assert pooled["macro_f1"] == pytest.approx(metrics.f1_score(truth, called, average="macro"))
    for name in RANKINGS:
        assert name not in own[2], "one class alone cannot be ranked"
        assert pooled[name] == pytest.approx(np.mean([own[0][name], own[1][name]]), abs=1e-6)


def test_the_threshold_is_chosen_on_validation_and_judged_on_test_nodes():
    silos = [silo(0), silo(1)]
    found = measured(silos, "accuracy")["threshold"]
    parts = {
        part: [
            np.concatenate(of_both) for of_both in zip(*(of(s, part) for s in silos), strict=True)
        ]
        for part in (Part.VAL, Part.TEST)
    }
    labels, probability = parts[Part.VAL]
    best = max(metrics.f1_score(labels, probability >= level) for level in probability)
    assert metrics.f1_score(labels, probability >= found["value"]) == pytest.approx(best)
    labels, probability = parts[Part.TEST]
    f1 = metrics.f1_score(labels, probability >= found["value"])
    assert found["test_f1"] == pytest.approx(f1, abs=1e-6)


def test_the_rarer_class_is_the_positive_one():
    one = silo(0)
    turned = Scored(replace(one.graph, labels=1 - one.graph.labels), one.scores.flip(1))
    found, other = measured([one], "accuracy"), measured([turned], "accuracy")
    assert (found["positive"], other["positive"]) == (1, 0)
    assert {**other, "positive": 1} == found


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "average_precision", "roc_auc", "loss"])
def test_a_classifier_that_says_the_same_of_every_node_is_no_better_than_the_majority(metric):
    one = silo(0)
    nothing = replace(one, scores=torch.tensor([[1.0, 0.0]]).expand(20, 2))
    assert not measured([nothing], metric)["majority"]["beaten"]
    exact = replace(one, scores=torch.tensor(np.eye(2)[one.graph.labels]))
    assert measured([exact], metric)["majority"]["beaten"]


def test_without_validation_or_test_nodes_nothing_is_made_up():
    one = silo(0)
    bare = replace(one, graph=one.graph.with_split([Part.TRAIN] * 20))
    found = measured([bare], "accuracy")
    assert found["pooled"] == {"val": {"nodes": 0}, "test": {"nodes": 0}}
    assert (found["threshold"], found["majority"]) == (None, None)


def test_more_than_two_classes_have_no_ranking_and_no_threshold():
    found = measured([silo(0, labels=[0, 1, 2, 1] * 5, classes=3)], "accuracy")
    assert (found["positive"], found["threshold"]) == (None, None)
    assert set(found["pooled"]["test"]) == {"nodes", "accuracy", "balanced_accuracy", "macro_f1"}


@pytest.fixture(scope="module")
def two_classes() -> Graph:
    return feddep.load(
        "synthetic", nodes=200, classes=2, feature_count=60, topic_words=20, dialect_words=5
    )


def test_a_run_tells_its_scores_and_calls_classes_by_its_threshold(
    two_classes: Graph, tmp_path: Path
):
    shards, settings = feddep.partition(two_classes, 2), {"model.hidden": 8}
    found = feddep.run("fedavg", shards, out=tmp_path / "run", rounds=3, settings=settings)
    measures = found.record["measures"]
    json.dumps(measures, allow_nan=False)
    own = found.record["scores"]["silo"]["test"]
    assert measures["pooled"]["test"]["accuracy"] == pytest.approx(own, abs=1e-6)
    probabilities = found.predict(two_classes)
    positive = measures["positive"]
    called = found.classes(two_classes) == positive
    assert (called == (probabilities[:, positive] >= found.threshold)).all()
    assert feddep.open_run(tmp_path / "run").threshold == found.threshold
    told = dict(run_summary(found.record))
    assert {"  average precision", "  ROC-AUC", "  precision / recall"} <= told.keys()


def test_a_worthless_run_says_so(two_classes: Graph):
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(two_classes.nodes, 3)).astype(np.float32)
    noise = replace(two_classes, features=columns, name="noise")
    settings = {"model.hidden": 4, "training.learning_rate": 1e-6, "selection.metric": "macro_f1"}
    record = feddep.run("fedavg", feddep.partition(noise, 2), rounds=1, settings=settings).record
    told = dict(run_summary(record))
    if record["measures"]["majority"]["beaten"]:
        assert "worth" not in told
    record["measures"]["majority"]["beaten"] = False
    assert "no better than calling every node the same" in dict(run_summary(record))["worth"]
