"""Which regime silos are in: do test nodes have counterparties of whom the label is known?

Where part of a ring is known, the labels of counterparties say much; where rings are found whole,
they mislead. Which of the two holds depends on how training and test nodes were divided.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from feddep.graph.graph import Graph, Part


def regime_of(graphs: Sequence[Graph], rare: int, joined: Graph | None) -> dict[str, Any]:
    """How many test nodes of the rare class have a training node of it as a neighbour.

    Args:
        graphs: of every silo.
        rare: the class that is looked for.
        joined: the graph with the edges between silos, where a simulation has it.
    """
    found = [_confirmed(graph, rare) for graph in graphs]
    regime: dict[str, Any] = {
        "test_nodes_of_the_class": [wanted for _, wanted in found],
        "with_confirmed_neighbour_in_the_silo": [known for known, _ in found],
    }
    if joined is not None:
        regime["with_confirmed_neighbour_anywhere"] = _confirmed(joined, rare)[0]
    outside = [graph.outside for graph in graphs]
    if any(links is not None for links in outside):
        regime["links_out_of_the_silo"] = [0 if links is None else len(links) for links in outside]
    return regime


def _confirmed(graph: Graph, rare: int) -> tuple[int, int]:
    edges = graph.edge_list()
    known = graph.mask(Part.TRAIN) & (graph.labels == rare)
    touched = np.zeros(graph.nodes, bool)
    touched[edges[known[edges[:, 1]], 0]] = True
    touched[edges[known[edges[:, 0]], 1]] = True
    wanted = graph.mask(Part.TEST) & (graph.labels == rare)
    return int((wanted & touched).sum()), int(wanted.sum())
