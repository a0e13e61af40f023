"""Silos find out, pairwise and under seal, which links both of them have."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from feddep.federation.content import ByPeer
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.federation.phase import Ask, Phase, Step, Steps
from feddep.federation.sealed import Sealed, routed
from feddep.graph.graph import Graph
from feddep.learning.link_exchange import (
    Matched,
    Place,
    Tags,
    claims,
    matched,
    opened_from_all,
)
from feddep.learning.one_sided_links import names_of, questions, recognised, settled_links
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
        """Tags go to every other silo, under seal; for one-sided links, back and forth."""
        tags = ByPeer(Sealed(8), optional=True)
        claim = {"claim": Step(reply={"tags": tags})}
        if not spec.links.one_sided:
            return {**claim, "match": Step(request={"tags": tags})}
        match = Step(request={"tags": tags}, reply={"names": tags})
        return {**claim, "match": match, "settle": Step(request={"names": tags})}

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """Edges inside the silo are not read."""
        return [MatchedLinks(spec.links.one_sided)]

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Carries every silo's tags to the others."""
        replies = ask.each("match", routed(ask.all("claim"), ask.clients, "tags"))
        if spec.links.one_sided:
            ask.each("settle", routed(replies, ask.clients, "names"))
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Claims the silo's links, or keeps those that the other ends claim too."""
        one_sided = silo.spec.links.one_sided
        claim = Place(self.name, "claim", request.round)
        if request.step == "claim":
            say = questions if one_sided else claims
            peers = silo.links.peers if silo.links else []
            tags = {str(peer): say(silo, peer, claim) for peer in peers}
            return Reply(request.client, grouped("tags", tags)), state
        if request.step == "settle":
            return Reply(request.client), {**state, **self._settled(request, state, silo)}
        claimed = opened_from_all(silo, group(request.arrays, "tags"), claim, np.uint64)
        if one_sided:
            return self._recognised(request, state, silo, claimed)
        found = {peer: matched(silo, peer, tags) for peer, tags in claimed.items()}
        return Reply(request.client), {**state, **_kept(found)}

    def _recognised(
        self, request: Request, state: State, silo: Silo, asked: Mapping[int, Tags]
    ) -> tuple[Reply, State]:
        """Names the own nodes that others are answered for."""
        place = Place(self.name, "match", request.round)
        shown = {peer: recognised(silo, peer, tags) for peer, tags in asked.items()}
        names = {str(peer): names_of(silo, peer, own, place) for peer, own in shown.items()}
        kept = {f"links/{peer}/shown": own for peer, own in shown.items()}
        return Reply(request.client, grouped("names", names)), {**state, **kept}

    def _settled(self, request: Request, state: State, silo: Silo) -> State:
        """The links for which others answer."""
        place = Place(self.name, "match", request.round)
        named = opened_from_all(silo, group(request.arrays, "names"), place, np.uint64)
        return _kept(
            {
                peer: settled_links(silo, peer, state[f"links/{peer}/shown"], tags)
                for peer, tags in named.items()
                if f"links/{peer}/shown" in state
            }
        )


def _kept(found: Mapping[int, Matched]) -> State:
    return {
        f"links/{peer}/{part}": array
        for peer, links in found.items()
        for part, array in vars(links).items()
    }
