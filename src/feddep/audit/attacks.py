"""Attackers: they score each pair by what the server saw, knowing all but coins and noise.

A higher score means that the pair is more likely to be an edge. A new attack is one class and one
entry in :data:`ATTACKS`. An attack that finds little proves little: a cleverer one may find more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy

from feddep.audit.pairs import Longs, Pairs
from feddep.audit.planted import LISTS, NOISED, SUMS, adjacency, neighbour_sums
from feddep.audit.transcript import Recorder
from feddep.federation.aggregation import weighted_mean
from feddep.federation.messages import Arrays, group
from feddep.graph.graph import Graph, Part
from feddep.learning.aggregates import encodings
from feddep.learning.evaluation import predict
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.learning.trainer import train
from feddep.models.kernels import FeatureTable
from feddep.models.weights import to_arrays
from feddep.privacy.aggregation import unit_rows
from feddep.seeding import Seeds

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What every attacker has.

    Attributes:
        transcript: the messages of the run.
        graphs: the clients' graphs without any canary: nodes, features, labels, split, edges.
        spec: the learning settings that the clients agreed on.
    """

    transcript: Recorder
    graphs: Sequence[Graph]
    spec: LearningSpec

    @cached_property
    def tables(self) -> list[FeatureTable]:
        """The clients' features."""
        return [FeatureTable(graph.features, torch.device("cpu")) for graph in self.graphs]

    @property
    def trains_on_edges(self) -> bool:
        """Whether clients sent classifiers that read neighbour lists, flipped or not."""
        return not self.spec.privacy.sums and any(True for _ in self.weights())

    def weights(self) -> Iterator[tuple[int, Arrays, Arrays]]:
        """Every training of a client: who, the classifier it received, and the one it sent."""
        for request, reply in self.transcript.messages:
            received = group(request.arrays, "classifier")
            sent = group(reply.arrays, "classifier")
            if received and sent:
                yield reply.client, received, sent


class Attack(Protocol):
    """One way to tell included canaries from the others."""

    @property
    def threshold(self) -> float | None:
        """The score above which a pair is called an edge; None if only the order counts."""
        ...

    def applies(self, known: Knowledge) -> bool:
        """Whether the transcript holds what the attack needs."""
        ...

    def scores(self, known: Knowledge, pairs: Pairs) -> Floats:
        """``(k,)``, a score for each pair."""
        ...


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
        places, worlds = _worlds(known, pairs)
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
        places, worlds = _worlds(known, pairs)
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


def _worlds(known: Knowledge, pairs: Pairs) -> tuple[list[Longs], list["_Worlds"]]:
    """For each client the places of its pairs, and its graph with and without them."""
    places = [np.flatnonzero(pairs.client == c) for c in range(len(known.graphs))]
    return places, [_Worlds(known, c, pairs.where(own)) for c, own in enumerate(places)]


class _Worlds:
    """One client's graph without any pair, and with those of each batch.

    Pairs of one batch share no node, so all of them are added at once.
    """

    def __init__(self, known: Knowledge, client: int, pairs: Pairs) -> None:
        graph = known.graphs[client]
        self._learning, self._table, self._pairs = known.spec, known.tables[client], pairs
        self._labels = torch.tensor(np.maximum(graph.labels, 0))
        self._counts = graph.mask(Part.TRAIN)
        self._without = graph
        self._with = {
            batch: graph.with_edges(
                np.concatenate([graph.edge_list(), pairs.ends[pairs.batch == batch]])
            )
            for batch in np.unique(pairs.batch).tolist()
        }

    def gains(self, weights: Arrays) -> Floats:
        """By how much every pair's edge lowers the loss of its ends under these weights."""
        model = self._learning.classifier(weights)

        def losses(graph: Graph) -> Floats:
            each = cross_entropy(predict(model, graph, self._table), self._labels, reduction="none")
            found: Floats = each.numpy().astype(np.float64) * self._counts
            return found

        without = losses(self._without)
        gains = np.zeros(len(self._pairs))
        for batch, graph in self._with.items():
            own = self._pairs.batch == batch
            gains[own] = (without - losses(graph))[self._pairs.ends[own]].sum(axis=1)
        return gains


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
}
