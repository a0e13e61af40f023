"""Neighbour sampling: the ego-graphs behind a mini-batch, layer by layer.

Source: Hamilton et al. 2017, algorithm 2; the paper's section 4.1 (fan-out 5 in each of two hops)
and its Theorem 3.1, which needs the with-replacement rule for short lists.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from feddep.graph.flows import shares_of
from feddep.graph.graph import Graph

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Read = Callable[[npt.NDArray[np.int64]], tuple[npt.NDArray[np.int64], Ints, Floats | None]]
"""Gives the neighbour lists of some nodes, one after the other: where each starts, the entries, and
how much each counts if they do not count alike."""


class Lists(NamedTuple):
    """Neighbour lists in which an edge need not appear at both of its ends.

    Attributes:
        indptr: ``(n+1,)`` int64, where each node's list starts.
        indices: int32, the lists.
        ways: ``(W, entries)``, how much each entry counts in each of W means; None if alike.
    """

    indptr: npt.NDArray[np.int64]
    indices: Ints
    ways: Floats | None = None


@dataclass(frozen=True, eq=False)
class Block:
    """One convolution's bipartite graph, from source nodes to the first ``targets`` of them.

    Attributes:
        indptr: ``(targets+1,)`` int64, where each target's list of sources starts.
        indices: positions among the sources; the targets are the first of the sources.
        targets: number of nodes that the convolution computes.
        shares: ``(W, entries)``, the share of each source in each of W means; None if all sources
            of a target have the same share in one.
    """

    indptr: npt.NDArray[np.int64]
    indices: Ints
    targets: int
    shares: Floats | None = None


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


def whole_block(graph: Graph, ways: Floats | None = None) -> Block:
    """All nodes with their full neighbour lists, whose entries may count differently."""
    shares = None if ways is None else shares_of(graph.indptr, ways)
    return Block(graph.indptr, graph.indices, graph.nodes, shares)


def whole_graph(graph: Graph, layers: int, ways: Floats | None = None) -> EgoGraphs:
    """:func:`whole_block` in every layer."""
    block = whole_block(graph, ways)
    return EgoGraphs(np.arange(graph.nodes), (block,) * layers)


def full_ego_graphs(
    graph: Graph,
    targets: npt.NDArray[np.int64],
    layers: int,
    inner: Lists | None = None,
    *,
    ways: Floats | None = None,
) -> EgoGraphs:
    """The ego-graphs of ``targets`` (distinct nodes) with full neighbour lists.

    Args:
        graph: whose lists.
        targets: the nodes to compute.
        layers: K, number of convolutions.
        inner: lists to read in place of the full ones on all but the outermost hop.
        ways: how much each entry of the graph's lists counts, if not alike.
    """
    whole = Lists(graph.indptr, graph.indices, ways)
    hops = [*[whole if inner is None else inner] * (layers - 1), whole]
    return _grow(targets, [partial(_read, lists) for lists in hops[:layers]])


def separate_ego_graphs(
    graph: Graph, targets: npt.NDArray[np.int64], layers: int, inner: Lists | None = None
) -> tuple[EgoGraphs, npt.NDArray[np.int64]]:
    """The same, side by side: a node that several targets see appears once for each of them.

    Returns:
        The ego-graphs, and for every node the position of the target that it belongs to.
    """
    whole, n = Lists(graph.indptr, graph.indices), graph.nodes

    def read(
        lists: Lists, copies: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], Ints, None]:
        starts, found, _ = _read(lists, copies % n)
        return starts, found + np.repeat(copies - copies % n, np.diff(starts)), None

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
        ways: how much each entry of the graph's lists counts, if not alike; among those drawn.
    """

    graph: Graph
    fanout: int
    layers: int
    ways: Floats | None = None

    def sample(self, targets: npt.NDArray[np.int64], rng: np.random.Generator) -> EgoGraphs:
        """The sampled K-hop ego-graphs of ``targets`` (distinct nodes)."""
        indptr, indices, ways = self.graph.indptr, self.graph.indices, self.ways

        def read(
            nodes: npt.NDArray[np.int64],
        ) -> tuple[npt.NDArray[np.int64], Ints, Floats | None]:
            starts, places = _draw(indptr, nodes, self.fanout, rng)
            return starts, indices[places], None if ways is None else ways[:, places]

        return _grow(targets, [read] * self.layers)

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
        indptr, neighbours, counts = read(nodes)
        nodes, indices = _renumber(nodes, neighbours)
        shares = None if counts is None else shares_of(indptr, counts)
        blocks.append(Block(indptr, indices, count, shares))
    return EgoGraphs(nodes, tuple(reversed(blocks)))


def _read(
    lists: Lists, nodes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], Ints, Floats | None]:
    """The full lists of ``nodes``."""
    starts, found = _whole_lists(lists.indptr, lists.indices, nodes)
    if lists.ways is None:
        return starts, found, None
    counts = [_whole_lists(lists.indptr, way, nodes)[1] for way in lists.ways]
    return starts, found, np.stack(counts)


@njit(cache=True)
def _whole_lists(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], nodes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """The full lists of ``nodes``, one after the other."""
    starts = np.zeros(len(nodes) + 1, np.int64)
    for i in range(len(nodes)):
        starts[i + 1] = starts[i] + indptr[nodes[i] + 1] - indptr[nodes[i]]
    lists = np.empty(starts[-1], indices.dtype)
    for i in range(len(nodes)):
        lists[starts[i] : starts[i + 1]] = indices[indptr[nodes[i]] : indptr[nodes[i] + 1]]
    return starts, lists


@njit(cache=True)
def _draw(
    indptr: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int64],
    fanout: int,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the sampled entries of the lists of ``nodes`` stand, one list after the other."""
    starts = np.empty(len(nodes) + 1, np.int64)
    drawn = np.empty(len(nodes) * fanout, np.int64)
    filled = 0
    for i in range(len(nodes)):
        starts[i] = filled
        first = indptr[nodes[i]]
        degree = indptr[nodes[i] + 1] - first
        if degree == 0:
            continue
        if fanout >= degree:
            for j in range(fanout):
                drawn[filled + j] = first + rng.integers(0, degree)
        else:
            # Floyd's algorithm: a uniform subset with one draw for each element.
            for j in range(fanout):
                candidate = first + rng.integers(0, degree - fanout + j + 1)
                for k in range(filled, filled + j):
                    if drawn[k] == candidate:
                        candidate = first + degree - fanout + j
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
