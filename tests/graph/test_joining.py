"""Silos' graphs with links to each other as shards."""

import numpy as np
import pytest

from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.graph.joining import joined
from feddep.graph.outside import OutsideLinks


def silo(ids, edges, outside, labels=None):
    count = len(ids)
    return Graph.from_edges(
        np.array(edges).reshape(-1, 2),
        np.arange(count * 2, dtype=np.float32).reshape(count, 2),
        labels or [0, 1, 0][:count],
        classes=2,
        node_ids=ids,
        split=[1] * count,
        outside=OutsideLinks.of(*zip(*outside, strict=True)) if outside else None,
    )


def two_silos():
    north = silo([10, 11, 12], [(0, 1)], [(0, "south", 20), (2, "south", 99), (1, "west", 20)])
    south = silo([20, 21], [], [(0, "north", 10)])
    return joined([north, south], ["north", "south"], "both", seed=3)


def test_links_to_a_node_of_the_named_silo_are_edges_of_the_whole_graph():
    shards = two_silos()
    assert shards.graph.node_ids.tolist() == [10, 11, 12, 20, 21]
    assert shards.graph.edge_list().tolist() == [[0, 1], [0, 3]]  # once, though both name it
    assert shards.lost_edges().tolist() == [[0, 3]]
    assert (shards.seed, shards.kind, shards.split) == (3, "given", "given")


def test_each_silo_keeps_its_own_list_of_links():
    north, south = two_silos()
    assert north.outside.ids.tolist() == [20, 20, 99]
    assert south.outside.silo_names.tolist() == ["north"]
    assert two_silos().links == "known"


def test_silos_without_links_are_shards_that_know_none():
    shards = joined([silo([1, 2], [(0, 1)], []), silo([3], [], [])], ["a", "b"])
    assert shards.links == "lost"
    assert shards.lost_share == 0


@pytest.mark.parametrize(
    ("graphs", "names", "told"),
    [
        ([silo([1, 2], [], []), silo([2], [], [])], ["a", "b"], "same id"),
        ([silo([1], [], [])], ["a", "b"], "a name for each"),
        ([silo([1], [], []), silo(["x"], [], [])], ["a", "b"], "whole numbers"),
        ([silo([1], [], []), silo([2], [], [])], ["a", "a"], "name of its own"),
    ],
)
def test_what_does_not_fit_together_is_refused(graphs, names, told):
    with pytest.raises(InputError, match=told):
        joined(graphs, names)
