"""A post without a network: letters go through Flower's records to stations in this process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from feddep.deployment.memory import Carried
from feddep.deployment.station import Station
from feddep.graph.shard import Shards
from feddep.runtime.flower.codec import from_record, to_record
from feddep.runtime.letter import Letter, Lost

Tamper = Callable[[int, Letter, Letter], Letter | Lost | None]
"""Called with address, letter and answer; what it returns arrives. None: nothing arrives."""


@dataclass
class Desk:
    """Silos at addresses 100, 99, …: an order that is not the clients'."""

    stations: list[Station]
    tamper: Tamper = lambda address, letter, answer: answer
    memories: dict[int, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    asked: list[tuple[int, Letter]] = field(default_factory=list)

    def addresses(self) -> list[int]:
        return sorted(100 - number for number in range(len(self.stations)))

    def deliver(self, letters: Mapping[int, Letter], seconds: float) -> dict[int, Letter | Lost]:
        answers: dict[int, Letter | Lost] = {}
        for address, letter in letters.items():
            self.asked.append((address, letter))
            own = self.memories.setdefault(address, {})
            station = self.stations[100 - address]
            came = from_record(to_record(letter))
            answer = station.answer(came, lambda run, own=own: Carried(own.setdefault(run, {})))
            got = self.tamper(address, letter, from_record(to_record(answer)))
            if got is not None:
                answers[address] = got
        return answers


def stations(shards: Shards, **options: object) -> list[Station]:
    return [
        Station(f"silo-{number}", lambda graph=graph: graph, **options)
        for number, graph in enumerate(shards)
    ]
