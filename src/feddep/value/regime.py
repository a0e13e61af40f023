"""Which regime silos are in: do test nodes have counterparties of whom the label is known?

Where part of a ring is known, the labels of counterparties say much; where rings are found whole,
they mislead. Which of the two holds depends on how training and test nodes were divided, so it is
counted for the run's split and for those by what the nodes are marked with, a case or a time.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.errors import InputError
from feddep.graph import splits
from feddep.graph.graph import Graph, Part
from feddep.seeding import Seeds

RUN = "of the run"


def regime_of(
    graphs: Sequence[Graph], rare: int, joined: Graph | None, seed: int
) -> dict[str, Any]:
    """How many test nodes of the rare class have a training node of it as a neighbour.

    Args:
        graphs: of every silo.
        rare: the class that is looked for.
        joined: the graph with the edges between silos, where a simulation has it.
        seed: of the splits by marks.
    """
    found = [
        {"split": name, **_counted(own, rare, whole)}
        for name, own, whole in _divided(graphs, joined, seed)
    ]
    regime: dict[str, Any] = {**found[0], "splits": found}
    del regime["split"]
    outside = [graph.outside for graph in graphs]
    if any(links is not None for links in outside):
        regime["links_out_of_the_silo"] = [0 if links is None else len(links) for links in outside]
    return regime


def _counted(graphs: Sequence[Graph], rare: int, joined: Graph | None) -> dict[str, Any]:
    found = [_confirmed(graph, rare) for graph in graphs]
    counted: dict[str, Any] = {
        "test_nodes_of_the_class": [int(wanted.sum()) for _, wanted in found],
        "with_confirmed_neighbour_in_the_silo": [int(known.sum()) for known, _ in found],
    }
    if joined is not None:
        known = joined.node_ids[_confirmed(joined, rare)[0]]
        everywhere = [int(np.isin(graph.node_ids, known).sum()) for graph in graphs]
        counted["with_confirmed_neighbour_anywhere"] = sum(everywhere)
        counted["with_confirmed_neighbour_anywhere_by_silo"] = everywhere
    return counted


def _divided(
    graphs: Sequence[Graph], joined: Graph | None, seed: int
) -> Iterator[tuple[str, Sequence[Graph], Graph | None]]:
    """The silos under the run's split and under those by marks that leave something to count."""
    yield RUN, graphs, joined
    marks = [graph.marks for graph in graphs]
    for kind in dict.fromkeys(kind for own in marks if own for kind in own.kinds):
        spec = splits.SplitSpec(by=kind)
        try:
            if joined is None:
                yield f"by {kind}", [_redrawn(graph, spec, seed) for graph in graphs], None
            else:
                whole = _redrawn(joined, spec, seed)
                yield f"by {kind}", [_as_in(whole, graph) for graph in graphs], whole
        except InputError:  # such as a class that nobody could train on
            continue


def _redrawn(graph: Graph, spec: splits.SplitSpec, seed: int) -> Graph:
    return graph.with_split(splits.draw(graph, spec, Seeds(seed)))


def _as_in(whole: Graph, graph: Graph) -> Graph:
    """The silo's graph with the parts that its nodes have in the whole graph."""
    order = np.argsort(whole.node_ids)
    place = order[np.searchsorted(whole.node_ids, graph.node_ids, sorter=order)]
    return graph.with_split(whole.split[place])


def _confirmed(graph: Graph, rare: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which nodes are looked for and have a confirmed neighbour, and which are looked for."""
    edges = graph.edge_list()
    known = graph.mask(Part.TRAIN) & (graph.labels == rare)
    touched = np.zeros(graph.nodes, bool)
    touched[edges[known[edges[:, 1]], 0]] = True
    touched[edges[known[edges[:, 0]], 1]] = True
    wanted = graph.mask(Part.TEST) & (graph.labels == rare)
    return wanted & touched, wanted
