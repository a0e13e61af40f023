"""Averaging in which linked silos tell each other something about the nodes that links join."""

from dataclasses import dataclass, field

import numpy as np

from feddep.errors import InputError
from feddep.federation.content import ByPeer, Weights
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.federation.phase import Ask, RoundReport, Step, Steps
from feddep.federation.sealed import Sealed, routed
from feddep.graph.graph import Graph
from feddep.learning.link_exchange import Place
from feddep.learning.link_mending import Codes, HeardColumns, LinkTalk
from feddep.learning.link_rows import rows_for_peers, rows_from_peers
from feddep.learning.mending import Mended, Mender, Recalling
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.weights import to_arrays
from feddep.phases.averaging import Averaging
from feddep.privacy.events import Event, FullNeighbours


@dataclass(frozen=True)
class AveragingOverLinks(Averaging):
    """Averaging; before some rounds, every silo answers for the nodes that others link to.

    What travels between two silos is sealed: the server sees how much, and nothing else. The links
    themselves are found before, by :class:`~feddep.phases.link_matching.LinkMatching`.
    """

    mender: Mender | None = field(default_factory=HeardColumns)
    talk: LinkTalk = field(default_factory=Codes)

    def steps(self, spec: LearningSpec) -> Steps:
        """The classifier goes out with the question; answers go to the silos that asked."""
        weights = {"classifier": Weights(spec.classifier_shapes)}
        each = self.talk.width(spec) * np.dtype(self.talk.dtype).itemsize
        answers = ByPeer(Sealed(each), optional=True)
        releases = len(self.talk.exchanges(spec))
        return {
            **super().steps(spec),
            "answer": Step(request=weights, reply={"answers": answers}, releases=releases),
            "hear": Step(request={"answers": answers}),
        }

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """Answers are priced for the node; what a classifier predicts reads neighbour lists."""
        read = FullNeighbours(self.name)
        return [*super().events(spec, graph), read, self.talk.event(spec, self.name)]

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, RoundReport]:
        """Has answers given if they are due, then averages as usual."""
        if ask.round in self.talk.exchanges(spec):
            weights = group(state, "classifier") or to_arrays(spec.classifier())
            replies = ask.all("answer", grouped("classifier", weights))
            ask.each("hear", routed(replies, ask.clients, "answers"))
        return super().serve(spec, ask, state)

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Answers for the nodes that others link to, hears what they say, or trains as usual."""
        place = Place(self.name, "answer", request.round)
        if request.step == "answer":
            model = silo.classifier(group(request.arrays, "classifier"))
            release = self._release(request.round, silo.spec)
            answers = self.talk.said(model, self._mended(silo, state), silo, release)
            sealed = rows_for_peers(silo, state, answers, place)
            return Reply(request.client, grouped("answers", sealed)), state
        if request.step == "hear":
            width, dtype = self.talk.width(silo.spec), self.talk.dtype
            sealed = group(request.arrays, "answers")
            found = rows_from_peers(silo, state, sealed, place, dtype, width)
            return Reply(request.client), {**self.talk.heard(found, silo, state)}
        return super().answer(request, state, silo)

    def _release(self, round: int, spec: LearningSpec) -> int:
        """Which of the run's exchanges a round is."""
        agreed = self.talk.exchanges(spec)
        if round not in agreed:
            rounds = ", ".join(map(str, agreed))
            raise InputError(
                f"answers about linked nodes were agreed on before the rounds {rounds}, not before "
                f"round {round}"
            )
        return agreed.index(round)

    def _mended(self, silo: Silo, state: State) -> Mended:
        return (
            self.mender.recall(silo, state) if isinstance(self.mender, Recalling) else Mended(silo)
        )
