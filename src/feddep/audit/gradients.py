"""The attack on capped DP-SGD: what an edge adds to the clipped sum, looked for in its noise."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from feddep.audit.knowledge import Floats, Knowledge
from feddep.audit.pairs import Longs, Pairs
from feddep.federation.messages import Arrays
from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import separate_ego_graphs
from feddep.learning.spec import LearningSpec
from feddep.models.dropout import DropoutStream
from feddep.models.sgd import SageSgd

_AT_ONCE = 64
Vector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class GradientsAttack:
    """The likelihood of an edge, as far as the sum of all steps of a round tells.

    A client that received W sends W − (η/b) (Σ clipped + noise), summed over T steps whose batches
    hold each example with probability q. The attacker knows everything but the canaries and the
    noise: s⁰, what qT clipped gradients of every example add up to on the graph without canaries,
    and dᵢ, what that changes by if canary i is an edge. With s what was sent, the score is

        Σ over rounds of ⟨s − s⁰ − ½ Σⱼ dⱼ, dᵢ⟩,

    the likelihood ratio of Gaussian noise where the canaries' changes are orthogonal. Gradients are
    taken at W, which is exact for one step in a round.
    """

    threshold: float | None = None

    def applies(self, known: Knowledge) -> bool:
        """See :class:`~.knowledge.Attack`."""
        return known.spec.privacy.edges_capped and any(True for _ in known.weights())

    def scores(self, known: Knowledge, pairs: Pairs) -> Floats:
        """See :class:`~.knowledge.Attack`."""
        scores = np.zeros(len(pairs))
        for client, received, sent in known.weights():
            own = np.flatnonzero(pairs.client == client)
            graph = known.graphs[client]
            examples = Examples(known.spec, graph, received)
            times = examples.steps * examples.rate
            changes = times * _changes(examples, graph, pairs.where(own))
            rest = examples.summed(received, sent) - times * examples.total(graph)
            canaries = pairs.batch[own] == 0  # decoys are in batches of their own
            rest -= changes[canaries].sum(axis=0) / 2
            scores[own] += changes @ rest
        return scores


def _changes(examples: "Examples", graph: Graph, pairs: Pairs) -> Vector:
    """``(k, weights)``, dᵢ for one step with all examples."""
    found = np.zeros((len(pairs), examples.size), np.float32)
    for batch in np.unique(pairs.batch):
        here = np.flatnonzero(pairs.batch == batch)
        linked = graph.with_edges(np.concatenate([graph.edge_list(), pairs.ends[here]]))
        for place in here:
            ends = pairs.ends[place]
            for node in ends[graph.split[ends] == Part.TRAIN]:
                nodes = np.array([node])
                found[place] += examples.total(linked, nodes) - examples.total(graph, nodes)
    return found


class Examples:
    """The clipped gradients of a silo's training nodes, at given weights."""

    def __init__(self, spec: LearningSpec, graph: Graph, received: Arrays) -> None:
        training, self._nodes = spec.training, graph.members(Part.TRAIN)
        self._spec, self._graph = spec, graph
        batch = min(training.batch_size, max(1, len(self._nodes)))
        self.rate = batch / max(1, len(self._nodes))
        self.steps = training.local_epochs * math.ceil(len(self._nodes) / batch)
        self._scale = batch / training.learning_rate
        self._sgd = self._at(received)
        self.size = sum(array.size for array in self._sgd.weights.arrays())

    def _at(self, weights: Arrays) -> SageSgd:
        return SageSgd(
            self._spec.classifier(weights),
            self._graph.features,
            self._graph.labels,
            rate=1.0,
            decay=0.0,
            dropout=DropoutStream(0.0, 0),
        )

    def total(self, graph: Graph, nodes: Longs | None = None) -> Vector:
        """What some examples, or all, add on a graph of the same nodes."""
        chosen = self._nodes if nodes is None else nodes
        total = self._sgd.weights.zeros()
        for start in range(0, len(chosen), _AT_ONCE):
            part = chosen[start : start + _AT_ONCE]
            ego, owner = separate_ego_graphs(graph, part, self._spec.model.layers)
            self._sgd.add_clipped(ego, owner, total, self._spec.privacy.clip)
        return np.concatenate([array.ravel() for array in total.arrays()])

    def summed(self, received: Arrays, sent: Arrays) -> Vector:
        """The noised sum of all steps, from the weights before and after."""
        before, after = self._at(received).weights, self._at(sent).weights
        return np.concatenate(
            [
                (self._scale * (old.astype(np.float64) - new)).astype(np.float32).ravel()
                for old, new in zip(before.arrays(), after.arrays(), strict=True)
            ]
        )
