"""Envelopes of a small run, and one silo to send them to."""

from dataclasses import dataclass, field
from typing import Any

from feddep.deployment.protocol.agreement import Agreement
from feddep.deployment.protocol.memory import Carried
from feddep.deployment.protocol.request_log import place_of
from feddep.deployment.protocol.silo_service import SiloService
from feddep.federation.messages import Arrays, grouped
from feddep.graph.graph import Graph
from feddep.models.weights import to_arrays
from feddep.runtime.envelope import Envelope
from feddep.scenario.spec import RunSpec

SMALL = {"model.hidden": 4, "training.rounds": 3, "partition.clients": 3, "preset": "paper"}


def agreement_on(graph: Graph, method: str = "fedavg", **settings: Any) -> Agreement:
    """One for a silo with this graph."""
    spec = RunSpec().with_settings({**SMALL, "method": method, **settings})
    return Agreement("run", spec, graph.feature_count, graph.classes, 3 * graph.nodes)


def agree(agreement: Agreement, **header: Any) -> Envelope:
    return Envelope({"kind": "agree", "client": 0, **agreement.to_plain(), **header})


def request(agreement: Agreement, round: int = 0, **header: Any) -> Envelope:
    """Trains the first classifier; one step in each round."""
    previous = place_of(0, round - 1, 0) if round else None
    fields = {
        "kind": "request",
        "run": agreement.run,
        "place": place_of(0, round, 0),
        "previous": previous,
        "client": 0,
        "phase": "averaging",
        "step": "train",
        "round": round,
        "silent": False,
    }
    return Envelope({**fields, **header}, first_classifier(agreement))


def first_classifier(agreement: Agreement) -> Arrays:
    return grouped("classifier", to_arrays(agreement.learning.classifier()))


@dataclass
class Correspondent:
    """A silo and what it remembers."""

    service: SiloService
    runs: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def __call__(self, envelope: Envelope) -> Envelope:
        return self.service.answer(envelope, lambda run: Carried(self.runs.setdefault(run, {})))
