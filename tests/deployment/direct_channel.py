"""A channel without a network: envelopes reach services in this process as Flower records."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from feddep.deployment.protocol.memory import Carried
from feddep.deployment.protocol.silo_service import SiloService
from feddep.graph.shard import Shards
from feddep.runtime.envelope import Envelope, Undelivered
from feddep.runtime.flower.codec import from_record, to_record

Tamper = Callable[[int, Envelope, Envelope], Envelope | Undelivered | None]
"""Called with address, envelope and answer; what it returns arrives. None: nothing arrives."""


@dataclass
class DirectChannel:
    """Silos at addresses 100, 99, …: an order that is not the clients'."""

    services: list[SiloService]
    tamper: Tamper = lambda address, envelope, answer: answer
    memories: dict[int, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    asked: list[tuple[int, Envelope]] = field(default_factory=list)

    def addresses(self) -> list[int]:
        return sorted(100 - number for number in range(len(self.services)))

    def deliver(
        self, envelopes: Mapping[int, Envelope], seconds: float
    ) -> dict[int, Envelope | Undelivered]:
        answers: dict[int, Envelope | Undelivered] = {}
        for address, envelope in envelopes.items():
            self.asked.append((address, envelope))
            own = self.memories.setdefault(address, {})
            service = self.services[100 - address]
            came = from_record(to_record(envelope))
            answer = service.answer(came, lambda run, own=own: Carried(own.setdefault(run, {})))
            got = self.tamper(address, envelope, from_record(to_record(answer)))
            if got is not None:
                answers[address] = got
        return answers


def services(shards: Shards, **options: object) -> list[SiloService]:
    return [
        SiloService(f"silo-{number}", lambda graph=graph: graph, **options)
        for number, graph in enumerate(shards)
    ]
