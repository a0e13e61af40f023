"""A channel over Flower's grid."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from feddep.errors import DataError
from feddep.runtime.envelope import Envelope, Undelivered
from feddep.runtime.flower.codec import from_record, to_record

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_TTL = 12 * 3600.0  # lifetime of a message in seconds: a late answer is still accepted


class FlowerChannel:
    """A :class:`~feddep.runtime.envelope.Channel` over a grid of SuperNodes.

    Every envelope is a message of type ``query``; at the silo, Flower starts a process for it.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._pushed: dict[str, tuple[int, Mapping[str, Any]]] = {}

    def addresses(self) -> Sequence[int]:
        """The connected nodes, sorted, as Flower lists them in no order."""
        return sorted(self._grid.get_node_ids())

    def deliver(
        self, envelopes: Mapping[int, Envelope], seconds: float
    ) -> dict[int, Envelope | Undelivered]:
        """Pushes all envelopes, and pulls until all are answered or the time is up.

        An envelope that is delivered again may be answered twice; the first answer that is not an
        error counts. When a node could not answer, the error comes from the link, not from the
        node, so answers are matched by the message that they reply to.
        """
        until = time.monotonic() + seconds
        messages = [
            Message(to_record(envelope), dst_node_id=node, message_type="query", ttl=_TTL)
            for node, envelope in envelopes.items()
        ]
        pushed = zip(self._grid.push_messages(messages), envelopes.items(), strict=True)
        known = {number: (node, own.header) for number, (node, own) in pushed if number}
        asked = {node: own.header for node, own in envelopes.items()}
        again = {n: entry for n, entry in self._pushed.items() if asked.get(entry[0]) == entry[1]}
        self._pushed = again | known
        answers: dict[int, Envelope | Undelivered] = {}
        pause = _FIRST_PAUSE
        while len(answers) < len(envelopes) and time.monotonic() < until:
            pause = _FIRST_PAUSE if self._pull(answers) else min(2 * pause, _LONGEST_PAUSE)
            if len(answers) < len(envelopes):
                time.sleep(pause)
        return answers

    def _pull(self, answers: dict[int, Envelope | Undelivered]) -> bool:
        """Collects the answers that have arrived; returns whether there were any."""
        waiting = [number for number, (node, _) in self._pushed.items() if node not in answers]
        came = False
        for message in self._grid.pull_messages(waiting) if waiting else ():
            node, _ = self._pushed.pop(message.metadata.reply_to_message_id, (None, {}))
            if node is not None:
                came = True
                if not isinstance(answers.get(node), Envelope):
                    answers[node] = _answer(message)
        return came


def _answer(message: Message) -> Envelope | Undelivered:
    if message.has_error():
        return Undelivered(message.error.reason or f"Flower's error {message.error.code}")
    try:
        return from_record(message.content)
    except DataError as error:
        return Undelivered(str(error))
