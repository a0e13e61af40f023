"""Who links to whom, on edges between three clients."""

import numpy as np

from feddep.federation.matching import Matching
from feddep.federation.messages import grouped

# Client 0 has node 0 linked to node 5 of client 2, and node 1 to node 3 of client 1; the edge
# between the latter two clients is 3-5.
CROSSINGS = [
    [[0, 2, 5], [1, 1, 3]],
    [[3, 0, 1], [3, 2, 5]],
    [[5, 0, 0], [5, 1, 3]],
]


def matching(*crossings):
    rows = {str(i): np.array(c, np.int64).reshape(-1, 3) for i, c in enumerate(crossings)}
    return Matching(grouped("crossings", rows) | {"classifier/bias": np.zeros(3)})


def test_nodes_that_others_link_to_are_listed_once_in_order():
    assert [nodes.tolist() for nodes in matching(*CROSSINGS).linked] == [[0, 1], [3], [5]]


def test_own_nodes_are_this_end_of_each_lost_edge():
    found = matching(*CROSSINGS)
    assert [found.own_nodes(c).tolist() for c in range(3)] == [[0, 1], [3, 3], [5, 5]]


def test_places_are_the_other_end_among_all_linked_nodes_put_together():
    # Together: nodes 0 and 1 of client 0, node 3 of client 1, node 5 of client 2.
    found = matching(*CROSSINGS)
    assert [found.places(c).tolist() for c in range(3)] == [[3, 2], [1, 3], [0, 2]]


def test_a_client_without_lost_edges_shows_and_gets_nothing():
    found = matching([[0, 2, 4]], [], [[4, 0, 0]])
    assert [nodes.tolist() for nodes in found.linked] == [[0], [], [4]]
    assert found.own_nodes(1).tolist() == found.places(1).tolist() == []
    assert found.places(0).tolist() == [1]


def test_more_than_ten_clients_are_taken_in_the_order_of_their_numbers():
    crossings = [[] for _ in range(12)]
    crossings[2], crossings[11] = [[7, 11, 8]], [[8, 2, 7]]
    found = matching(*crossings)
    assert found.own_nodes(2).tolist() == found.linked[2].tolist() == [7]
    assert found.own_nodes(11).tolist() == found.linked[11].tolist() == [8]


def test_edges_to_those_who_showed_nothing_are_left_out():
    found = matching(*CROSSINGS).among([0, 1])
    assert [nodes.tolist() for nodes in found.linked] == [[0, 1], [3], []]
    assert [found.own_nodes(c).tolist() for c in range(3)] == [[1], [3], [5, 5]]
    assert [found.places(c).tolist() for c in range(3)] == [[2], [1], [0, 2]]


def test_if_all_showed_their_nodes_nothing_changes():
    whole, same = matching(*CROSSINGS), matching(*CROSSINGS).among([2, 0, 1])
    for client in range(3):
        assert np.array_equal(whole.linked[client], same.linked[client])
        assert np.array_equal(whole.own_nodes(client), same.own_nodes(client))
        assert np.array_equal(whole.places(client), same.places(client))
