"""Impairing a graph: hiding some nodes, so that we know what their neighbours are missing.

Source: the paper's sections 3.1 and D.2. A generator of missing neighbours needs ground truth, and
nobody knows the edges to other silos. So a silo hides a share h of its own nodes, with all their
links, and learns to generate those.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from feddep.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Impaired:
    """A graph without its hidden nodes, and what the remaining ones are missing.

    Attributes:
        graph: the impaired graph, m nodes.
        remaining: ``(m,)`` the remaining nodes in the numbering of the graph they come from.
        missing_degree: ``(m,)`` int64, number of hidden neighbours n_v of each remaining node.
        hidden: ``(H,)`` hidden neighbours in the numbering of the original graph, those of
            remaining node i at ``start[i] : start[i + 1]``.
        start: ``(m+1,)`` where each node's hidden neighbours start.
    """

    graph: Graph
    remaining: npt.NDArray[np.int64]
    missing_degree: npt.NDArray[np.int64]
    hidden: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]


def impair(
    graph: Graph, pool: npt.NDArray[np.int64], share: float, rng: np.random.Generator
) -> Impaired:
    """Hides ``share`` of the nodes in ``pool`` (rounded) with all their links.

    At least one node of the graph always remains.
    """
    count = min(round(share * len(pool)), graph.nodes - 1)
    is_hidden = np.zeros(graph.nodes, bool)
    is_hidden[rng.choice(pool, size=count, replace=False)] = True
    remaining = np.flatnonzero(~is_hidden)

    owner = np.repeat(np.arange(graph.nodes), graph.degrees)
    lost = is_hidden[graph.indices] & ~is_hidden[owner]
    missing_degree = np.bincount(owner[lost], minlength=graph.nodes)[remaining]
    return Impaired(
        graph=graph.subgraph(remaining),
        remaining=remaining,
        missing_degree=missing_degree,
        hidden=graph.indices[lost],
        start=np.concatenate([[0], np.cumsum(missing_degree)]),
    )
