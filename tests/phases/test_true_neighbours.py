"""The oracle's third party, on six nodes in two silos."""

import numpy as np
import pytest

from feddep.algorithms import find_method
from feddep.federation.messages import Request
from feddep.federation.phase import Ask
from feddep.graph.graph import Graph
from feddep.graph.shard import Shards
from feddep.learning.prototypes import EmbeddingSpec
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.generator import GeneratorSpec
from feddep.phases.true_neighbours import TrueNeighbours
from feddep.scenario.build import initial_server_state

# Silo 0 holds nodes 0, 2, 4 and silo 1 nodes 1, 3, 5. Lost: 0-1, 0-3, 2-3.
GRAPH = Graph.from_edges(
    [[0, 2], [0, 1], [0, 3], [2, 3], [3, 5]], np.eye(6, dtype=np.float32), [0, 1] * 3
)
SHARDS = Shards(GRAPH, np.array([0, 1, 0, 1, 0, 1]), "given", 0)
EMBEDDINGS = [
    np.array([[1, 0], [2, 0], [3, 0]], np.float32),
    np.array([[0, 1], [0, 2], [0, 3]], np.float32),
]


def missing_embeddings(centred: bool):
    spec = LearningSpec(
        features=6,
        classes=2,
        embedding=EmbeddingSpec(width=2),
        generator=GeneratorSpec(centred=centred),
        fusion="all",
    )
    phase, silos = TrueNeighbours(), [Silo(i, g, spec, None) for i, g in enumerate(SHARDS)]
    states = [{"embeddings": rows} for rows in EMBEDDINGS]
    sent = []

    def send(requests: list[Request]):
        replies = []
        for request in requests:
            reply, states[request.client] = phase.answer(
                request, states[request.client], silos[request.client]
            )
            replies.append(reply)
            sent.append(reply)
        return replies

    phase.serve(
        spec, Ask(2, phase.name, 0, send), initial_server_state(SHARDS, find_method("oracle"))
    )
    return [state["missing_embeddings"] for state in states], sent


def test_each_node_gets_the_mean_of_its_lost_neighbours():
    found, _ = missing_embeddings(centred=False)
    assert found[0].tolist() == [[0, 1.5], [0, 2], [0, 0]]  # nodes 0, 2, 4
    assert found[1].tolist() == [[1, 0], [1.5, 0], [0, 0]]  # nodes 1, 3, 5


def test_centred_means_are_taken_over_the_nodes_that_miss_something():
    found, _ = missing_embeddings(centred=True)
    assert found[0].tolist() == [[0, -0.25], [0, 0.25], [0, 0]]


def test_only_nodes_at_lost_edges_are_shown():
    _, sent = missing_embeddings(centred=False)
    shown = [reply.arrays["embeddings"].tolist() for reply in sent if reply.arrays]
    assert shown == [[[1, 0], [2, 0]], [[0, 1], [0, 2]]]


def test_crossings_name_the_own_node_the_other_client_and_the_neighbour_there():
    assert [rows.tolist() for rows in SHARDS.crossings()] == [
        [[0, 1, 0], [0, 1, 1], [1, 1, 1]],
        [[0, 0, 0], [1, 0, 0], [1, 0, 1]],
    ]


@pytest.mark.parametrize("name", ["feddep", "fedavg", "local"])
def test_other_methods_server_knows_no_edge(name):
    assert initial_server_state(SHARDS, find_method(name)) == {}
