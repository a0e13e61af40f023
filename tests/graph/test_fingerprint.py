"""A graph is known again by what a model computes from: its edges and its features."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from feddep.graph.fingerprint import fingerprint
from feddep.graph.graph import Graph
from feddep.graph.shard import Shards, read_shards, write_shards


def tiny(edges=((0, 1), (1, 2)), features=((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)), **more) -> Graph:
    return Graph.from_edges(edges, np.array(features, np.float32), [0, 1, -1], **more)


def test_labels_split_names_and_the_order_of_edges_do_not_matter():
    other = replace(tiny(node_ids=["a", "b", "c"], name="other"), labels=np.array([-1, -1, 0]))
    assert fingerprint(other) == fingerprint(tiny())
    assert fingerprint(tiny(edges=[(2, 1), (1, 0)])) == fingerprint(tiny())


@pytest.mark.parametrize(
    "other",
    [
        tiny(edges=[(0, 1)]),
        tiny(edges=[(0, 1), (0, 2)]),
        tiny(features=((1.0, 0.0), (0.0, 1.0), (1.0, 2.0))),
        tiny(features=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 1.0, 0.0))),
    ],
    ids=["an edge less", "another edge", "another number", "another column"],
)
def test_edges_and_features_do(other: Graph):
    assert fingerprint(other) != fingerprint(tiny())


def test_shards_are_known_again_after_a_while_on_the_disk(small_shards: Shards, tmp_path: Path):
    write_shards(small_shards, tmp_path / "shards")
    again = read_shards(tmp_path / "shards")
    assert list(map(fingerprint, again)) == list(map(fingerprint, small_shards))
    assert len(set(map(fingerprint, again))) == 3
