"""What a third party that knows the edges between clients does with them."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.federation.messages import Arrays, State, group, grouped

Longs = npt.NDArray[np.int64]


class Matching:
    """The edges between clients, from the server's memory.

    Args:
        state: the server's memory, with ``crossings/i`` for every client i: rows of own node,
            other client, neighbour there.
    """

    def __init__(self, state: State) -> None:
        known = group(state, "crossings")
        self._crossings = [known[str(client)] for client in range(len(known))]
        everything = np.concatenate(self._crossings)
        self.linked: Sequence[Longs] = [
            np.unique(everything[everything[:, 1] == client, 2]) for client in range(len(known))
        ]
        """For every client, the nodes that others link to, in ascending order."""

    def among(self, clients: Collection[int]) -> "Matching":
        """Only the edges that lead to these clients, the ones that sent their nodes."""
        there = np.array(sorted(clients), np.int64)
        kept = {
            str(client): rows[np.isin(rows[:, 1], there)]
            for client, rows in enumerate(self._crossings)
        }
        return Matching(grouped("crossings", kept))

    def own_nodes(self, client: int) -> Longs:
        """The client's end of each of its lost edges, ``(k,)``."""
        return self._crossings[client][:, 0]

    def places(self, client: int) -> Longs:
        """The other end of each, as a position in the concatenation of all ``linked`` nodes."""
        rows = self._crossings[client]
        first = np.cumsum([0, *map(len, self.linked)])
        places = np.empty(len(rows), np.int64)
        for other, nodes in enumerate(self.linked):
            there = rows[:, 1] == other
            places[there] = first[other] + np.searchsorted(nodes, rows[there, 2])
        return places

    def told(self, shown: npt.NDArray[Any]) -> list[Arrays]:
        """For every client, the neighbours across its lost edges.

        Args:
            shown: a row for each node in the concatenation of all ``linked`` nodes.
        """
        return [
            {"nodes": self.own_nodes(client), "neighbours": shown[self.places(client)]}
            for client in range(len(self.linked))
        ]
