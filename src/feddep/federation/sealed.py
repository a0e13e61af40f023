"""Messages between clients that the server carries and cannot read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from feddep.federation.content import MOST_NEIGHBOURS, Content, Problems, Seen
from feddep.federation.messages import Arrays, Reply, group, grouped
from feddep.federation.phase import AnyPhase

_ENVELOPE = 2048  # bytes around the content, and those of the smallest message


@dataclass(frozen=True)
class Sealed(Content):
    """Bytes that only one other client can read, in a :class:`~.content.ByPeer`.

    Whoever carries them sees their number. Nothing else can be checked on the way.

    Attributes:
        each: bytes for each link; a client has at most ``MOST_NEIGHBOURS`` for each of its nodes.
    """

    each: int = 8

    def problems(self, name: str, arrays: Arrays, seen: Seen) -> Problems:  # noqa: D102
        for full, array in arrays.items():
            if full != name:
                yield f"{full[:60]!r} is no sealed message"
            if array.dtype != np.uint8 or array.ndim != 1:
                yield f"{full} is {array.dtype} {array.shape} where a row of bytes belongs"
            most = self.largest_bytes(_sender_nodes(seen))
            if array.size > most:
                yield f"{full} has {array.size} bytes where at most {most} belong"

    def largest_bytes(self, nodes: int) -> int:  # noqa: D102
        return _ENVELOPE + nodes * MOST_NEIGHBOURS * self.each * 17 // 16


def seals(phases: Iterable[AnyPhase], spec: object) -> bool:
    """Whether clients send each other sealed messages in a method of these phases."""
    return any(
        isinstance(part, Sealed)
        for phase in phases
        for step in phase.steps(spec).values()
        for content in step.reply.values()
        for part in content.contained()
    )


def _sender_nodes(seen: Seen) -> int:
    """At most; who reads a request knows no more of the sender."""
    return seen.all_nodes or seen.nodes or 2**40


def routed(replies: Sequence[Reply], clients: int, name: str) -> list[Arrays]:
    """For every client, what the others sealed for it: ``name/3`` is client 3's.

    A client whose reply is missing gets nothing, since the others have nothing of it either. What
    a client addressed to itself, or to nobody, goes nowhere.

    Args:
        replies: with a group ``name/4`` for the message to client 4.
        clients: how many there are.
        name: of the group.
    """
    sent = {reply.client: group(reply.arrays, name) for reply in replies}
    return [
        grouped(
            name,
            {
                str(sender): messages[str(client)]
                for sender, messages in sent.items()
                if sender != client and client in sent and str(client) in messages
            },
        )
        for client in range(clients)
    ]
