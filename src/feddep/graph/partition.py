"""Who owns which node: a graph divided among M clients with disjoint node sets.

A partition is one array, ``owner[v]`` in 0..M-1. An edge whose ends have different owners is lost
to everyone; :func:`statistics` counts such edges (ΔE in the paper's table of data sets).
"""

import heapq
import random
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Literal

import numpy as np
import numpy.typing as npt

from feddep.errors import InputError, unknown
from feddep.graph.graph import Graph
from feddep.seeding import Seeds

Owner = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class PartitionSpec:
    """How a graph is divided among clients.

    Attributes:
        kind: ``louvain`` (the paper's) keeps communities together, ``random`` ignores the edges,
            ``label-skew`` gives every client its own mix of classes; ``given`` stands for a
            partition that somebody else made.
        clients: M, at least 1.
        concentration: Dirichlet parameter of ``label-skew``: near 0 a class goes to few clients,
            large values give every client the same mix. Other kinds ignore it.
        links: ``lost``, as in the paper, nobody knows an edge between clients; ``known``, both ends
            do, and neither knows what stands at the other.
    """

    kind: Literal["louvain", "random", "label-skew", "given"] = "louvain"
    clients: int = 5
    concentration: float = 0.5
    links: Literal["lost", "known"] = "lost"

    def __post_init__(self) -> None:
        if self.clients < 1:
            raise InputError(f"a partition needs at least 1 client (got {self.clients})")
        if not 0 < self.concentration < inf:
            raise InputError(f"concentration must be a number above 0 (got {self.concentration})")


def assign(graph: Graph, spec: PartitionSpec, seeds: Seeds) -> Owner:
    """The owner of every node, ``(n,)`` in 0..M-1; every client owns at least one node."""
    if spec.kind == "given":
        raise InputError("a given partition comes with its shards; choose louvain to make one")
    if spec.kind not in KINDS:
        raise unknown("partition", spec.kind, KINDS)
    if spec.clients > graph.nodes:
        raise InputError(
            f"expected at most {graph.nodes} clients, one for each node (got {spec.clients}); "
            "lower the number of clients"
        )
    return KINDS[spec.kind](graph, spec, seeds)


def _louvain(graph: Graph, spec: PartitionSpec, seeds: Seeds) -> Owner:
    """Louvain communities packed into M parts of equal size (they differ by one node at most).

    Packing is best fit, largest first: a community goes where it leaves the least room, and one
    that fits nowhere fills the part with the most room, while its other nodes queue up again as a
    smaller community. It is cut in random order, not along its own structure: the authors'
    splitter (FederatedScope's ``LouvainSplitter``) too cuts large communities in arbitrary order,
    and a breadth-first cut stays far below their ΔE on MSAcademic for M = 10, a third of all edges.

    Deviation: theirs are at most 20 nodes larger than n/M, ours are equal.
    """
    community = _communities(graph, seeds.integer("partition", "louvain"))
    shuffled = seeds.stream("partition").permutation(graph.nodes)
    by_community = shuffled[np.argsort(community[shuffled], kind="stable")]
    owner = np.empty(graph.nodes, np.int32)
    sizes = np.bincount(community).tolist()
    for part, piece in _pack(sizes, _equal_sizes(graph.nodes, spec.clients)):
        owner[by_community[piece]] = part
    return owner


def _random(graph: Graph, spec: PartitionSpec, seeds: Seeds) -> Owner:
    """A random permutation cut into M parts of equal size (they differ by one node at most)."""
    owner = np.empty(graph.nodes, np.int32)
    shuffled = seeds.stream("partition").permutation(graph.nodes)
    owner[shuffled] = np.repeat(np.arange(spec.clients), _equal_sizes(graph.nodes, spec.clients))
    return owner


def _label_skew(graph: Graph, spec: PartitionSpec, seeds: Seeds) -> Owner:
    """Each class is divided among the clients in shares p ~ Dirichlet(α, …, α).

    Nodes without a label count as one more class. Sizes are whatever the shares add up to: n/M on
    average, and far apart when α is small. A client left with nothing is given one node.

    Source: Yurochkin et al., "Bayesian nonparametric federated learning of neural networks" (2019).
    """
    rng = seeds.stream("partition")
    owner = np.empty(graph.nodes, np.int32)
    for label in np.unique(graph.labels):
        members = rng.permutation(np.flatnonzero(graph.labels == label))
        shares = rng.dirichlet(np.full(spec.clients, spec.concentration))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(members))
        owner[members] = np.searchsorted(cuts, np.arange(len(members)), side="right")
    _fill_empty_parts(owner, spec.clients)
    return owner


