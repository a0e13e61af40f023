"""Linked silos show each other, once and under seal, what stands at the other end of a link."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from feddep.federation.content import ByPeer
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.federation.phase import Ask, Phase, Step, Steps
from feddep.federation.sealed import Sealed, routed
from feddep.graph.graph import Graph
from feddep.learning.expansion import features_to
from feddep.learning.link_exchange import Place
from feddep.learning.link_mending import known_neighbours, links_to_new
from feddep.learning.link_rows import (
    means_from_peers,
    rows_for_peers,
    rows_from_peers,
    sums_for_peers,
    tables_for_peers,
    tables_from_peers,
)
from feddep.learning.local_gnn import known_embeddings
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.privacy.events import Event, LinkAnswers

_SHOWN = {
    "embeddings": "embeddings of nodes that they have a link to",
    "features": "features of nodes that they have a link to",
    "sums": "sums of features over the links of each of their nodes, which for a node with a "
    "single link are one neighbour's features",
}


@dataclass(frozen=True)
class LinkedNeighbours(Phase[Silo, LearningSpec]):
    """Gives every silo something exact about the matched counterparties of its nodes.

    Attributes:
        show: ``embeddings``, which become z̄; ``features``, which become nodes; ``sums`` of
            features for each of the other silo's nodes, whose mean becomes z̄ (FedGCN).
    """

    show: Literal["embeddings", "features", "sums"]
    name: str = "linked_neighbours"

    def steps(self, spec: LearningSpec) -> Steps:
        """Rows go to every linked silo, under seal."""
        width = spec.embedding_width if self.show == "embeddings" else 2 * spec.features + 1
        rows = ByPeer(Sealed(4 * width), optional=True)
        return {"show": Step(reply={"rows": rows}), "receive": Step(request={"rows": rows})}

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """No neighbour list is read now, and nothing hides what is shown."""
        return [LinkAnswers(self.name, _SHOWN[self.show])]

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Carries every silo's rows to the others."""
        replies = ask.all("show")
        ask.each("receive", routed(replies, ask.clients, "rows"))
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Shows what others link to, or keeps what they show."""
        place = Place(self.name, "show", request.round)
        if request.step == "receive":
            sealed = group(request.arrays, "rows")
            return Reply(request.client), {**state, **self._kept(silo, state, sealed, place)}
        if self.show == "embeddings":
            state = {**state, "embeddings": known_embeddings(silo, state)}
            rows = rows_for_peers(silo, state, state["embeddings"], place)
        elif self.show == "features":
            rows = tables_for_peers(silo, state, place)
        else:
            rows = sums_for_peers(silo, state, place)
        return Reply(request.client, grouped("rows", rows)), state

    def _kept(self, silo: Silo, state: State, sealed: State, place: Place) -> State:
        if self.show == "sums":
            return means_from_peers(silo, state, sealed, place)
        if self.show == "embeddings":
            width = silo.spec.embedding_width
            found = rows_from_peers(silo, state, sealed, place, np.float32, width)
            return {**known_neighbours(found, silo)}
        found, features = tables_from_peers(silo, state, sealed, place)
        return grouped("added", {"links": links_to_new(found), **features_to(features)})
