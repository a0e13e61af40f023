"""A cap on how many examples an edge can touch; without one DP-SGD has no price for an edge.

An example is a node v with the neighbour lists of all nodes within L - 1 hops. On the outermost
hop lists are read whole. On the others a node may occur in at most K lists: of all lists that name
it, K chosen at random keep it. So u's whole list is read by u itself, by at most K nodes one hop
away, K² two hops away, and so on: by Σ_{i<L} Kⁱ examples in all.

Adding the edge {a, b} changes two whole lists, a's and b's. Of the capped lists, a's may gain b;
if K lists named b already, the list of some x then loses it, and nothing else changes if the
choices in the two graphs are coupled: a uniform K-subset of n neighbours and one of n + 1 can be
drawn so that at most one member differs. The same holds for b's list and a. But x's list named b
before, so whoever reads it reads b's whole list one hop further: x adds no examples of its own. So
an undirected edge changes at most 2 Σ_{i<L} Kⁱ examples, and a bound for each pair of coupled
draws is a bound for their mixture. Daigavane et al. 2021 count the influence of a node likewise.
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
