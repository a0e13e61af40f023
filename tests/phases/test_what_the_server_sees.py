"""A server that records a whole run of linked silos, byte by byte."""

import numpy as np
import pytest

import small_runs
from feddep.algorithms import METHODS
from feddep.graph.graph import Graph
from feddep.graph.shard import Shards
from feddep.learning.link_rows import rows_for_peers
from feddep.runtime.client_pool import ClientPool

METHOD = METHODS["feddep-linked"]
SETTINGS = {"links.noise": "none", "training.rounds": 2}


@pytest.fixture(scope="module")
def apart() -> Shards:
    """Clients 0 and 1 have links in common; client 2 has none with anybody."""
    rng = np.random.default_rng(0)
    nodes = 120
    owner = np.repeat([0, 1, 2], nodes // 3)
    edges = rng.integers(nodes, size=(400, 2))
    edges = edges[(owner[edges] == 2).all(axis=1) | (owner[edges] < 2).all(axis=1)]
    labels, split = np.arange(nodes) % 2, np.tile([1, 1, 2, 2, 3, 3], nodes // 6)
    graph = Graph.from_edges(
        edges,
        rng.random((nodes, 4)),
        labels,
        split=split,
        node_ids=[f"DE{n:016d}" for n in rng.permutation(nodes)],
    )
    return Shards(graph, owner, "given", 0).with_known_links()


def said_in_a_run(shards: Shards, seed: int = 0) -> tuple[ClientPool, list]:
    pool = small_runs.pool_of(METHOD, shards, **SETTINGS, seed=seed)
    return pool, small_runs.messages_of(pool, shards)


def sealed(said: list) -> dict[tuple[str, int, str], bytes]:
    """Every sealed message: its step, its sender, and whom it is for."""
    return {
        (request.step, request.client, name): array.tobytes()
        for request, reply in said
        for name, array in reply.arrays.items()
        if name.startswith(("tags/", "answers/"))
    }


@pytest.fixture(scope="module")
def seen(apart):
    return said_in_a_run(apart)


def test_who_has_links_in_common_does_not_show(seen):
    """Every pair sends each other as much, whether there is anything to tell or not."""
    _, said = seen
    found = sealed(said)
    assert len(found) == 2 * 3 * 2  # two exchanges, every client to both others
    assert {len(message) for message in found.values()} == {1024 + 16}


def test_no_id_and_no_code_is_readable(seen, apart):
    pool, said = seen
    everything = b"".join(
        array.tobytes()
        for request, reply in said
        for array in (*request.arrays.values(), *reply.arrays.values())
    )
    assert not any(one.encode() in everything for one in apart.graph.node_ids)
    state = pool.states[0]
    shown = state["links/1/shown"]
    codes = apart[0].labels[shown].astype(np.uint16)
    assert len(codes) > 20
    assert codes.tobytes() not in everything
    messages = sealed(said)
    counts = [
        np.bincount(np.frombuffer(m, np.uint8), minlength=256).max() for m in messages.values()
    ]
    assert max(counts) < 25  # as of random bytes; padding or small numbers would stand out


def test_two_runs_have_no_eight_bytes_in_common(apart, seen):
    _, other = said_in_a_run(apart, seed=1)
    one, two = (
        {m[at : at + 8] for m in sealed(said).values() for at in range(0, len(m), 8)}
        for said in (seen[1], other)
    )
    assert len(one) > 1000
    assert not one & two


def test_a_silo_answers_nobody_that_it_did_not_meet(seen):
    pool, _ = seen
    silo = pool.clients[0].silo
    assert rows_for_peers(silo, {}, np.zeros((silo.graph.nodes, 1)), None) == {}
