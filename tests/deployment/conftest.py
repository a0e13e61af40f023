"""One silo with a consent, a disclosure log and a secret, and a small run to ask it for."""

import pytest
from envelopes import CONSENT, SiloWithMemory, agreement_on

from feddep.deployment.protocol.agreement import Agreement
from feddep.deployment.protocol.disclosure_log import DisclosureLog
from feddep.deployment.protocol.silo_service import SiloService
from feddep.federation.client import Client


@pytest.fixture
def graph(small_shards):
    return small_shards[0]


@pytest.fixture
def agreement(graph) -> Agreement:
    return agreement_on(graph)


@pytest.fixture
def silo(graph, tmp_path) -> SiloWithMemory:
    service = SiloService(
        "bank-a",
        lambda: graph,
        consent=CONSENT,
        disclosures=DisclosureLog(tmp_path / "disclosures.jsonl"),
        secret=7,
        results=tmp_path / "results",
    )
    return SiloWithMemory(service)


@pytest.fixture
def handled(monkeypatch) -> list[int]:
    """The rounds that were worked out."""
    rounds: list[int] = []
    handle = Client.handle

    def noting(self, request, state):
        rounds.append(request.round)
        return handle(self, request, state)

    monkeypatch.setattr(Client, "handle", noting)
    return rounds
