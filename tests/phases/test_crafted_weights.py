"""A server that makes weights up learns no edge from capped DP-SGD.

The silo is honest and has a secret. The server knows all nodes with their features and labels, and
asks whether a and b are linked. It sees nothing but the reply.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from broken_clips import from_products_of_rows, multiplying
from scipy import stats

from feddep.federation.messages import Request, group, grouped
from feddep.graph.graph import Graph, Part
from feddep.learning.silo import Secret, open_silo
from feddep.learning.spec import LearningSpec, TrainingSpec
from feddep.models import example_gradients
from feddep.models.sage import ModelSpec
from feddep.models.weights import to_arrays
from feddep.phases.averaging import Averaging
from feddep.privacy.audit_statistics import Guesses
from feddep.privacy.spec import PrivacySpec

NODES, A, B, ASKED = 12, 0, 1, 100
FAR = 20.0  # noise and clipped gradients move no weight by more than 4
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


def with_exact_cancellation(rng):
    """The same in whole numbers: the slopes of two linked nodes are −2³⁵ and 2³⁵ + 2¹².

    Scores are so far apart that an example's gradient of them is 1 and −1. Their squares,
    2⁷⁰ + 2⁷⁰ + 2⁴⁸ − 2(2⁷⁰ + 2⁴⁷), are 0 in single precision, in any order; the true one is 2²⁴.
    """
    spec = replace(SPEC, model=ModelSpec(layers=1, hidden=32))
    weights = {name: np.zeros_like(array) for name, array in to_arrays(spec.classifier()).items()}
    weights["bias"][:] = 2.0**-40
    weights["convolutions.0.bias"][2] = 1e6
    weights["convolutions.0.own"][:, 2] = -(2.0**35)
    weights["convolutions.0.neighbours"][:, 2] = 2.0**35 + 2.0**12
    return weights, np.zeros((NODES, NODES), np.float32), spec


def reply(weights, features, edges, secret, spec=SPEC):
    graph = Graph.from_edges(edges, features, np.arange(NODES) % 3, split=SPLIT)
    silo = open_silo(0, graph, spec, torch.device("cpu"), Secret(secret, "run"))
    request = Request(0, "averaging", "train", 0, grouped("classifier", weights))
    found, _ = Averaging().answer(request, {}, silo)
    return found


def changes(craft, coin, secret):
    """What the server sees: by how much the largest weight moved, and the plain numbers."""
    weights, features, *spec = craft(np.random.default_rng(secret))
    answer = reply(weights, features, [*OTHERS, [A, B]] if coin else OTHERS, secret, *spec)
    moved = [
        np.abs(array - weights[name]).max()
        for name, array in group(answer.arrays, "classifier").items()
    ]
    return (max(moved) if np.isfinite(moved).all() else np.inf), answer.metrics


def audited(craft):
    """One silo for each of many fair coins; the server says "there" where more moved than noise."""
    coins = np.random.default_rng(2028).random(ASKED) < 0.5
    said = [changes(craft, coin, secret)[0] > FAR for secret, coin in enumerate(coins)]
    return Guesses(int(np.sum(said == coins)), ASKED, ASKED)


@pytest.mark.parametrize("craft", [with_overflow, with_cancellation, with_exact_cancellation])
def test_the_reply_does_not_tell_whether_an_edge_is_there(craft):
    pairs = [[changes(craft, coin, secret) for coin in (True, False)] for secret in range(40)]
    moved = np.array([[there[0], not_there[0]] for there, not_there in pairs])
    assert np.isfinite(moved).all()
    assert all(one[1] == other[1] for one, other in pairs), "scores and loss tell nothing"
    # The server says "there" to replies that changed most: how often is it right?
    right = np.sum((moved > np.median(moved)) == np.array([True, False]))
    assert stats.binomtest(int(right), moved.size).pvalue > 0.05


BROKEN = [(with_overflow, multiplying), (with_exact_cancellation, from_products_of_rows)]


@pytest.mark.parametrize(("craft", "clip"), BROKEN)
def test_it_would_with_the_clip_that_it_was_made_for(craft, clip, monkeypatch):
    """The audit has teeth: with the mend switched off it finds ε > 3, where 0.9998 is promised."""
    promised = audited(craft)
    assert promised.lower_bound() < 0.9998
    assert promised.p_value(0.9998) > 0.001
    monkeypatch.setattr(example_gradients, "sum_clipped", clip)
    found = audited(craft)
    assert found.right > 0.9 * found.made
    assert found.lower_bound() > 3
