"""Attackers: they score each pair by what the server saw, knowing all but coins and noise.

A higher score means that the pair is more likely to be an edge. A new attack is one class and one
entry in :data:`ATTACKS`. An attack that finds little proves little: a cleverer one may find more.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from feddep.audit.flipped import FlippedAttack
from feddep.audit.gradients import GradientsAttack
from feddep.audit.knowledge import Attack, Floats, Knowledge, worlds_of
from feddep.audit.pairs import Longs, Pairs
from feddep.audit.planted import LISTS, NOISED, SUMS, adjacency, neighbour_sums
from feddep.audit.rows import MeansAttack, RowsAttack
from feddep.audit.served import InfluenceAttack, SimilarityAttack
from feddep.federation.aggregation import weighted_mean
from feddep.federation.messages import Arrays
from feddep.graph.graph import Graph
from feddep.learning.aggregates import encodings
from feddep.learning.silo import Silo
from feddep.learning.trainer import train
from feddep.models.weights import to_arrays
from feddep.privacy.aggregation import unit_rows
from feddep.seeding import Seeds


@dataclass(frozen=True)
class LossAttack:
    """A client that trained with an edge sends weights that do better with it.

    The gain of a pair under weights W is the fall in its ends' cross-entropy when the edge is
    added; only ends that are training nodes count. The score is Σ gain(W) − gain(W⁰) over the
    weights W that the client sent, where W⁰ are the first ones it received: what the edge is worth
    to untrained weights says nothing.
    """

    threshold: float | None = None

    def applies(self, known: Knowledge) -> bool:
        """See :class:`Attack`."""
        return known.trains_on_edges

    def scores(self, known: Knowledge, pairs: Pairs) -> Floats:
        """See :class:`Attack`."""
        places, worlds = worlds_of(known, pairs)
        before: dict[int, Floats] = {}
        scores = np.zeros(len(pairs))
        for client, received, sent in known.weights():
            if client not in before:
                before[client] = worlds[client].gains(received)
            scores[places[client]] += worlds[client].gains(sent) - before[client]
        return scores


@dataclass(frozen=True)
class UpdatesAttack:
    """What a client's training did beyond what it would have done without any canary.

    The attacker repeats each training, from the weights W that the client received, on the graph
    without canaries and with random draws of its own; W̄ is the mean of a few repetitions. The
    rest of what the client sent, S = W' − W̄, points where the canaries' gradients pulled. The
    score is Σ gain(W + S) − gain(W − S), the derivative along S of what the edge is worth (see
    :class:`LossAttack`), which to first order is the product of S with the edge's own gradient.

    Args:
        repetitions: of each training; the more, the less noise of the attacker's own.
    """

    threshold: float | None = None
    repetitions: int = 3

    def applies(self, known: Knowledge) -> bool:
        """See :class:`Attack`."""
        return known.trains_on_edges

    def scores(self, known: Knowledge, pairs: Pairs) -> Floats:
        """See :class:`Attack`."""
        places, worlds = worlds_of(known, pairs)
        seeds = Seeds(known.spec.seed).child("audit", "repeated")
        scores = np.zeros(len(pairs))
        for number, (client, received, sent) in enumerate(known.weights()):
            mean = self._repeated(known, client, received, seeds.child(number))
            ahead = {name: w + sent[name] - mean[name] for name, w in received.items()}
            behind = {name: w - sent[name] + mean[name] for name, w in received.items()}
            scores[places[client]] += worlds[client].gains(ahead) - worlds[client].gains(behind)
        return scores

    def _repeated(self, known: Knowledge, client: int, received: Arrays, seeds: Seeds) -> Arrays:
        """W̄."""
        silo = Silo(client, known.graphs[client], known.spec, torch.device("cpu"))
        found = []
        for repetition in range(self.repetitions):
            model = silo.classifier(received)
            train(model, silo, seeds.child(repetition))
            found.append(to_arrays(model))
        return weighted_mean(found, [1.0] * len(found))


@dataclass(frozen=True)
class SumsAttack:
    """Neighbour sums s_u minus the known neighbours' features leave the canary's features.

    With the rest e_u, the score of (u, v) is the mean over both ends of 2⟨e_u, x_v⟩/|x_v|² − 1,
    the likelihood ratio of e_u = x_v against e_u = 0 up to a factor: 1 and −1 without noise.
    """

    threshold: float | None = 0.0

    def applies(self, known: Knowledge) -> bool:
        """See :class:`Attack`."""
        return any(True for _ in known.transcript.of_phase(SUMS))

    def scores(self, known: Knowledge, pairs: Pairs) -> Floats:
        """See :class:`Attack`."""
        scores = np.zeros(len(pairs))
        for reply in known.transcript.of_phase(SUMS):
            graph = known.graphs[reply.client]
            rest = reply.arrays[SUMS] - neighbour_sums(graph)[SUMS]
            own = np.flatnonzero(pairs.client == reply.client)
            u, v = pairs.ends[own].T
            scores[own] = (_matches(rest[u], graph, v) + _matches(rest[v], graph, u)) / 2
        return scores


def _matches(rest: npt.NDArray[np.float32], graph: Graph, nodes: Longs) -> Floats:
    features = graph.features[nodes]
    rows = features if isinstance(features, np.ndarray) else features.toarray()
    size = (rows.astype(np.float64) ** 2).sum(axis=1)
    found: Floats = 2 * (rest * rows).sum(axis=1) / np.maximum(size, 1e-12) - 1
    return found


@dataclass(frozen=True)
class ListsAttack:
    """The positive control: it is handed the clients' lists as the mechanism left them."""

    threshold: float | None = 0.5

    def applies(self, known: Knowledge) -> bool:
        """See :class:`Attack`."""
        return any(True for _ in known.transcript.of_phase(LISTS))

    def scores(self, known: Knowledge, pairs: Pairs) -> Floats:
        """See :class:`Attack`."""
        scores = np.zeros(len(pairs))
        for reply in known.transcript.of_phase(LISTS):
            nodes = known.graphs[reply.client].nodes
            edges = reply.arrays[LISTS].astype(np.int64) @ [nodes, 1]
            own = np.flatnonzero(pairs.client == reply.client)
            scores[own] = np.isin(np.sort(pairs.ends[own], axis=1) @ [nodes, 1], edges)
        return scores


