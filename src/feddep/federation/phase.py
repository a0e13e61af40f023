"""What a phase is: one conversation, both halves side by side, and all that it may carry.

A phase is a sequence of rounds. In each, the server half asks and the client half answers. Both
take their memory as a value and return it, so a run can stop after any round, store the values, and
continue later, in another process if need be.

A phase also declares what every step carries in both directions, and what it does with a client's
edges. Clients, inspection, consent, disclosure log and accountant read these declarations; what is
not declared cannot be sent.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from feddep.errors import InputError, RuntimeFailureError
from feddep.federation.content import Content, Number
from feddep.federation.messages import Arrays, Reply, Request, State, settled
from feddep.graph.graph import Graph
from feddep.privacy.events import Event, FullNeighbours

SiloT = TypeVar("SiloT", contravariant=True)
SpecT = TypeVar("SpecT", contravariant=True)


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one step of a phase carries. What is not listed cannot be sent.

    Attributes:
        request: groups of arrays that the server sends.
        reply: groups of arrays that leave the client.
        numbers: plain numbers that leave the client with them, all of them every time.
        releases: how often the reply's arrays may leave in a run, if their price depends on that,
            as it does for noised gradients; otherwise None.
    """

    request: Mapping[str, Content] = field(default_factory=dict)
    reply: Mapping[str, Content] = field(default_factory=dict)
    numbers: Mapping[str, Number] = field(default_factory=dict)
    releases: int | None = None

    def __post_init__(self) -> None:
        wrong = [
            f"{name} is {type(value).__name__}"
            for values, kind in (
                (self.request, Content),
                (self.reply, Content),
                (self.numbers, Number),
            )
            for name, value in values.items()
            if not isinstance(value, kind)
        ]
        if wrong:
            raise InputError(
                "a step maps groups of arrays to a Content, such as Exactly((3,)), and numbers to "
                f"Number.REAL or Number.COUNT (got: {', '.join(wrong)})"
            )


Steps = Mapping[str, Step]
"""The steps of one phase, by name."""


@dataclass(frozen=True)
class RoundReport:
    """What one round says about a classifier.

    Attributes:
        round: how many rounds the classifier has been trained.
        metrics: numbers for the history (loss, silo scores).
        classifier: the classifier's weights, or None if each client holds its own.
    """

    round: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    classifier: Arrays | None = None


@dataclass(frozen=True)
class Ask:
    """How the server half asks its clients, in one phase and round.

    Every client is asked at every step. A client that is away has no reply: go by
    ``reply.client``, never by a reply's position in the list.
    """

    clients: int
    phase: str
    round: int
    send: Callable[[Sequence[Request]], list[Reply]]

    def all(self, step: str, arrays: Arrays | None = None) -> list[Reply]:
        """Asks every client for the same."""
        return self.each(step, [arrays or {}] * self.clients)

    def each(self, step: str, arrays: Sequence[Arrays]) -> list[Reply]:
        """Asks every client, each with arrays of its own; the replies are in the clients' order.

        Raises:
            RuntimeFailureError: nobody answered.
        """
        if len(arrays) != self.clients:
            raise ValueError(f"expected arrays for {self.clients} clients (got {len(arrays)})")
        replies = self.send(
            [
                Request(client, self.phase, step, self.round, settled(own))
                for client, own in enumerate(arrays)
            ]
        )
        if not replies:
            raise RuntimeFailureError(
                f"none of {self.clients} clients answered in phase {self.phase!r}, "
                f"round {self.round}, step {step!r}"
            )
        return replies


class Phase(ABC, Generic[SiloT, SpecT]):
    """One conversation between server and clients. Subclass it as a frozen dataclass.

    Attributes:
        name: as it appears in records.
    """

    name: str

    def rounds(self, spec: SpecT) -> int:
        """How many rounds the conversation takes; one by default."""
        return 1

    def steps(self, spec: SpecT) -> Steps:
        """What each step carries in a run of this spec; no other step can be taken."""
        return {}

    def events(self, spec: SpecT, graph: Graph) -> Sequence[Event]:
        """What the phase does, over all its rounds, with the edges of a client with this graph.

        By default a phase is priced as if it read every neighbour list as it is.
        """
        return [FullNeighbours(self.name)]

    @abstractmethod
    def serve(self, spec: SpecT, ask: Ask, state: State) -> tuple[State, RoundReport | None]:
        """The server half of round ``ask.round``."""

    @abstractmethod
    def answer(self, request: Request, state: State, silo: SiloT) -> tuple[Reply, State]:
        """The client half: answers one request from the client's own data."""


AnyPhase = Phase[Any, Any]


def groups_sent(phase: AnyPhase, spec: object) -> frozenset[str]:
    """The groups of arrays that leave a client in a phase."""
    return frozenset(name for step in phase.steps(spec).values() for name in step.reply)


def numbers_sent(phase: AnyPhase, spec: object) -> frozenset[str]:
    """The plain numbers that leave a client in a phase."""
    return frozenset(name for step in phase.steps(spec).values() for name in step.numbers)
