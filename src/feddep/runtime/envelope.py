"""Envelopes, which the server and the silos send each other, and the channel that carries them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from feddep.federation.messages import Arrays

LARGEST_BYTES = 1 << 27
"""Of all arrays of one message. Whoever reads one needs about three times as much memory."""
LARGEST_MESSAGE = LARGEST_BYTES + (1 << 22)
"""Of a packed message, with its header and the names of its arrays."""


@dataclass(frozen=True)
class Envelope:
    """One message over a network, in either direction.

    Attributes:
        header: plain data, such as JSON can hold; in a request, ``kind`` says what it is about.
        arrays: the payload.
    """

    header: Mapping[str, Any]
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Undelivered:
    """Takes the place of an answer that will not come, and says why."""

    reason: str


class Channel(Protocol):
    """Carries envelopes to silos, and their answers back."""

    def addresses(self) -> Sequence[int]:
        """The addresses of the silos that are connected now, in ascending order."""
        ...

    def deliver(
        self, envelopes: Mapping[int, Envelope], seconds: float
    ) -> dict[int, Envelope | Undelivered]:
        """Delivers envelopes, by address, and returns the answers that come in time.

        Returns as soon as all silos have answered. Answers that take longer are still accepted
        when the same envelope is delivered again.
        """
        ...
