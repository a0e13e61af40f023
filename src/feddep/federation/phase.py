"""What a phase is: one conversation, both halves side by side.

A phase is a sequence of rounds. In each the server half asks, the client half answers, and both
hand their state over as values; so whoever runs the rounds can stop after any of them, store the
values, and go on later, in another process if need be.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from feddep.errors import RuntimeFailureError
from feddep.federation.messages import Arrays, Reply, Request, State

Silo = TypeVar("Silo", contravariant=True)
LearningSpec = TypeVar("LearningSpec", contravariant=True)


@dataclass(frozen=True)
class RoundReport:
    """What one round found out about a classifier.

    Attributes:
        round: how many rounds of training the classifier has behind it.
        metrics: numbers for the history (loss, silo scores).
        classifier: the classifier's weights, or None where each client holds its own.
    """

    round: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    classifier: Arrays | None = None


@dataclass(frozen=True)
class Ask:
    """The server half's way to its clients, bound to one phase and round.

    Everybody is asked at every step. A client that is away has no reply, and what it would have
    said is left out: go by ``reply.client``, never by a reply's place in the list.
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
                Request(client, self.phase, step, self.round, own)
                for client, own in enumerate(arrays)
            ]
        )
        if not replies:
            raise RuntimeFailureError(
                f"none of {self.clients} clients answered in phase {self.phase!r}, "
                f"round {self.round}, step {step!r}"
            )
        return replies


class Phase(Protocol[Silo, LearningSpec]):
    """One conversation between server and clients.

    Attributes:
        name: as it appears in records.
        reports: names of the plain numbers that replies may hold.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def reports(self) -> frozenset[str]: ...  # noqa: D102

    def rounds(self, spec: LearningSpec) -> int:
        """How many rounds the conversation takes."""
        ...

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, RoundReport | None]:
        """The server half of round ``ask.round``."""
        ...

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """The client half: answers one request from the client's own data."""
        ...


AnyPhase = Phase[Any, Any]
