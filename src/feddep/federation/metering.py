"""Counting the bytes that cross the boundary, by phase and direction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from feddep.errors import RuntimeFailureError
from feddep.federation.messages import Reply, Request, group_of, payload_bytes


class Transport(Protocol):
    """What carries messages; phases know no more of a runtime than this one call."""

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Delivers the requests and returns the replies in the same order.

        A client that is away, or whose reply was refused, has none, so only ``reply.client`` says
        whose a reply is.
        """
        ...


def matched(
    requests: Sequence[Request], replies: Sequence[Reply]
) -> list[tuple[Request, Reply | None]]:
    """Every request with its reply, or with None if there is none.

    Raises:
        RuntimeFailureError: a reply answers no request, or replies are out of order.
    """
    pairs: list[tuple[Request, Reply | None]] = []
    left = list(reversed(replies))
    for request in requests:
        answered = bool(left) and left[-1].client == request.client
        pairs.append((request, left.pop() if answered else None))
    if left:
        raise RuntimeFailureError(
            f"a reply from client {left[-1].client} was not asked for, or came out of order"
        )
    return pairs


@dataclass
class Traffic:
    """Bytes of array payload in one phase, seen from the clients."""

    up_bytes: int = 0
    down_bytes: int = 0


@dataclass
class Meter:
    """A transport that counts what it passes on.

    Args:
        transport: what actually carries the messages.
        phases: traffic so far; phases that send nothing stay listed with zeros.
        sent: what left each client, how often and how many bytes, by ``client/phase/name``; plain
            numbers have the name ``numbers``.
    """

    transport: Transport
    phases: dict[str, Traffic] = field(default_factory=dict)
    sent: dict[str, list[int]] = field(default_factory=dict)

    def expect(self, names: Iterable[str]) -> None:
        """Lists phases from the start, so that a phase without traffic is recorded as zero."""
        for name in names:
            self.phases.setdefault(name, Traffic())

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Passes the requests on and counts both directions; an unanswered request counts too."""
        replies = self.transport.exchange(requests)
        for request, reply in matched(requests, replies):
            traffic = self.phases.setdefault(request.phase, Traffic())
            traffic.down_bytes += payload_bytes(request.arrays)
            if reply is not None:
                traffic.up_bytes += payload_bytes(reply.arrays)
                self._note(request.phase, reply)
        return replies

    def _note(self, phase: str, reply: Reply) -> None:
        sizes = {"numbers": 8 * len(reply.metrics)} if reply.metrics else {}
        for name, array in reply.arrays.items():
            sizes[group_of(name)] = sizes.get(group_of(name), 0) + array.nbytes
        for name, size in sizes.items():
            count = self.sent.setdefault(f"{reply.client}/{phase}/{name}", [0, 0])
            count[0] += 1
            count[1] += size

    def counts(self) -> dict[str, dict[str, int]]:
        """``{phase: {up_bytes, down_bytes}}``, for records and checkpoints."""
        return {name: vars(traffic).copy() for name, traffic in self.phases.items()}

    def restore(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Continues from earlier :meth:`counts`."""
        self.phases = {name: Traffic(**count) for name, count in counts.items()}
