"""A third party that knows the edges between clients passes on the true neighbours' embeddings.

In the problem that FedDEP solves nobody knows these edges. This is the reference for what a perfect
generator could bring.
"""

from dataclasses import dataclass

import numpy as np

from feddep.federation.content import Count, Nodes, Rows
from feddep.federation.matching import Matching
from feddep.federation.messages import Reply, Request, State
from feddep.federation.phase import Ask, Phase, Step, Steps
from feddep.graph.graph import Graph
from feddep.learning.local_gnn import known_embeddings
from feddep.learning.mending import count_of, mean_of
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.privacy.events import Event


@dataclass(frozen=True)
class TrueNeighbours(Phase[Silo, LearningSpec]):
    """Gives every client z̄ of its nodes, the mean of the embeddings of their lost neighbours."""

    name: str = "true_neighbours"

    def steps(self, spec: LearningSpec) -> Steps:
        """Embeddings of the nodes that are asked for go up; those of their neighbours come down."""
        embeddings = Rows(Count.ASKED, (spec.embedding_width,))
        return {
            "show": Step(request={"nodes": Nodes()}, reply={"embeddings": embeddings}),
            "receive": Step(request={"nodes": Nodes(repeated=True), "neighbours": embeddings}),
        }

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """None: the embeddings were computed before."""
        return []

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Asks every client for the nodes that others link to, and passes their embeddings on."""
        matching = Matching(state)
        replies = ask.each("show", [{"nodes": nodes} for nodes in matching.linked])
        matching = matching.among([reply.client for reply in replies])
        shown = np.concatenate([reply.arrays["embeddings"] for reply in replies])
        ask.each("receive", matching.told(shown))
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Sends embeddings of some of its nodes, or receives those of their neighbours."""
        nodes = request.arrays["nodes"]
        if request.step == "show":
            state = {**state, "embeddings": known_embeddings(silo, state)}
            return Reply(request.client, {"embeddings": state["embeddings"][nodes]}), state
        missing = mean_of(nodes, request.arrays["neighbours"], silo)
        counts = count_of(nodes, silo)
        return Reply(request.client), {**state, "missing_embeddings": missing, "counts": counts}
