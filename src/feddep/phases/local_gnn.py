"""Every client trains a GNN of its own for the embeddings of its nodes; nothing is sent."""

from dataclasses import dataclass

from feddep.federation.messages import Reply, Request, State
from feddep.federation.phase import Ask
from feddep.learning.local_gnn import local_embeddings
from feddep.learning.recipe import Recipe, Silo


@dataclass(frozen=True)
class LocalGnnTraining:
    """Step 1 of FedDEP: z_v of every client's nodes, kept at the client."""

    name: str = "local_gnn"
    reports: frozenset[str] = frozenset()

    def rounds(self, recipe: Recipe) -> int:
        """One; the client trains for as many epochs as the recipe says."""
        return 1

    def serve(self, recipe: Recipe, ask: Ask, state: State) -> tuple[State, None]:
        """Lets every client train."""
        ask.all("train")
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Trains and embeds; the embeddings stay here."""
        return Reply(request.client), {**state, "embeddings": local_embeddings(silo)}
