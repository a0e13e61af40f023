"""Prototypes go to the server once, and from it to everyone else.

Nothing else is sent before the averaging rounds: the paper's pseudo-FL, section 3.2.
"""

from dataclasses import dataclass

from feddep.federation.content import ByPeer, Rows
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.federation.phase import Ask, Phase, Step, Steps
from feddep.graph.graph import Graph
from feddep.learning.mending import with_prototypes
from feddep.learning.prototypes import Prototypes, held_once, released
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.privacy.events import Event


@dataclass(frozen=True)
class PrototypeExchange(Phase[Silo, LearningSpec]):
    """Step 2 of FedDEP: up at most M·C·d_z numbers, down at most M·(M - 1)·C·d_z."""

    name: str = "prototype_exchange"

    def steps(self, spec: LearningSpec) -> Steps:
        """Cluster means go up; those of the others come down."""
        means_of = spec.embedding.smallest
        means = Rows(spec.embedding.clusters, (spec.embedding_width,), means_of=means_of)
        return {
            "release": Step(reply={"prototypes": means}),
            "receive": Step(request={"foreign": ByPeer(means, optional=True)}),
        }

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """None: the embeddings were computed before."""
        return []

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Collects every client's prototypes and gives each client those of the others."""
        shown = {reply.client: reply.arrays["prototypes"] for reply in ask.all("release")}
        foreign = [
            grouped("foreign", {str(j): z for j, z in shown.items() if j != client})
            for client in range(ask.clients)
        ]
        ask.each("receive", foreign)
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Releases cluster means of the embeddings, or receives the others'."""
        if request.step == "receive":
            foreign = {name: held_once(a) for name, a in group(request.arrays, "foreign").items()}
            return Reply(request.client), {**state, **grouped("foreign", foreign)}
        state = with_prototypes(silo, state)
        found = Prototypes(state["prototypes"], state["cluster"])
        return Reply(request.client, {"prototypes": released(found, silo.spec.embedding)}), state
