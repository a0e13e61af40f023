"""Silos find out, pairwise and under seal, which links both of them have."""

from dataclasses import dataclass

import numpy as np

from feddep.federation.content import ByPeer
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.federation.phase import Ask, Phase, Step, Steps
from feddep.federation.sealed import Sealed, routed
from feddep.graph.graph import Graph
from feddep.learning.link_exchange import Place, claims, matched, opened_from_all
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.privacy.events import Event, MatchedLinks


@dataclass(frozen=True)
class LinkMatching(Phase[Silo, LearningSpec]):
    """Leaves in a silo's memory, for every peer j, the links that both have.

    ``links/j/own``, ``(L,)``: the own node of each; ``links/j/shown``, ``(k,)``: the own nodes with
    such a link, in an order that j knows too; ``links/j/place``, ``(L,)``: for each link, where its
    other end is in j's ``shown``. A peer that did not take part has none of the three.

    The server learns, to 3%, how many links each silo believes to have with each other one. A peer
    learns of a link that it does not have only if it guesses both ids.
    """

    name: str = "link_matching"

    def steps(self, spec: LearningSpec) -> Steps:
        """Tags go to every other silo, under seal."""
        tags = ByPeer(Sealed(8), optional=True)
        return {"claim": Step(reply={"tags": tags}), "match": Step(request={"tags": tags})}

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """Edges inside the silo are not read."""
        return [MatchedLinks()]

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Carries every silo's tags to the others."""
        replies = ask.all("claim")
        ask.each("match", routed(replies, ask.clients, "tags"))
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Claims the silo's links, or keeps those that the other ends claim too."""
        place = Place(self.name, "claim", request.round)
        peers = silo.links.peers if silo.links else []
        if request.step == "claim":
            tags = {str(peer): claims(silo, peer, place) for peer in peers}
            return Reply(request.client, grouped("tags", tags)), state
        claimed = opened_from_all(silo, group(request.arrays, "tags"), place, np.uint64)
        found = {
            f"{peer}/{part}": array
            for peer, tags in claimed.items()
            for part, array in vars(matched(silo, peer, tags)).items()
        }
        return Reply(request.client), {**state, **grouped("links", found)}