KINDS: dict[str, Callable[[Graph, PartitionSpec, Seeds], Owner]] = {
    "louvain": _louvain,
    "random": _random,
    "label-skew": _label_skew,
}


def _communities(graph: Graph, seed: int) -> npt.NDArray[np.int64]:
    """``(n,)`` community number of every node, by Louvain's method (Blondel et al., 2008)."""
    import igraph  # it imports all of matplotlib, which few processes need

    # An array goes into igraph as a block of memory; a list of tuples would take ten times as much.
    edges = igraph.Graph(n=graph.nodes, edges=graph.edge_list())
    with _igraph_seeded(seed):
        return np.array(edges.community_multilevel().membership, dtype=np.int64)


@contextmanager
def _igraph_seeded(seed: int) -> Iterator[None]:
    """Makes igraph draw from a generator of our own.

    igraph has one generator for the whole process, by default Python's ``random`` module.
    """
    import igraph

    igraph.set_random_number_generator(random.Random(seed))
    try:
        yield
    finally:
        igraph.set_random_number_generator(random)


def _equal_sizes(nodes: int, parts: int) -> list[int]:
    """Sizes that add up to ``nodes`` and differ by one at most, the larger ones first."""
    smaller, larger_parts = divmod(nodes, parts)
    return [smaller + 1] * larger_parts + [smaller] * (parts - larger_parts)


def _pack(sizes: Sequence[int], capacities: Sequence[int]) -> Iterator[tuple[int, slice]]:
    """Packs groups into parts that they fill exactly, and yields (part, piece of the queue).

    The queue is all groups one after the other; ``sum(sizes)`` must equal ``sum(capacities)``.
    Only a part that becomes full cuts a group, so there are at most groups + parts steps.
    """
    starts = accumulate(sizes[:-1], initial=0)
    pieces = [(-size, start) for size, start in zip(sizes, starts, strict=True)]
    heapq.heapify(pieces)
    rooms = sorted((capacity, part) for part, capacity in enumerate(capacities))
    while pieces:
        negative_size, start = heapq.heappop(pieces)
        size = -negative_size
        tightest = bisect_left(rooms, (size, 0))
        room, part = rooms.pop(min(tightest, len(rooms) - 1))
        taken = min(size, room)
        yield part, slice(start, start + taken)
        if taken < room:
            insort(rooms, (room - taken, part))
        if taken < size:
            heapq.heappush(pieces, (taken - size, start + taken))


def _fill_empty_parts(owner: Owner, parts: int) -> None:
    """Gives every empty part one node, in place, taken from the parts that have the most."""
    sizes = np.bincount(owner, minlength=parts)
    empty = np.flatnonzero(sizes == 0)
    by_part = np.argsort(owner, kind="stable")
    rank = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner[by_part]]
    # The nodes of highest rank lie in the largest parts, and a node of rank 0 is never taken:
    # there are at least as many nodes as parts.
    spare = by_part[np.argsort(-rank, kind="stable")][: len(empty)]
    owner[spare] = empty


@dataclass(frozen=True)
class PartitionStatistics:
    """What a partition gives each client, and what is lost.

    Attributes:
        nodes: |V_i| per client.
        edges: |E_i| per client, the edges with both ends at client i.
        lost_edges: ΔE, the edges between clients.
        lost_share: ΔE / |E|, 0 for a graph without edges.
    """

    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    lost_edges: int
    lost_share: float


def statistics(graph: Graph, owner: npt.NDArray[np.integer]) -> PartitionStatistics:
    """Counts nodes, kept edges and lost edges of a partition."""
    if owner.shape != (graph.nodes,):
        raise InputError(f"expected an owner for each of {graph.nodes} nodes (got {owner.shape})")
    nodes = np.bincount(owner)
    head, tail = owner[graph.edge_list()].T
    edges = np.bincount(head[head == tail], minlength=len(nodes))
    lost = graph.edges - int(edges.sum())
    return PartitionStatistics(
        nodes=tuple(nodes.tolist()),
        edges=tuple(edges.tolist()),
        lost_edges=lost,
        lost_share=lost / graph.edges if graph.edges else 0.0,
    )
