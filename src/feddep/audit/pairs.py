"""Canary edges: pairs of a client's nodes that a coin turns into edges, and decoys."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from feddep.graph.graph import Graph, Part
from feddep.graph.shard import Shards

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of nodes, both ends at the same client.

    Attributes:
        client: ``(k,)``, whose.
        ends: ``(k, 2)``, the nodes as the client numbers them.
        batch: ``(k,)``; within a batch no node is in two pairs.
    """

    client: Longs
    ends: Longs
    batch: Longs

    def __len__(self) -> int:
        return len(self.client)

    def where(self, chosen: Bools | Longs) -> "Pairs":
        """Some of the pairs."""
        return Pairs(self.client[chosen], self.ends[chosen], self.batch[chosen])

    @classmethod
    def joined(cls, parts: Iterable["Pairs"]) -> "Pairs":
        """All pairs of several, in order."""
        found = list(parts)
        return cls(
            np.concatenate([part.client for part in found]),
            np.concatenate([part.ends for part in found]),
            np.concatenate([part.batch for part in found]),
        )


def draw_canaries(graphs: Sequence[Graph], count: int | None, rng: np.random.Generator) -> Pairs:
    """Disjoint pairs that are not edges, as many as requested or possible.

    Training nodes are paired with each other, and such pairs come first: an edge that nobody
    trains on is a poor canary.

    Args:
        graphs: the clients' graphs.
        count: m; None takes all that there are.
        rng: for the order of the nodes.
    """
    found = Pairs.joined(
        _matched(client, graph, np.arange(graph.nodes), (), rng)
        for client, graph in enumerate(graphs)
    )
    trained = np.array(
        [
            np.count_nonzero(graphs[client].split[ends] == Part.TRAIN)
            for client, ends in zip(found.client, found.ends, strict=True)
        ],
        np.int64,
    )
    order = np.lexsort((rng.random(len(found)), -trained))
    return found.where(np.sort(order[:count]))


def draw_decoys(
    graphs: Sequence[Graph], canaries: Pairs, count: int, rng: np.random.Generator
) -> Pairs:
    """Pairs of the canaries' nodes that are neither edges nor canaries, at least ``count``.

    They are drawn as the canaries are, so that nothing but the coin tells the two apart. A small
    graph may have fewer.
    """
    taken: list[set[Pair]] = [
        {_pair(*ends) for ends in canaries.ends[canaries.client == client].tolist()}
        for client in range(len(graphs))
    ]
    nodes = [np.unique(canaries.ends[canaries.client == c]) for c in range(len(graphs))]
    batches = [canaries.where(np.zeros(len(canaries), bool))]
    while sum(map(len, batches)) < count:
        found = Pairs.joined(
            _matched(client, graph, nodes[client], taken[client], rng)
            for client, graph in enumerate(graphs)
        )
        if not len(found):
            break
        for client, ends in zip(found.client.tolist(), found.ends.tolist(), strict=True):
            taken[client].add(_pair(*ends))
        batches.append(replace(found, batch=np.full(len(found), len(batches))))
    return Pairs.joined(batches)


def with_edges(shards: Shards, pairs: Pairs) -> Shards:
    """The shards with the pairs as edges."""
    members = [shards.members(client) for client in range(shards.clients)]
    added = [members[client][ends] for client, ends in zip(pairs.client, pairs.ends, strict=True)]
    edges = np.concatenate([shards.graph.edge_list(), np.array(added, np.int32).reshape(-1, 2)])
    return replace(shards, graph=shards.graph.with_edges(edges))


def _matched(
    client: int, graph: Graph, nodes: Longs, taken: Collection[Pair], rng: np.random.Generator
) -> Pairs:
    """Every node with the first of the others, training nodes ahead, that it may go with."""
    shuffled = rng.permutation(nodes)
    trained = graph.split[shuffled] == Part.TRAIN
    waiting: list[int] = shuffled[np.argsort(trained, kind="stable")].tolist()
    pairs = []
    while waiting:
        node = waiting.pop()
        neighbours = set(graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist())
        for place in range(len(waiting) - 1, -1, -1):
            other = waiting[place]
            if other not in neighbours and _pair(node, other) not in taken:
                pairs.append(_pair(node, waiting.pop(place)))
                break
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    return Pairs(np.full(len(ends), client), ends, np.zeros(len(ends), np.int64))


def _pair(u: int, v: int) -> Pair:
    return (u, v) if u < v else (v, u)
