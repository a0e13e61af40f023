"""A third party that knows the edges between clients passes on the true neighbours' embeddings.

Nobody knows these edges in the problem that FedDEP solves. This is the reference for what a
perfect generator could bring.
"""

from dataclasses import dataclass

import numpy as np

from feddep.federation.messages import Arrays, Reply, Request, State, group
from feddep.federation.phase import Ask
from feddep.learning.mending import centred
from feddep.learning.recipe import Recipe, Silo


@dataclass(frozen=True)
class TrueNeighbours:
    """Gives every client z̄ of its nodes, the mean of the embeddings of their lost neighbours."""

    name: str = "true_neighbours"
    reports: frozenset[str] = frozenset()

    def rounds(self, recipe: Recipe) -> int:
        """One."""
        return 1

    def serve(self, recipe: Recipe, ask: Ask, state: State) -> tuple[State, None]:
        """Asks every client for the nodes that others link to, and tells these about them."""
        crossings = [group(state, "crossings")[str(client)] for client in range(ask.clients)]
        everything = np.concatenate(crossings)
        linked = [np.unique(everything[everything[:, 1] == c, 2]) for c in range(ask.clients)]
        shown = [
            reply.arrays["embeddings"]
            for reply in ask.each("show", [{"nodes": nodes} for nodes in linked])
        ]
        told: list[Arrays] = []
        for rows in crossings:
            neighbours = np.zeros((len(rows), recipe.embedding_width), np.float32)
            for client in range(ask.clients):
                mine = rows[:, 1] == client
                neighbours[mine] = shown[client][np.searchsorted(linked[client], rows[mine, 2])]
            told.append({"nodes": rows[:, 0], "neighbours": neighbours})
        ask.each("receive", told)
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Shows embeddings of some of its nodes, or takes in those of their neighbours."""
        nodes = request.arrays["nodes"]
        if request.step == "show":
            return Reply(request.client, {"embeddings": state["embeddings"][nodes]}), state
        total = np.zeros((silo.graph.nodes, silo.recipe.embedding_width), np.float32)
        np.add.at(total, nodes, request.arrays["neighbours"])
        count = np.bincount(nodes, minlength=silo.graph.nodes)
        mended = (total / np.maximum(count, 1)[:, None]).astype(np.float32)
        if silo.recipe.generator.centred:
            mended = centred(mended)
        kept = {name: array for name, array in state.items() if name != "embeddings"}
        return Reply(request.client), {**kept, "mended": mended}
