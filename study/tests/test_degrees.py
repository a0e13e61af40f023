"""What docs/privacy.md says of the published graphs' degrees and of how often lists are drawn."""

import os

import numpy as np
import pytest

import feddep
from feddep.graph.sampling import NeighbourSampler
from missing import DATA

pytestmark = pytest.mark.skipif(not os.environ.get("FEDDEP_DATA"), reason=DATA)


@pytest.mark.parametrize(
    ("name", "at_most_five", "just_one"),
    [("cora", 0.846, 0.179), ("citeseer", 0.898, 0.400), ("pubmed", 0.791, 0.461)],
)
def test_most_nodes_have_few_neighbours(name, at_most_five, just_one):
    degrees = feddep.load(name).degrees
    assert (degrees <= 5).mean() == pytest.approx(at_most_five, abs=5e-4)
    assert (degrees == 1).mean() == pytest.approx(just_one, abs=5e-4)


def test_a_list_is_drawn_more_than_once_an_epoch():
    epochs, drawn = 50, []
    for graph in feddep.partition(feddep.load("cora"), clients=5, seed=0):
        counts = np.zeros((epochs, graph.nodes))
        rng = np.random.default_rng(0)
        nodes = graph.members(feddep.Part.TRAIN)
        for epoch in counts:
            for ego in NeighbourSampler(graph, 5, 2).batches(nodes, 32, rng):
                for block in ego.blocks:
                    epoch[ego.nodes[: block.targets]] += 1
        drawn.append(counts)
    counts = np.concatenate(drawn, axis=1)
    assert counts.mean() == pytest.approx(2.5, abs=0.05)
    assert counts.mean(axis=0).max() == pytest.approx(11.4, abs=0.05)
    assert counts.max() == 12
