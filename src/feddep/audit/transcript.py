"""What the server sees: every message of a run, both ways."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from feddep.federation.messages import Reply, Request
from feddep.federation.metering import Transport


@dataclass
class Recorder:
    """A transport that keeps what it passes on.

    Args:
        transport: what actually carries the messages.
    """

    transport: Transport
    messages: list[tuple[Request, Reply]] = field(default_factory=list)

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Passes the requests on and keeps them with their replies."""
        replies = self.transport.exchange(requests)
        self.messages += zip(requests, replies, strict=True)
        return replies

    def of_phase(self, name: str) -> Iterator[Reply]:
        """The replies in one phase, in the order of their arrival."""
        return (reply for request, reply in self.messages if request.phase == name)
