"""Letters over Flower's grid."""

import time
from collections.abc import Mapping, Sequence

from flwr.app import Message
from flwr.serverapp import Grid

from feddep.errors import DataError
from feddep.runtime.flower.codec import from_record, to_record
from feddep.runtime.letter import Letter, Lost

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class FlowerPost:
    """A :class:`~feddep.runtime.letter.Post` over a grid of SuperNodes.

    Every letter is a message of type ``query``, which a new process of the silo answers.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def addresses(self) -> Sequence[int]:
        """The connected nodes; Flower lists them in no order."""
        return sorted(self._grid.get_node_ids())

    def deliver(self, letters: Mapping[int, Letter], seconds: float) -> dict[int, Letter | Lost]:
        """Pushes all letters and pulls until all are answered or the time is up.

        An answer that a node could not give comes from the link, not from the node: so answers
        are matched by the message that they reply to.
        """
        until = time.monotonic() + seconds
        messages = [
            Message(to_record(letter), dst_node_id=node, message_type="query", ttl=seconds)
            for node, letter in letters.items()
        ]
        pushed = zip(self._grid.push_messages(messages), letters, strict=True)
        waiting = {number: node for number, node in pushed if number}
        answers: dict[int, Letter | Lost] = {}
        pause = _FIRST_PAUSE
        while waiting and time.monotonic() < until:
            for message in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(message.metadata.reply_to_message_id, None)
                if node is not None:
                    answers[node] = _answer(message)
                    pause = _FIRST_PAUSE
            if waiting:
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        return answers


def _answer(message: Message) -> Letter | Lost:
    if message.has_error():
        return Lost(message.error.reason or f"Flower's error {message.error.code}")
    try:
        return from_record(message.content)
    except DataError as error:
        return Lost(str(error))
