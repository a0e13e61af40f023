"""Attackers who may ask the clients for predictions, as many as they like, about any features.

No message of a run answers such questions; a client that offered them would answer from the graph
that its mechanism left it. So what holds for everything computed from that graph holds here too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from feddep.audit.knowledge import Floats, Knowledge, Served
from feddep.audit.pairs import Pairs
from feddep.graph.graph import Features

_CHANGE = 1.0


@dataclass(frozen=True)
class SimilarityAttack:
    """Linked nodes are predicted alike: minus the distance of two nodes' class probabilities.

    Source: He et al. 2021, "Stealing Links from Graph Neural Networks", attack 0, with the
    correlation distance. The attacker knows the graph without canaries, so what it predicts for
    itself from that is subtracted.
    """

    threshold: float | None = None

    def applies(self, known: Knowledge) -> bool:
        """See :class:`~.knowledge.Attack`."""
        return bool(known.served)

    def scores(self, known: Knowledge, pairs: Pairs) -> Floats:
        """See :class:`~.knowledge.Attack`."""
        scores = np.zeros(len(pairs))
        for client, served in enumerate(known.served):
            own = np.flatnonzero(pairs.client == client)
            u, v = pairs.ends[own].T
            expected = served.posteriors()
            scores[own] = _correlation(expected[u], expected[v])
            if not known.spec.privacy.sums:
                alone = Served(served.model, known.graphs[client]).posteriors()
                scores[own] -= _correlation(alone[u], alone[v])
        return scores


@dataclass(frozen=True)
class InfluenceAttack:
    """What a node's features change at another node: nothing, unless a path of L edges joins them.

    Source: Wu et al. 2022, "LinkTeller: Recovering Private Edges from Graph Neural Networks via
    Influence Analysis". Both directions are added up, and what the known edges explain is taken
    off.
    """

    threshold: float | None = None

    def applies(self, known: Knowledge) -> bool:
        """See :class:`~.knowledge.Attack`."""
        privacy = known.spec.privacy  # where nothing is predicted over edges, nothing passes along
        return bool(known.served) and not (privacy.sums or privacy.edges_capped)

    def scores(self, known: Knowledge, pairs: Pairs) -> Floats:
        """See :class:`~.knowledge.Attack`."""
        scores = np.zeros(len(pairs))
        for client, served in enumerate(known.served):
            own = np.flatnonzero(pairs.client == client)
            ends = pairs.ends[own]
            alone = Served(served.model, known.graphs[client])
            scores[own] = _influences(served, ends) - _influences(alone, ends)
        return scores


def _influences(served: Served, ends: Any) -> Floats:
    before, found = served.posteriors(), np.zeros(len(ends))
    for node in np.unique(ends):
        changed = np.linalg.norm(
            served.posteriors(_louder(served.graph.features, node)) - before, axis=1
        )
        for here, there in ((0, 1), (1, 0)):
            asked = ends[:, here] == node
            found[asked] += changed[ends[asked, there]] / _CHANGE
    return found


def _louder(features: Features, node: int) -> Features:
    """The features with one node's row multiplied."""
    if isinstance(features, np.ndarray):
        louder = features.copy()
        louder[node] *= 1 + _CHANGE
        return louder
    data = features.data.copy()
    data[features.indptr[node] : features.indptr[node + 1]] *= 1 + _CHANGE
    return sp.csr_array((data, features.indices, features.indptr), features.shape)


def _correlation(one: Floats, other: Floats) -> Floats:
    """``(k,)``, of rows; 0 where a row is constant."""
    one = one - one.mean(axis=1, keepdims=True)
    other = other - other.mean(axis=1, keepdims=True)
    sizes = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    found: Floats = (one * other).sum(axis=1) / np.maximum(sizes, 1e-12)
    return found
