"""Every client trains a GNN of its own for the embeddings of its nodes."""

from dataclasses import dataclass

import numpy as np

from feddep.federation.aggregation import weighted_mean
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.federation.phase import Ask
from feddep.graph.graph import Part
from feddep.learning.local_gnn import local_embeddings
from feddep.learning.recipe import Recipe, Silo
from feddep.models.weights import to_arrays


@dataclass(frozen=True)
class LocalGnnTraining:
    """Step 1 of FedDEP: z_v of every client's nodes, kept at the client.

    Nothing is sent, unless the recipe wants F to start from the average of the local GNNs.
    """

    name: str = "local_gnn"
    reports: frozenset[str] = frozenset({"training_nodes"})

    def rounds(self, recipe: Recipe) -> int:
        """One; the client trains for as many epochs as the recipe says."""
        return 1

    def serve(self, recipe: Recipe, ask: Ask, state: State) -> tuple[State, None]:
        """Lets every client train, and averages what they send, if anything."""
        replies = ask.all("train")
        sent = [group(reply.arrays, "classifier") for reply in replies]
        if not all(sent):
            return state, None
        mean = weighted_mean(sent, [reply.metrics["training_nodes"] for reply in replies])
        start = to_arrays(recipe.classifier())
        return {**state, **grouped("classifier", start | mean)}, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Trains and embeds; the embeddings stay here."""
        embeddings, weights = local_embeddings(silo)
        state = {**state, "embeddings": embeddings}
        if not silo.recipe.embedding.warm_start:
            return Reply(request.client), state
        shapes = {name: array.shape for name, array in to_arrays(silo.classifier()).items()}
        last = f"convolutions.{silo.recipe.model.layers - 1}."
        shared = {
            name: np.asarray(array)
            for name, array in weights.items()
            if not name.startswith(last) and array.shape == shapes.get(name)
        }
        metrics = {"training_nodes": len(silo.graph.members(Part.TRAIN))}
        return Reply(request.client, grouped("classifier", shared), metrics), state
