"""The identity test: what leaves depends on the flipped graph, and on nothing else of the edges.

Two true graphs whose flips happen to give the same graph must give the same replies to the last
bit. Then all that anybody sees is computed from the flipped graph, and costs what the flips cost.
"""

from dataclasses import replace

import numpy as np
import pytest

import small_runs
from feddep.algorithms import METHODS, find_method
from feddep.graph.shard import Shards
from feddep.learning import silo as silos
from feddep.learning.aggregates import aggregated
from feddep.privacy.perturb import perturbed

FEDERATED = [name for name in METHODS if not find_method(name).whole_graph]
RESPONSE = {"privacy.mechanism": "randomised-response", "privacy.epsilon": 2.0}
SUMS = {
    "privacy.mechanism": "aggregation-perturbation",
    "privacy.epsilon": 2.0,
    "privacy.delta": 1e-6,
}


def rewired(shards: Shards) -> Shards:
    """Every third edge inside a client leads elsewhere; edges between clients stay."""
    edges = shards.graph.edge_list()
    owner = shards.owner
    inside = np.flatnonzero(owner[edges[:, 0]] == owner[edges[:, 1]])[::3]
    rng, changed = np.random.default_rng(0), edges.copy()
    for place in inside:
        members = np.flatnonzero(owner == owner[edges[place, 0]])
        changed[place] = rng.choice(members, 2, replace=False)
    return replace(shards, graph=shards.graph.with_edges(changed))


def replies(name, shards, monkeypatch, settings, acted, act):
    """All replies of a run in which the mechanism left the graphs that are noted in ``acted``."""
    monkeypatch.setattr(silos, act.__name__, lambda graph, *rest: noted(acted, graph, act, rest))
    method = find_method(name)
    pool = small_runs.pool_of(method, shards, **settings)
    return small_runs.messages_of(pool, shards)


def noted(acted, graph, act, rest):
    """What the mechanism made of the first graph of these nodes."""
    key = graph.labels.tobytes()
    if key not in acted:
        acted[key] = act(graph, *rest)
    return acted[key]


def assert_same_replies(one, other):
    assert len(one) == len(other) > 0
    for (asked, first), (_, second) in zip(one, other, strict=True):
        where = f"{asked.phase}, {asked.step}, round {asked.round}, client {asked.client}"
        assert first.metrics == second.metrics or first.metrics != first.metrics, where
        assert first.arrays.keys() == second.arrays.keys(), where
        for group, array in first.arrays.items():
            assert array.tobytes() == second.arrays[group].tobytes(), f"{where}: {group}"


@pytest.mark.parametrize("name", FEDERATED)
def test_graphs_with_the_same_flips_give_the_same_replies(name, small_shards, monkeypatch):
    acted: dict = {}
    both = [
        replies(name, shards, monkeypatch, RESPONSE, acted, perturbed)
        for shards in (small_shards, rewired(small_shards))
    ]
    assert len(acted) == small_shards.clients
    assert_same_replies(*both)


def test_other_flips_give_others(small_shards, monkeypatch):
    both = [
        replies("fedavg", shards, monkeypatch, RESPONSE, {}, perturbed)
        for shards in (small_shards, rewired(small_shards))
    ]
    with pytest.raises(AssertionError):
        assert_same_replies(*both)


@pytest.mark.parametrize("name", ["fedavg", "fedavg-warm"])
def test_graphs_with_the_same_sums_give_the_same_replies(name, small_shards, monkeypatch):
    acted: dict = {}
    both = [
        replies(name, shards, monkeypatch, SUMS, acted, aggregated)
        for shards in (small_shards, rewired(small_shards))
    ]
    assert_same_replies(*both)
