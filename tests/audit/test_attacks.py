"""Each attacker on a case where the answer is known."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn.functional import cross_entropy

from agreement import absolute, assert_agree, forward_terms
from feddep.algorithms import find_method
from feddep.audit.attacks import (
    ATTACKS,
    Knowledge,
    ListsAttack,
    LossAttack,
    SumsAttack,
    UpdatesAttack,
)
from feddep.audit.pairs import Pairs, draw_canaries, with_edges
from feddep.audit.planted import LISTS, SUMS, Release, with_leaks
from feddep.audit.transcript import Recorder
from feddep.federation.messages import Reply, Request, grouped
from feddep.federation.run_phases import Progress, run_phases
from feddep.graph.graph import Graph, Part
from feddep.learning.evaluation import predict
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.kernels import FeatureTable
from feddep.models.sage import ModelSpec
from feddep.models.weights import to_arrays
from feddep.runtime.inprocess import InProcess


class Clients:
    """Answers from silos with one phase."""

    def __init__(self, phase, silos):
        self.phase, self.silos = phase, silos

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        return [self.phase.answer(r, {}, self.silos[r.client])[0] for r in requests]


def told(name, true, spec):
    """What an attacker knows after the clients released something."""
    silos = [Silo(c, graph, spec, torch.device("cpu")) for c, graph in enumerate(true)]
    recorder = Recorder(Clients(Release(name), silos))
    recorder.exchange([Request(c, name, "release", 0) for c in range(len(true))])
    return recorder


@pytest.fixture
def canaries(small_shards):
    return draw_canaries(list(small_shards), 40, np.random.default_rng(0))


@pytest.fixture
def included():
    return np.random.default_rng(1).random(40) < 0.5


@pytest.mark.parametrize(("name", "attack"), [(SUMS, SumsAttack()), (LISTS, ListsAttack())])
def test_a_release_in_the_clear_gives_every_canary_away(
    name, attack, small_shards, small_spec, canaries, included
):
    true = list(with_edges(small_shards, canaries.where(included)))
    known = Knowledge(told(name, true, small_spec), list(small_shards), small_spec)
    assert attack.applies(known)
    scores = attack.scores(known, canaries)
    assert np.array_equal(scores > attack.threshold, included)


def test_sums_of_dense_features_are_subtracted_too():
    features = np.random.default_rng(0).normal(size=(6, 4))
    split = [Part.TRAIN] * 6
    known = Graph.from_edges([[0, 1], [2, 3]], features, [0, 1] * 3, split=split)
    true = known.with_edges([[0, 1], [2, 3], [0, 4]])
    spec = LearningSpec(features=4, classes=2)
    pairs = Pairs(np.zeros(2, np.int64), np.array([[0, 4], [2, 5]]), np.zeros(2, np.int64))
    scores = SumsAttack().scores(Knowledge(told(SUMS, [true], spec), [known], spec), pairs)
    # The score is 2⟨e, x⟩/|x|² - 1, and no sum of rows is larger than that of all.
    sizes = np.abs(features)
    largest = 2 * (sizes @ sizes.sum(axis=0) / (sizes**2).sum(axis=1)).max()
    assert_agree(scores, [1, -1], terms=6 + 4, scale=1 + largest, precision=np.float32)


def test_the_loss_attack_is_the_sum_of_gains_that_the_docstring_says():
    """Two far components, one pair each: no pair can be in the way of another."""
    edges = [[0, 1], [1, 2], [4, 5], [5, 6]]
    graph = Graph.from_edges(edges, np.eye(8), [0, 1] * 4, split=[1, 2, 1, 1, 1, 1, 3, 1])
    spec = LearningSpec(features=8, classes=2, model=ModelSpec(hidden=4))
    first, sent = (
        to_arrays(LearningSpec(**{**vars(spec), "seed": s}).classifier()) for s in (0, 1)
    )
    recorder = Recorder(None)
    request = Request(0, "averaging", "train", 0, grouped("classifier", first))
    recorder.messages.append((request, Reply(0, grouped("classifier", sent))))
    pairs = Pairs(np.zeros(2, np.int64), np.array([[0, 3], [6, 7]]), np.zeros(2, np.int64))
    found = LossAttack().scores(Knowledge(recorder, [graph], spec), pairs)

    def loss(weights, added, node):
        own = graph.with_edges(np.concatenate([graph.edge_list(), added]))
        table = FeatureTable(own.features, torch.device("cpu"))
        logits = predict(spec.classifier(weights), own, table)
        return float(cross_entropy(logits[node], torch.tensor(graph.labels[node])))

    def gain(weights, pair, nodes):
        none = np.empty((0, 2), np.int64)
        return sum(loss(weights, none, v) - loss(weights, pair, v) for v in nodes)

    pair, other = np.array([[0, 3]]), np.array([[6, 7]])
    expected = [
        gain(sent, pair, [0, 3]) - gain(first, pair, [0, 3]),
        gain(sent, other, [7]) - gain(first, other, [7]),  # node 6 is not trained on
    ]
    # The losses of two ends with and without the edge, under two classifiers.
    table = FeatureTable(graph.features, torch.device("cpu"))
    sizes = [
        predict(absolute(spec.classifier(weights)), graph, table).max() for weights in (first, sent)
    ]
    terms = forward_terms(spec.classifier(), degree=3) + 8
    assert_agree(found, expected, terms=terms, scale=8 * 2 * max(sizes), precision=np.float32)


def test_attackers_of_updates_do_better_than_chance_and_know_when_they_have_nothing(
    small_shards, small_spec
):
    graphs = list(small_shards)
    silent = Knowledge(Recorder(None), graphs, small_spec)
    assert not any(attack.applies(silent) for attack in ATTACKS.values())

    aucs = []
    for seed in range(4):
        canaries = draw_canaries(graphs, 36, np.random.default_rng(seed))
        included = np.random.default_rng(10 + seed).random(36) < 0.5
        planted = with_edges(small_shards, canaries.where(included))
        method = find_method("fedavg")
        with InProcess(planted, method, small_spec) as runtime:
            recorder = Recorder(runtime)
            start = Progress()
            run_phases(method.phases, small_spec, 3, recorder, start, lambda *_: None)
        known = Knowledge(recorder, graphs, small_spec)
        aucs.append(roc_auc_score(included, UpdatesAttack().scores(known, canaries)))
    assert np.mean(aucs) > 0.6


def test_a_release_changes_nothing_else_in_a_run(small_shards, small_spec):
    def last_weights(method):
        with InProcess(small_shards, method, small_spec) as runtime:
            recorder = Recorder(runtime)
            run_phases(method.phases, small_spec, 3, recorder, Progress(), lambda *_: None)
        return [reply.arrays for reply in recorder.of_phase("averaging")][-4]

    plain = last_weights(find_method("fedavg"))
    leaking = last_weights(with_leaks(find_method("fedavg"), [SUMS, LISTS]))
    assert plain.keys() == leaking.keys()
    assert plain
    assert all(np.array_equal(plain[name], leaking[name]) for name in plain)
