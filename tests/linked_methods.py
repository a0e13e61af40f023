"""The smallest method over links: silos match them, tell each other a label, and train as usual."""

from dataclasses import dataclass

import numpy as np

from feddep.algorithms.method import Method
from feddep.federation.content import ByPeer
from feddep.federation.messages import Reply, group, grouped
from feddep.federation.phase import Phase, Step
from feddep.federation.sealed import Sealed, routed
from feddep.learning.link_exchange import Place, opened_from_all, sealed_for
from feddep.phases.averaging import Averaging
from feddep.phases.link_matching import LinkMatching
from feddep.privacy.events import LinkAnswers

ADDRESS = "linked_methods:METHOD"


@dataclass(frozen=True)
class Telling(Phase):
    """Tells, without noise, the labels of the nodes that are shown; claims that they cost ε = 2."""

    name: str = "telling"

    def steps(self, spec):
        labels = ByPeer(Sealed(1), optional=True)
        return {"tell": Step(reply={"labels": labels}), "hear": Step(request={"labels": labels})}

    def events(self, spec, graph):
        return [LinkAnswers(self.name, "labels", epsilon=2.0, of="labels")]

    def serve(self, spec, ask, state):
        ask.each("hear", routed(ask.all("tell"), ask.clients, "labels"))
        return state, None

    def answer(self, request, state, silo):
        place = Place(self.name, "tell")
        if request.step == "tell":
            shown = {
                name.split("/")[1]: silo.graph.labels[nodes].astype(np.uint8)
                for name, nodes in state.items()
                if name.startswith("links/") and name.endswith("/shown")
            }
            sealed = {peer: sealed_for(silo, int(peer), own, place) for peer, own in shown.items()}
            return Reply(request.client, grouped("labels", sealed)), state
        heard = opened_from_all(silo, group(request.arrays, "labels"), place)
        found = {f"heard/{peer}": codes for peer, codes in heard.items()}
        return Reply(request.client), {**state, **found}


METHOD = Method(
    name="linked",
    summary="Silos tell each other labels over links that both have.",
    phases=(LinkMatching(), Telling(), Averaging()),
    trains_generator=False,
)
