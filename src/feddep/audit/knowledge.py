"""What every attacker knows of a run, and what adding an edge would have been worth."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy

from feddep.audit.pairs import Longs, Pairs
from feddep.audit.planted import LISTS
from feddep.audit.transcript import Recorder
from feddep.federation.messages import Arrays, Reply, Request, group
from feddep.graph.graph import Features, Graph, Part
from feddep.learning.evaluation import predict
from feddep.learning.spec import LearningSpec
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Served:
    """A client that answers whoever asks with predictions of a classifier on its graph.

    Attributes:
        model: the classifier.
        graph: what the client's mechanism left it to work with.
    """

    model: FusedSage
    graph: Graph

    def posteriors(self, features: Features | None = None) -> Floats:
        """``(n, classes)``, of the graph's own features or of others in their place."""
        own = self.graph.features if features is None else features
        table = FeatureTable(own, torch.device("cpu"))
        scores = predict(self.model, self.graph, table)
        found: Floats = torch.softmax(scores.double(), dim=1).numpy()
        return found


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What every attacker has.

    Attributes:
        transcript: the messages of the run.
        graphs: the clients' graphs without any canary: nodes, features, labels, split, edges.
        spec: the learning settings that the clients agreed on.
        served: the clients' predictions, as they would answer whoever asks for them.
    """

    transcript: Recorder
    graphs: Sequence[Graph]
    spec: LearningSpec
    served: Sequence[Served] = ()

    @cached_property
    def tables(self) -> list[FeatureTable]:
        """The clients' features."""
        return [FeatureTable(graph.features, torch.device("cpu")) for graph in self.graphs]

    @property
    def trains_on_edges(self) -> bool:
        """Whether clients sent classifiers that learnt from neighbour lists, flipped or not.

        Where gradients are noised, what they learnt is not looked for in the weights, but in the
        noised sums (:mod:`feddep.audit.gradients`).
        """
        privacy = self.spec.privacy
        return not (privacy.sums or privacy.edges_capped) and any(True for _ in self.weights())

    @cached_property
    def left(self) -> dict[int, Graph]:
        """By client, the graph that its mechanism left it, where an audit's control showed it."""
        return {
            reply.client: self.graphs[reply.client].with_edges(reply.arrays[LISTS])
            for reply in self.transcript.of_phase(LISTS)
        }

    def trainings(self) -> Iterator[tuple[Request, Reply]]:
        """Every training of a client: what it received, and what it sent."""
        for request, reply in self.transcript.messages:
            if group(request.arrays, "classifier") and group(reply.arrays, "classifier"):
                yield request, reply

    def weights(self) -> Iterator[tuple[int, Arrays, Arrays]]:
        """Every training of a client: who, the classifier it received, and the one it sent."""
        for request, reply in self.trainings():
            sent = group(reply.arrays, "classifier")
            yield reply.client, group(request.arrays, "classifier"), sent


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


def worlds_of(
    known: Knowledge, pairs: Pairs, graphs: Mapping[int, Graph] | None = None
) -> tuple[list[Longs], list["Worlds"]]:
    """For each client the places of its pairs, and its graph with and without them.

    Args:
        known: what the attacker knows.
        pairs: of all clients.
        graphs: taken for the clients' graphs instead of those without any canary.
    """
    places = [np.flatnonzero(pairs.client == c) for c in range(len(known.graphs))]
    return places, [
        Worlds(known, c, (graphs or {}).get(c, known.graphs[c]), pairs.where(own))
        for c, own in enumerate(places)
    ]


class Worlds:
    """One client's graph without any pair, and with those of each batch.

    Pairs of one batch share no node, so all of them are added at once.
    """

    def __init__(self, known: Knowledge, client: int, graph: Graph, pairs: Pairs) -> None:
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
        return np.nan_to_num(gains, posinf=0.0, neginf=0.0)  # a crafted classifier may overflow
