"""Every client trains a GNN of its own for the embeddings of its nodes."""

from dataclasses import dataclass

import numpy as np
import torch

from feddep.federation.aggregation import aggregate
from feddep.federation.content import Number, Weights
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.federation.phase import Ask, Phase, Step, Steps
from feddep.graph.graph import Graph, Part
from feddep.learning.local_gnn import local_embeddings
from feddep.learning.private_training import embedding_gradients
from feddep.learning.prototypes import LocalGnn
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.weights import shapes_of, to_arrays
from feddep.privacy.events import Event, FullNeighbours, NeighbourSampling


@dataclass(frozen=True)
class LocalGnnTraining(Phase[Silo, LearningSpec]):
    """Step 1 of FedDEP: z_v of every client's nodes, kept at the client.

    Nothing is sent, unless the spec wants F to start from the average of the local GNNs.
    """

    name: str = "local_gnn"

    def steps(self, spec: LearningSpec) -> Steps:
        """One; the client trains for as many epochs as the spec says, and keeps what it finds."""
        if not spec.embedding.warm_start:
            return {"train": Step()}
        shared = Weights(shared_shapes(spec), optional=True)  # of depth 0 there are none
        return {
            "train": Step(reply={"classifier": shared}, numbers={"training_nodes": Number.COUNT})
        }

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """What the local GNN, if there is one, does with the neighbour lists."""
        embedding, fanout = spec.embedding, spec.training.fanout
        if not embedding.depth:
            return []
        if spec.privacy.mechanism == "dp-sgd":
            return [FullNeighbours("embeddings"), embedding_gradients(spec, graph, self.name)]
        if spec.privacy.mechanism == "none":
            return [FullNeighbours("embeddings")]
        degrees = graph.degree_histogram
        return [NeighbourSampling("embeddings", fanout, embedding.depth, embedding.epochs, degrees)]

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Lets every client train, and averages what they send, if anything.

        If nobody with training nodes sends anything, F starts as without a warm start.
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
        """Trains and embeds; the embeddings stay at the client."""
        embeddings, weights = local_embeddings(silo)
        state = {**state, "embeddings": embeddings}
        if not silo.spec.embedding.warm_start:
            return Reply(request.client), state
        shared = {name: np.asarray(weights[name]) for name in shared_shapes(silo.spec)}
        metrics = {"training_nodes": len(silo.graph.members(Part.TRAIN))}
        return Reply(request.client, grouped("classifier", shared), metrics), state


def shared_shapes(spec: LearningSpec) -> dict[str, tuple[int, ...]]:
    """What a client sends for a warm start: parameters on whose name and shape GNN and F agree.

    The last convolution is left out even if it happens to fit: its outputs mean something else.
    """
    if not spec.embedding.warm_start or not spec.embedding.depth:
        return {}
    with torch.device("meta"):  # shapes without numbers
        local = LocalGnn(spec.model, spec.embedding, spec.inputs, spec.classes).trunk
    shapes = shapes_of(local)
    last = f"convolutions.{spec.model.layers - 1}."
    return {
        name: shape
        for name, shape in spec.classifier_shapes.items()
        if not name.startswith(last) and shapes.get(name) == shape
    }
