"""A cap on how many examples an edge can touch; without one DP-SGD has no price for an edge.

An example is a node v with the neighbour lists of all nodes within L - 1 hops. On the outermost
hop lists are read whole. On the others a node may occur in K lists at most: of all that name it, K
chosen at random keep it. So u's whole list is read by u itself, by at most K nodes one hop away, K²
two hops away, and so on: by Σ_{i<L} Kⁱ examples in all.

Adding the edge {a, b} changes two whole lists, those of a and b. Of the capped ones a's may gain b;
if K lists name b already, that of some x loses it then, and no more changes if the choices in the
two graphs are coupled. The same holds for b's list and a. But x's list named b before, so whoever
reads it reads b's whole list one hop on: x touches nobody else. So an undirected edge changes at
most 2 Σ_{i<L} Kⁱ examples. Daigavane et al. 2021 count the influence of a node alike.
"""

import numpy as np
import numpy.typing as npt

from feddep.graph.graph import Graph
from feddep.graph.sampling import Lists


def touched_examples(occurrences: int, hops: int) -> int:
    """2 Σ_{i<L} Kⁱ, examples that one undirected edge can change."""
    return 2 * sum(int(occurrences**i) for i in range(hops))


def capped_lists(graph: Graph, most: int, priority: npt.NDArray[np.float64]) -> Lists:
    """Neighbour lists in which no node occurs more than ``most`` times.

    Args:
        graph: whose lists.
        most: K.
        priority: ``(2E,)``, a random number for every entry of every node's list, in the graph's
            order. Of the neighbours of b, those with the smallest numbers keep b in their lists.
    """
    node = np.repeat(np.arange(graph.nodes), graph.degrees)
    order = np.lexsort((priority, node))
    rank = np.arange(len(node)) - np.repeat(graph.indptr[:-1], graph.degrees)
    kept = np.sort(order[rank < most])
    reader, named = graph.indices[kept], node[kept]
    counts = np.bincount(reader, minlength=graph.nodes)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = named[np.lexsort((named, reader))].astype(np.int32)
    for array in (indptr, indices):
        array.flags.writeable = False  # as the graph's own
    return Lists(indptr, indices)
