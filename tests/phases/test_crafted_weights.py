"""A server that makes weights up learns no edge from capped DP-SGD.

The silo is honest and has a secret. The server knows all nodes with their features and labels, and
asks whether a and b are linked. It sees nothing but the reply.
"""

import numpy as np
import pytest
import torch
from scipy import stats

from feddep.federation.messages import Request, group, grouped
from feddep.graph.graph import Graph, Part
from feddep.learning.silo import Secret, open_silo
from feddep.learning.spec import LearningSpec, TrainingSpec
from feddep.models.sage import ModelSpec
from feddep.models.weights import to_arrays
from feddep.phases.averaging import Averaging
from feddep.privacy.spec import PrivacySpec

NODES, A, B, ASKED = 12, 0, 1, 40
SPLIT = [Part.TRAIN] * 8 + [Part.TEST] * 4
OTHERS = [[8, 9], [9, 10]]
SPEC = LearningSpec(
    features=NODES,
    classes=3,
    model=ModelSpec(hidden=32),
    training=TrainingSpec(rounds=1, batch_size=NODES, learning_rate=0.1),
    privacy=PrivacySpec(mechanism="dp-sgd", occurrences=1, noise=60.0),
)


def with_overflow(rng):
    """Layer 1 computes "v is a, and b is among its neighbours"; layer 2 multiplies by 3e38."""
    weights = {name: np.zeros_like(array) for name, array in to_arrays(SPEC.classifier()).items()}
    weights["features"][B, 0] = weights["features"][A, 1] = 1.0
    weights["convolutions.0.neighbours"][0, 0] = weights["convolutions.0.own"][1, 0] = 100.0
    weights["convolutions.0.bias"][0] = -100.0
    weights["convolutions.1.own"][0, 0] = 3e38
    return weights, np.eye(NODES, dtype=np.float32)


def with_cancellation(rng):
    """Slopes of two linked nodes are large and cancel; nodes have no feature to tell them by."""
    weights = {
        name: (rng.standard_normal(array.shape) * 1e3).astype(np.float32)
        for name, array in to_arrays(SPEC.classifier()).items()
    }
    weights["bias"][:], weights["convolutions.0.bias"][:] = 1e4, 1e-3
    weights["convolutions.1.bias"][:] = 0
    for k in range(2):
        weights[f"convolutions.{k}.own"] = -weights[f"convolutions.{k}.neighbours"]
    weights["convolutions.1.own"] *= 1e3
    weights["convolutions.1.neighbours"] *= 1e3
    return weights, np.zeros((NODES, NODES), np.float32)


def reply(weights, features, edges, secret):
    graph = Graph.from_edges(edges, features, np.arange(NODES) % 3, split=SPLIT)
    silo = open_silo(0, graph, SPEC, torch.device("cpu"), Secret(secret, "run"))
    request = Request(0, "averaging", "train", 0, grouped("classifier", weights))
    found, _ = Averaging().answer(request, {}, silo)
    return found


@pytest.mark.parametrize("craft", [with_overflow, with_cancellation])
def test_the_reply_does_not_tell_whether_an_edge_is_there(craft):
    seen = {True: [], False: []}
    for secret in range(ASKED):
        weights, features = craft(np.random.default_rng(secret))
        for there in seen:
            answer = reply(weights, features, [*OTHERS, [A, B]] if there else OTHERS, secret)
            changes = [
                np.abs(array - weights[name]).max()
                for name, array in group(answer.arrays, "classifier").items()
            ]
            assert np.isfinite(changes).all()
            seen[there].append((max(changes), answer.metrics))
    assert [m for _, m in seen[True]] == [m for _, m in seen[False]], "scores and loss tell nothing"
    # The server says "there" to replies that changed most: how often is it right?
    changes = np.array([c for there in (True, False) for c, _ in seen[there]])
    right = np.sum((changes > np.median(changes)) == np.repeat([True, False], ASKED))
    assert stats.binomtest(int(right), 2 * ASKED).pvalue > 0.05
