"""Neighbour sampling: the ego-graphs behind a mini-batch, layer by layer.

Source: Hamilton et al. 2017, algorithm 2; the paper's section 4.1 (fan-out 5 in each of two hops)
and its Theorem 3.1, which needs the with-replacement rule for short lists.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from feddep.graph.graph import Graph

Ints = npt.NDArray[np.int32]
Read = Callable[[npt.NDArray[np.int64]], tuple[npt.NDArray[np.int64], Ints]]
"""Gives the neighbour lists of some nodes, one after the other, and where each starts."""


class Lists(NamedTuple):
    """Neighbour lists in which an edge need not appear at both of its ends.

    Attributes:
        indptr: ``(n+1,)`` int64, where each node's list starts.
        indices: int32, the lists.
    """

    indptr: npt.NDArray[np.int64]
    indices: Ints


@dataclass(frozen=True, eq=False)
class Block:
    """One convolution's bipartite graph, from source nodes to the first ``targets`` of them.

    Attributes:
        indptr: ``(targets+1,)`` int64, where each target's list of sources starts.
        indices: positions among the sources; the targets are the first of the sources.
        targets: number of nodes that the convolution computes.
    """

    indptr: npt.NDArray[np.int64]
    indices: Ints
    targets: int


@dataclass(frozen=True, eq=False)
class EgoGraphs:
    """What K convolutions need to compute ``blocks[-1].targets`` nodes.

    Attributes:
        nodes: ``(s,)`` graph nodes; those to be computed come first.
        blocks: one for each convolution, in the order of computation.
    """

    nodes: npt.NDArray[np.int64]
    blocks: tuple[Block, ...]

    @property
    def targets(self) -> npt.NDArray[np.int64]:
        """The nodes that are computed."""
        return self.nodes[: self.blocks[-1].targets] if self.blocks else self.nodes


def whole_graph(graph: Graph, layers: int) -> EgoGraphs:
    """All nodes with their full neighbour lists in every layer."""
    block = Block(graph.indptr, graph.indices, graph.nodes)
    return EgoGraphs(np.arange(graph.nodes), (block,) * layers)


def full_ego_graphs(
    graph: Graph, targets: npt.NDArray[np.int64], layers: int, inner: Lists | None = None
) -> EgoGraphs:
    """The ego-graphs of ``targets`` (distinct nodes) with full neighbour lists.

    Args:
        graph: whose lists.
        targets: the nodes to compute.
        layers: K, number of convolutions.
        inner: lists to read in place of the full ones on all but the outermost hop.
    """
    whole = Lists(graph.indptr, graph.indices)
    hops = [*[whole if inner is None else inner] * (layers - 1), whole]
    return _grow(targets, [partial(_whole_lists, *lists) for lists in hops[:layers]])


def separate_ego_graphs(
    graph: Graph, targets: npt.NDArray[np.int64], layers: int, inner: Lists | None = None
) -> tuple[EgoGraphs, npt.NDArray[np.int64]]:
    """The same, side by side: a node that several targets see appears once for each of them.

    Returns:
        The ego-graphs, and for every node the position of the target that it belongs to.
    """
    whole, n = Lists(graph.indptr, graph.indices), graph.nodes

    def read(lists: Lists, copies: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Ints]:
        starts, found = _whole_lists(*lists, copies % n)
        return starts, found + np.repeat(copies - copies % n, np.diff(starts))

    # Node v in the i-th ego-graph has the number i n + v.
    hops = [*[whole if inner is None else inner] * (layers - 1), whole]
    grown = _grow(
        np.arange(len(targets)) * n + targets, [partial(read, lists) for lists in hops[:layers]]
    )
    return EgoGraphs(grown.nodes % n, grown.blocks), grown.nodes // n


@dataclass(frozen=True, eq=False)
class NeighbourSampler:
    """Draws fixed-size neighbour lists, anew for every batch and layer.

    A list of more than ``fanout`` entries is sampled without replacement, a shorter one (or one
    of just that length) with replacement; an isolated node gets an empty list.

    Args:
        graph: the graph to sample from.
        fanout: d, entries drawn for each list.
        layers: K, number of convolutions.
    """

    graph: Graph
    fanout: int
    layers: int

    def sample(self, targets: npt.NDArray[np.int64], rng: np.random.Generator) -> EgoGraphs:
        """The sampled K-hop ego-graphs of ``targets`` (distinct nodes)."""
        indptr, indices = self.graph.indptr, self.graph.indices
        return _grow(
            targets, [lambda nodes: _draw(indptr, indices, nodes, self.fanout, rng)] * self.layers
        )

    def batches(
        self, nodes: npt.NDArray[np.int64], size: int, rng: np.random.Generator, epochs: int = 1
    ) -> Iterator[EgoGraphs]:
        """In each epoch every one of ``nodes`` once, in random order, ``size`` at a time."""
        for _ in range(epochs):
            order = rng.permutation(nodes)
            for start in range(0, len(order), size):
                yield self.sample(order[start : start + size], rng)


def _grow(targets: npt.NDArray[np.int64], hops: Sequence[Read]) -> EgoGraphs:
    """Ego-graphs from the targets outwards, with the neighbour lists that each hop gives."""
    nodes = targets.astype(np.int64)
    blocks: list[Block] = []
    for read in hops:
        count = len(nodes)
        indptr, neighbours = read(nodes)
        nodes, indices = _renumber(nodes, neighbours)
        blocks.append(Block(indptr, indices, count))
    return EgoGraphs(nodes, tuple(reversed(blocks)))


@njit(cache=True)
def _whole_lists(
    indptr: npt.NDArray[np.int64], indices: Ints, nodes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], Ints]:
    """The full lists of ``nodes``, one after the other."""
    starts = np.zeros(len(nodes) + 1, np.int64)
    for i in range(len(nodes)):
        starts[i + 1] = starts[i] + indptr[nodes[i] + 1] - indptr[nodes[i]]
    lists = np.empty(starts[-1], np.int32)
    for i in range(len(nodes)):
        lists[starts[i] : starts[i + 1]] = indices[indptr[nodes[i]] : indptr[nodes[i] + 1]]
    return starts, lists


@njit(cache=True)
def _draw(
    indptr: npt.NDArray[np.int64],
    indices: Ints,
    nodes: npt.NDArray[np.int64],
    fanout: int,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], Ints]:
    """The sampled lists of ``nodes``, one after the other."""
    starts = np.empty(len(nodes) + 1, np.int64)
    drawn = np.empty(len(nodes) * fanout, np.int32)
    filled = 0
    for i in range(len(nodes)):
        starts[i] = filled
        first = indptr[nodes[i]]
        degree = indptr[nodes[i] + 1] - first
        if degree == 0:
            continue
        if fanout >= degree:
            for j in range(fanout):
                drawn[filled + j] = indices[first + rng.integers(0, degree)]
        else:
            # Floyd's algorithm: a uniform subset with one draw for each element.
            for j in range(fanout):
                candidate = indices[first + rng.integers(0, degree - fanout + j + 1)]
                for k in range(filled, filled + j):
                    if drawn[k] == candidate:
                        candidate = indices[first + degree - fanout + j]
                        break
                drawn[filled + j] = candidate
        filled += fanout
    starts[len(nodes)] = filled
    return starts, drawn[:filled]


@njit(cache=True)
def _hash_slot(node: np.int64, mask: int) -> np.int64:
    return (node * 0x9E3779B1) & mask


@njit(cache=True)
def _renumber(
    targets: npt.NDArray[np.int64], neighbours: Ints
) -> tuple[npt.NDArray[np.int64], Ints]:
    """Sources = targets, then each other neighbour once; and every neighbour's position in them.

    A small open-addressing table keeps the cost to the batch's size, whatever the graph's.
    """
    size = 16
    while size < 2 * (len(targets) + len(neighbours)):
        size *= 2
    mask = size - 1
    keys = np.full(size, -1, np.int64)
    values = np.empty(size, np.int32)
    sources = np.empty(len(targets) + len(neighbours), np.int64)
    count = 0
    for i in range(len(targets)):
        slot = _hash_slot(targets[i], mask)
        while keys[slot] != -1:
            slot = (slot + 1) & mask
        keys[slot] = targets[i]
        values[slot] = count
        sources[count] = targets[i]
        count += 1
    positions = np.empty(len(neighbours), np.int32)
    for i in range(len(neighbours)):
        node = np.int64(neighbours[i])
        slot = _hash_slot(node, mask)
        while keys[slot] != -1 and keys[slot] != node:
            slot = (slot + 1) & mask
        if keys[slot] == -1:
            keys[slot] = node
            values[slot] = count
            sources[count] = node
            count += 1
        positions[i] = values[slot]
    return sources[:count].copy(), positions