@dataclass(frozen=True)
class NoisedSumsAttack:
    """The control of aggregation perturbation: it is handed the sums of the first hop.

    The attacker knows what is summed and all other neighbours. With s_u the sum without the canary
    and x̂_u the noised one, whose length nobody sees, the score of (u, v) is
    cos(x̂_u, s_u + x_v) − cos(x̂_u, s_u), added up over both ends.
    """

    threshold: float | None = None

    def applies(self, known: Knowledge) -> bool:
        """See :class:`Attack`."""
        return any(True for _ in known.transcript.of_phase(NOISED))

    def scores(self, known: Knowledge, pairs: Pairs) -> Floats:
        """See :class:`Attack`."""
        scores = np.zeros(len(pairs))
        for reply in known.transcript.of_phase(NOISED):
            graph = known.graphs[reply.client]
            rows = encodings(graph)
            seen = unit_rows(reply.arrays[NOISED][:, : rows.shape[1]].astype(np.float64))
            known_sums = adjacency(graph) @ rows
            own = np.flatnonzero(pairs.client == reply.client)
            for u, v in (pairs.ends[own].T, pairs.ends[own].T[::-1]):
                turned = unit_rows(known_sums[u] + rows[v]) - unit_rows(known_sums[u])
                scores[own] += (seen[u] * turned).sum(axis=1)
        return scores


ATTACKS: dict[str, Attack] = {
    "loss": LossAttack(),
    "updates": UpdatesAttack(),
    "sums": SumsAttack(),
    "lists": ListsAttack(),
    "noised sums": NoisedSumsAttack(),
    "flipped": FlippedAttack(),
    "gradients": GradientsAttack(),
    "similarity": SimilarityAttack(),
    "influence": InfluenceAttack(),
    "rows": RowsAttack(),
    "means": MeansAttack(),
}
