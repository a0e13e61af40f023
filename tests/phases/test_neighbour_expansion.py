"""FedGNN's third party, on the six nodes in two silos of the oracle's test."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from feddep.algorithms import find_method
from feddep.federation.phase import Ask
from feddep.graph.graph import Graph, Part
from feddep.graph.shard import Shards
from feddep.learning.mending import AddedNodes
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.phases.neighbour_expansion import NeighbourExpansion
from feddep.scenario.build import initial_server_state

# Row v is v + 1 at column v, so that rows cannot be mistaken for each other.
FEATURES = np.diag(np.arange(1, 7)).astype(np.float32)
# Silo 0 holds nodes 0, 2, 4 and silo 1 nodes 1, 3, 5. Lost: 0-1, 0-3, 2-3.
EDGES = [[0, 2], [0, 1], [0, 3], [2, 3], [3, 5]]
OWNER = np.array([0, 1, 0, 1, 0, 1])


class Conversation:
    """The phase from its start to its end, with what was said."""

    def __init__(self, sparse, owner=OWNER):
        features = sp.csr_array(FEATURES) if sparse else FEATURES
        split = [Part.TRAIN] * 6
        shards = Shards(
            Graph.from_edges(EDGES, features, [0, 1] * 3, split=split), owner, "given", 0
        )
        spec = LearningSpec(features=6, classes=2)
        self.phase = NeighbourExpansion()
        self.silos = [Silo(i, g, spec, torch.device("cpu")) for i, g in enumerate(shards)]
        self.states = [{"kept": np.ones(1)} for _ in self.silos]
        self.said = []
        before = initial_server_state(shards, find_method("fedgnn"))
        ask = Ask(shards.clients, self.phase.name, 0, self.send)
        after, report = self.phase.serve(spec, ask, before)
        assert after is before
        assert report is None

    def send(self, requests):
        replies = []
        for request in requests:
            state, silo = self.states[request.client], self.silos[request.client]
            reply, self.states[request.client] = self.phase.answer(request, state, silo)
            replies.append(reply)
            self.said.append((request, reply))
        return replies

    def mended(self, client):
        """The client's graph with its new nodes."""
        found, _ = AddedNodes().mend(None, self.silos[client], self.states[client], 0)
        return found.silo.graph


def rows_of(graph):
    return graph.features.toarray() if sp.issparse(graph.features) else graph.features


@pytest.fixture(params=[True, False], ids=["sparse", "dense"])
def talk(request):
    return Conversation(request.param)


def test_each_neighbour_is_added_once_though_two_own_nodes_link_to_it(talk):
    # Nodes 0, 2, 4 of silo 0 are joined by 1 and 3, as numbers 3 and 4; 3 is a neighbour of both.
    assert talk.mended(0).edge_list().tolist() == [[0, 1], [0, 3], [0, 4], [1, 4]]
    # Nodes 1, 3, 5 of silo 1 are joined by 0 and 2; 0 is a neighbour of both.
    assert talk.mended(1).edge_list().tolist() == [[0, 3], [1, 2], [1, 3], [1, 4]]


def test_new_nodes_have_the_true_neighbours_features(talk):
    assert np.array_equal(rows_of(talk.mended(0)), FEATURES[[0, 2, 4, 1, 3]])
    assert np.array_equal(rows_of(talk.mended(1)), FEATURES[[1, 3, 5, 0, 2]])
    for client in range(2):
        sparse = sp.issparse(talk.silos[client].graph.features)
        assert sp.issparse(talk.mended(client).features) == sparse


def test_new_nodes_are_neither_trained_nor_scored_on(talk):
    assert talk.mended(0).split.tolist() == [Part.TRAIN] * 3 + [Part.NONE] * 2
    assert talk.mended(0).labels.tolist() == [0, 0, 0, -1, -1]


def test_clients_show_the_features_of_nodes_at_lost_edges_only(talk):
    shown = [(q.arrays["nodes"].tolist(), a.arrays) for q, a in talk.said if q.step == "show"]
    assert [nodes for nodes, _ in shown] == [[0, 1], [0, 1]]  # 0 and 2; 1 and 3
    for (_, arrays), values in zip(shown, [[1, 3], [2, 4]], strict=True):
        numbers = arrays.get("features/data", arrays.get("features/rows"))
        assert numbers[numbers > 0].tolist() == values
    assert all(not a.arrays for q, a in talk.said if q.step == "receive")


def test_what_a_client_knew_before_is_kept(talk):
    assert all("kept" in state for state in talk.states)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("owner", [[0] * 6, [0, 0, 0, 0, 1, 0]], ids=["alone", "not linked"])
def test_without_lost_edges_nothing_is_added(sparse, owner):
    talk = Conversation(sparse, np.array(owner))
    for client, silo in enumerate(talk.silos):
        found = talk.mended(client)
        assert found.edge_list().tolist() == silo.graph.edge_list().tolist()
        assert np.array_equal(rows_of(found), rows_of(silo.graph))
