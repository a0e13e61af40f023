"""A third party that knows the edges between clients passes on the true neighbours' features."""

from dataclasses import dataclass

import numpy as np

from feddep.federation.content import Count, Nodes, Table
from feddep.federation.matching import Matching
from feddep.federation.messages import Arrays, Reply, Request, State, group, grouped
from feddep.federation.phase import Ask, Phase, Step, Steps
from feddep.graph.graph import Graph
from feddep.learning.expansion import features_from, features_to, stacked
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.privacy.events import Event


@dataclass(frozen=True)
class NeighbourExpansion(Phase[Silo, LearningSpec]):
    """Gives every client the nodes at the other end of its lost edges, as nodes with features.

    Source: Wu et al. 2022, "privacy-preserving user-item graph expansion", where a trusted server
    matches neighbours and returns fixed embeddings of them.
    """

    name: str = "neighbour_expansion"

    def steps(self, spec: LearningSpec) -> Steps:
        """Features of the nodes that are asked for go up; those of their neighbours come down."""
        features = Table(Count.ASKED, spec.features)
        added = Table(Count.NEIGHBOURS, spec.features, linked=True)
        return {
            "show": Step(request={"nodes": Nodes()}, reply={"features": features}),
            "receive": Step(request={"added": added}),
        }

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """None: features are sent, and no neighbour list is read."""
        return []

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Asks every client for the nodes that others link to, and passes them on."""
        matching = Matching(state)
        replies = ask.each("show", [{"nodes": nodes} for nodes in matching.linked])
        matching = matching.among([reply.client for reply in replies])
        shown = stacked(
            [features_from(group(r.arrays, "features"), spec.features) for r in replies]
        )
        told: list[Arrays] = []
        for client in range(ask.clients):
            # Each neighbour once, however many of the client's nodes it is linked to.
            places, numbers = np.unique(matching.places(client), return_inverse=True)
            links = np.stack([matching.own_nodes(client), numbers], axis=1)
            told.append(grouped("added", {"links": links, **features_to(shown[places])}))
        ask.each("receive", told)
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Sends the features of some of its nodes, or receives the neighbours of its own."""
        if request.step == "show":
            features = features_to(silo.graph.features[request.arrays["nodes"]])
            return Reply(request.client, grouped("features", features)), state
        added = {name: np.array(a) for name, a in group(request.arrays, "added").items()}
        return Reply(request.client), {**state, **grouped("added", added)}
