"""Attacks on what is computed for single nodes and sent: embeddings, codes, hidden states, means.

The attacker repeats the client's local GNN on the graph without canaries, with the very draws of
the client where these can be known, and asks of each pair: would the edge bring the two nodes'
rows nearer to those that were sent?
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from feddep.audit.knowledge import Floats, Knowledge
from feddep.audit.pairs import Longs, Pairs
from feddep.federation.messages import Reply, Request, group
from feddep.graph.graph import Graph
from feddep.learning.local_gnn import embed, train_local_gnn
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec

_NODES = ("codes", "embeddings")
Rows = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Embedded:
    """A client's embeddings as the attacker has them, without any pair and with those of a batch.

    Attributes:
        without: ``(n, d)``.
        linked: by batch, ``(n, d)``.
    """

    without: Rows
    linked: dict[int, Rows]

    @classmethod
    def by(cls, spec: LearningSpec, client: int, graph: Graph, pairs: Pairs) -> "Embedded":
        """Trains the local GNN once, on the graph without any pair."""
        silo = Silo(client, graph, spec, torch.device("cpu"))
        model = train_local_gnn(silo)

        def of(own: Graph) -> Rows:
            return embed(model, Silo(client, own, spec, torch.device("cpu")))

        linked = {
            int(batch): of(
                graph.with_edges(
                    np.concatenate([graph.edge_list(), pairs.ends[pairs.batch == batch]])
                )
            )
            for batch in np.unique(pairs.batch)
        }
        return cls(of(graph), linked)

    def ends(self, pairs: Pairs) -> Iterator[tuple[Longs, Rows, Rows]]:
        """For both ends of all pairs: the nodes, their rows without the edge, and with it."""
        for nodes in pairs.ends.T:
            together = [self.linked[int(b)][n] for b, n in zip(pairs.batch, nodes, strict=True)]
            yield nodes, self.without[nodes], np.stack(together)


class _OfRows:
    """What the attacks on rows share: who sent some, and the attacker's own for comparison."""

    def applies(self, known: Knowledge) -> bool:
        """See :class:`~.knowledge.Attack`."""
        has_gnn = known.spec.embedding.depth > 0 and not known.spec.privacy.sums
        return has_gnn and any(True for _ in self._sent(known))

    def scores(self, known: Knowledge, pairs: Pairs) -> Floats:
        """See :class:`~.knowledge.Attack`."""
        scores, embedded = np.zeros(len(pairs)), dict[int, Embedded]()
        for client, nodes, rows in self._sent(known):
            own = np.flatnonzero(pairs.client == client)
            if not len(own):
                continue
            if client not in embedded:
                graph = known.graphs[client]
                embedded[client] = Embedded.by(known.spec, client, graph, pairs.where(own))
            scores[own] += self._nearer(embedded[client], pairs.where(own), nodes, rows)
        return scores

    def _sent(self, known: Knowledge) -> Iterator[tuple[int, Longs | None, Rows]]:
        raise NotImplementedError

    def _nearer(self, embedded: Embedded, pairs: Pairs, nodes: Longs | None, rows: Rows) -> Floats:
        raise NotImplementedError


@dataclass(frozen=True)
class RowsAttack(_OfRows):
    """Rows of nodes: Σ over both ends of ‖r − z⁰‖² − ‖r − z¹‖², z¹ the node's row with the edge.

    Codes and embeddings say whose they are. From the gradient of a squared distance to a row that
    the server itself passed on it works out the nearest node's embedding; whose that is it does not
    know, and r is the nearest of all that were sent.
    """

    threshold: float | None = None

    def _sent(self, known: Knowledge) -> Iterator[tuple[int, Longs | None, Rows]]:
        for request, reply in known.transcript.messages:
            for name in _NODES:
                if name in reply.arrays:
                    rows = reply.arrays[name]
                    nodes = np.asarray(request.arrays.get("nodes", np.arange(len(rows))))
                    yield reply.client, nodes, rows
            found = list(_pulled(request, reply))
            if found:
                yield reply.client, None, np.unique(np.concatenate(found), axis=0)

    def _nearer(self, embedded: Embedded, pairs: Pairs, nodes: Longs | None, rows: Rows) -> Floats:
        scores = np.zeros(len(pairs))
        for ends, without, linked in embedded.ends(pairs):
            if nodes is None:
                scores += _nearest(rows, without) - _nearest(rows, linked)
                continue
            place = np.full(len(embedded.without), -1)
            place[nodes] = np.arange(len(nodes))
            shown = place[ends] >= 0
            seen = rows[place[ends[shown]]]
            scores[shown] += ((seen - without[shown]) ** 2).sum(axis=1)
            scores[shown] -= ((seen - linked[shown]) ** 2).sum(axis=1)
        return scores


@dataclass(frozen=True)
class MeansAttack(_OfRows):
    """Prototypes: ⟨p − p⁰, p¹ − p⁰⟩ with p the mean of a cluster and p¹ what the edge makes of it.

    A node's cluster is that of the nearest prototype, and p⁰ the mean of the attacker's rows in it.
    """

    threshold: float | None = None

    def _sent(self, known: Knowledge) -> Iterator[tuple[int, Longs | None, Rows]]:
        for _, reply in known.transcript.messages:
            if "prototypes" in reply.arrays:
                yield reply.client, None, reply.arrays["prototypes"]

    def _nearer(self, embedded: Embedded, pairs: Pairs, nodes: Longs | None, rows: Rows) -> Floats:
        cluster = ((embedded.without[:, None] - rows[None]) ** 2).sum(axis=2).argmin(axis=1)
        sizes = np.maximum(1, np.bincount(cluster, minlength=len(rows)))
        means = np.zeros(rows.shape)
        np.add.at(means, cluster, embedded.without)
        rest = rows - means / sizes[:, None]
        scores = np.zeros(len(pairs))
        for ends, without, linked in embedded.ends(pairs):
            own = cluster[ends]
            scores += (rest[own] * (linked - without)).sum(axis=1) / sizes[own]
        return scores


def _pulled(request: Request, reply: Reply) -> Sequence[Rows]:
    """The rows that gradients of squared distances point to: z_u = z̃ − g/2."""
    asked, told = group(request.arrays, "generated"), group(reply.arrays, "gradients")
    pairs = [(asked[peer], told[peer]) for peer in told if peer in asked]
    return [
        (rows - gradient / 2).reshape(-1, rows.shape[-1])
        for rows, gradient in pairs
        if rows.shape == gradient.shape
    ]


def _nearest(rows: Rows, points: Rows) -> Floats:
    """The squared distance of each point to the nearest row."""
    squares = (points**2).sum(axis=1)[:, None] + (rows**2).sum(axis=1) - 2 * points @ rows.T
    found: Floats = squares.min(axis=1).astype(np.float64)
    return found
