"""Clients send noised codes of their nodes; the server links similar ones across clients."""

from dataclasses import dataclass

import numpy as np

from feddep.federation.content import Count, Rows, optional
from feddep.federation.messages import Arrays, Reply, Request, State
from feddep.federation.phase import Ask, Phase, Step, Steps
from feddep.graph.graph import Graph
from feddep.learning.code_graph import nearest_elsewhere
from feddep.learning.generation import centred
from feddep.learning.local_gnn import known_embeddings
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.privacy.events import Event
from feddep.privacy.noise import with_noise


@dataclass(frozen=True)
class CodeGraph(Phase[Silo, LearningSpec]):
    """Learns a k-nearest-neighbour graph over the codes of all clients' nodes.

    A node's code is its embedding with Gaussian noise. Its neighbours are the k nearest codes of
    *other* clients; the client receives their mean, which F gets for a share r of the nodes.
    """

    name: str = "code_graph"

    def steps(self, spec: LearningSpec) -> Steps:
        """A code of every node goes up; the mean of its new neighbours comes down."""
        codes = Rows(Count.NODES, (spec.embedding_width,))
        return {
            "show": Step(reply={"codes": codes}),
            "receive": Step(request={"neighbours": optional(codes)}),
        }

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """None: the embeddings were computed before."""
        return []

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Collects the codes, links them, and returns the mean of each node's new neighbours.

        A client that sends no codes receives nothing for its nodes.
        """
        replies = ask.all("show")
        codes = [reply.arrays["codes"] for reply in replies]
        k = spec.embedding.code_neighbours
        told: dict[int, Arrays] = {
            reply.client: {"neighbours": nearest_elsewhere(codes, place, k)}
            for place, reply in enumerate(replies)
        }
        ask.each("receive", [told.get(client, {}) for client in range(ask.clients)])
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Sends noised codes, or receives the means of their neighbours."""
        if request.step == "show":
            embeddings = known_embeddings(silo, state)
            rng = silo.noise(silo.seeds, self.name, {"embeddings": embeddings})
            codes = with_noise(rng, embeddings, silo.spec.embedding.code_noise)
            return Reply(request.client, {"codes": codes}), {**state, "embeddings": embeddings}
        if "neighbours" not in request.arrays:
            return Reply(request.client), state
        missing = np.array(request.arrays["neighbours"])
        # A node's new neighbours resemble it so much that F would rely on them alone, and know
        # nothing where there are none, as at the paper's inference.
        without = silo.seeds.stream(self.name, "keep").random(len(missing))
        missing[without >= silo.spec.generator.keep] = 0
        if silo.spec.generator.centred:
            missing = centred(missing)
        return Reply(request.client), {**state, "missing_embeddings": missing}
