"""What server and silos send each other over a network: a header of plain data, and arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from feddep.federation.messages import Arrays


@dataclass(frozen=True)
class Envelope:
    """One message in either direction.

    Attributes:
        header: plain data; ``kind`` says what it is about.
        arrays: the payload.
    """

    header: Mapping[str, Any]
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Undelivered:
    """In place of an answer: it will not come, and why."""

    reason: str


class Channel(Protocol):
    """Whoever carries envelopes to the silos and their answers back."""

    def addresses(self) -> Sequence[int]:
        """The silos that are connected at the moment, in ascending order."""
        ...

    def deliver(
        self, envelopes: Mapping[int, Envelope], seconds: float
    ) -> dict[int, Envelope | Undelivered]:
        """The answers that came in so many seconds, by address; the rest may still be on its way.

        Returns as soon as everybody has answered.
        """
        ...
