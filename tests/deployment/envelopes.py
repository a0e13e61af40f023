"""Envelopes of a small run, and one silo to send them to."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from feddep.deployment.protocol.agreement import Agreement
from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.memory import Carried, RunMemory
from feddep.deployment.protocol.request_log import place_of
from feddep.deployment.protocol.silo_service import SiloService
from feddep.federation.messages import Arrays, grouped
from feddep.graph.graph import Graph
from feddep.models.weights import to_arrays
from feddep.runtime.envelope import Envelope
from feddep.scenario.spec import RunSpec

CONSENT = Consent(
    methods={"fedavg"},
    messages={"classifier"},
    rounds=3,
    smallest_cluster=5,
    highest_epsilon="unbounded",
)

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
class SiloWithMemory:
    """A silo and what it remembers."""

    service: SiloService
    runs: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def __call__(self, envelope: Envelope) -> Envelope:
        return self.service.answer(envelope, lambda run: Carried(self.runs.setdefault(run, {})))


def changed(silo: SiloWithMemory, **fields) -> SiloWithMemory:
    return SiloWithMemory(replace(silo.service, **fields))


def lines(silo: SiloWithMemory, kind: str | None = None) -> list[dict]:
    """The disclosure log's lines about payloads, or of another kind."""
    path = silo.service.disclosures.path
    found = map(json.loads, path.read_text().splitlines()) if path.exists() else []
    return [line for line in found if line.get("kind") == kind]


def same(one: Envelope, other: Envelope) -> bool:
    return one.header == other.header and all(
        np.array_equal(one.arrays[name], other.arrays[name], equal_nan=True)
        for name in one.arrays.keys() | other.arrays.keys()
    )


def refused(answer: Envelope) -> str:
    assert set(answer.header) == {"refused"}
    assert not answer.arrays
    return answer.header["refused"]


def counts(silo: SiloWithMemory) -> dict[str, int]:
    """What the silo's memory counts as sent."""
    return RunMemory(Carried(silo.runs["run"])).recall()[2]
