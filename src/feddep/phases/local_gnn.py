"""Every client trains a GNN of its own for the embeddings of its nodes."""

from dataclasses import dataclass

import numpy as np

from feddep.federation.aggregation import aggregate
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.federation.phase import Ask
from feddep.graph.graph import Part
from feddep.learning.local_gnn import local_embeddings
from feddep.learning.prototypes import LocalGnn
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.weights import to_arrays


@dataclass(frozen=True)
class LocalGnnTraining:
    """Step 1 of FedDEP: z_v of every client's nodes, kept at the client.

    Nothing is sent, unless the spec wants F to start from the average of the local GNNs.
    """

    name: str = "local_gnn"
    reports: frozenset[str] = frozenset({"training_nodes"})

    def rounds(self, spec: LearningSpec) -> int:
        """One; the client trains for as many epochs as the spec says."""
        return 1

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Lets every client train, and averages what they send, if anything.

        Where nobody sends something that counts, F starts as it does without a warm start.
        """
        shown = [reply for reply in ask.all("train") if group(reply.arrays, "classifier")]
        sent = [group(reply.arrays, "classifier") for reply in shown]
        nodes = [reply.metrics.get("training_nodes", 0) for reply in shown]
        if not any(nodes):
            return state, None
        mean = aggregate(sent, nodes, spec.aggregation)
        start = to_arrays(spec.classifier())
        return {**state, **grouped("classifier", start | mean)}, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Trains and embeds; the embeddings stay here."""
        embeddings, weights = local_embeddings(silo)
        state = {**state, "embeddings": embeddings}
        if not silo.spec.embedding.warm_start:
            return Reply(request.client), state
        shared = {name: np.asarray(weights[name]) for name in shared_shapes(silo.spec)}
        metrics = {"training_nodes": len(silo.graph.members(Part.TRAIN))}
        return Reply(request.client, grouped("classifier", shared), metrics), state


def shared_shapes(spec: LearningSpec) -> dict[str, tuple[int, ...]]:
    """What a client sends for a warm start: where the local GNN and F agree in name and shape.

    The last convolution is left out even if it happens to fit: it leads elsewhere.
    """
    if not spec.embedding.warm_start or not spec.embedding.depth:
        return {}
    local = LocalGnn(spec.model, spec.embedding, spec.features, spec.classes).trunk
    shapes = {name: tuple(weight.shape) for name, weight in local.named_parameters()}
    last = f"convolutions.{spec.model.layers - 1}."
    return {
        name: tuple(weight.shape)
        for name, weight in spec.classifier().named_parameters()
        if not name.startswith(last) and shapes.get(name) == tuple(weight.shape)
    }
