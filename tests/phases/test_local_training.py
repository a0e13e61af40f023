"""Every client on its own."""

import numpy as np
import pytest
import torch

from feddep.federation.messages import Reply, Request, group
from feddep.federation.phase import Ask
from feddep.graph.graph import Part
from feddep.learning.evaluation import SCORE_NAMES, said
from feddep.learning.silo import Silo
from feddep.learning.trainer import train
from feddep.models.weights import to_arrays
from feddep.phases.local_training import LocalTraining

PHASE = LocalTraining()


@pytest.fixture(scope="module")
def silo(small_shards, small_spec):
    return Silo(1, small_shards[1], small_spec, torch.device("cpu"))


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def rounds(silo, count):
    """Replies and memories of the first rounds."""
    state, found = {}, []
    for r in range(count):
        reply, state = PHASE.answer(Request(1, "local_training", "train", r), state, silo)
        found.append((reply, state))
    return found


def test_training_goes_on_where_the_last_round_ended(silo):
    model = silo.classifier()
    for r, (reply, state) in enumerate(rounds(silo, 3)):
        loss = train(model, silo, silo.seeds.child("local_training", r))
        assert reply.metrics["loss"] == loss
        assert same(group(state, "classifier"), to_arrays(model))


def test_scores_are_those_after_training(silo):
    for reply, state in rounds(silo, 2):
        model = silo.classifier(group(state, "classifier"))
        expected = said(model, silo.graph, silo.table, silo.spec)
        assert {name: reply.metrics[name] for name in expected} == expected


def test_nothing_but_declared_numbers_leaves_a_client(silo):
    for reply, _ in rounds(silo, 2):
        assert reply.arrays == {}
        assert set(reply.metrics) == SCORE_NAMES | {"loss", "training_nodes", "val_loss"}
        assert reply.metrics["training_nodes"] == len(silo.graph.members(Part.TRAIN))


def test_the_memory_is_a_new_value_and_keeps_what_else_it_held(silo):
    before = {"prototypes": np.ones(2)}
    _, after = PHASE.answer(Request(1, "local_training", "train", 0), before, silo)
    assert set(before) == {"prototypes"}
    assert after["prototypes"] is before["prototypes"]


def test_the_server_sends_nothing_and_reports_what_it_heard(small_spec):
    asked = []

    def send(requests):
        asked.extend(requests)
        scores = {"val_correct": 1, "val_total": 2, "test_correct": 3, "test_total": 4}
        return [
            Reply(r.client, metrics=scores | {"loss": r.client, "training_nodes": 10})
            for r in requests
        ]

    ask = Ask(2, "local_training", 1, send)
    state, report = PHASE.serve(small_spec, ask, {"kept": np.ones(1)})
    assert [(r.client, r.step, r.round, r.arrays) for r in asked] == [
        (0, "train", 1, {}),
        (1, "train", 1, {}),
    ]
    assert set(state) == {"kept"}
    assert report.round == 2
    assert report.classifier is None
    assert report.metrics == {"silo_val": 0.5, "silo_test": 0.75, "loss": 0.5}


def test_it_trains_as_many_rounds_as_the_federated_methods(small_spec):
    assert PHASE.rounds(small_spec) == small_spec.training.rounds
