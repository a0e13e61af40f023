"""What a silo remembers of a run between two envelopes.

A silo may be killed at any moment, and every envelope may find a new process. So memory is named
pieces of bytes, each kept whole or not at all: files on the silo's disk, or, for a simulated silo,
pieces that the simulation carries from envelope to envelope.
"""

import json
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from feddep.federation.messages import Reply, State, group, grouped, pack, unpack

KEPT_ANSWERS = 4
"""A server that was killed begins its round again, and no round has more steps than that."""

_AGREEMENT, _STATE, _ANSWER = "agreement.json", "state.bin", ".answer"


class Pieces(Protocol):
    """Named pieces of bytes that outlive the process."""

    def load(self, name: str) -> bytes | None:
        """What was saved under this name, if anything."""
        ...

    def save(self, name: str, data: bytes) -> None:
        """Keeps it, whole or not at all."""
        ...

    def names(self) -> list[str]:
        """Everything that is kept, sorted."""
        ...

    def remove(self, name: str) -> None:
        """Forgets it."""
        ...


class Files:
    """One file for each piece, readable by the silo's user alone.

    A file is on the disk before it counts: a silo that loses power must not have sent what it
    cannot remember.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, name: str) -> bytes | None:
        """The file's content."""
        file = self._folder / name
        return file.read_bytes() if file.exists() else None

    def save(self, name: str, data: bytes) -> None:
        """Writes beside the file, then moves it into place."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._folder / f".{name}.{os.getpid()}"
        private = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(private, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._folder / name)
        folder_to_disk(self._folder)  # or the name is lost, though not the content

    def names(self) -> list[str]:
        """The files, but for drafts."""
        if not self._folder.exists():
            return []
        return sorted(f.name for f in self._folder.iterdir() if not f.name.startswith("."))

    def remove(self, name: str) -> None:
        """Deletes the file."""
        (self._folder / name).unlink(missing_ok=True)


def folder_to_disk(folder: Path) -> None:
    """Has a folder's list of names on the disk: a new file lasts only when its folder does."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Carried:
    """A simulated silo's pieces, which somebody else carries."""

    def __init__(self, pieces: MutableMapping[str, bytes]) -> None:
        self._pieces = pieces

    def load(self, name: str) -> bytes | None:
        """The piece."""
        return self._pieces.get(name)

    def save(self, name: str, data: bytes) -> None:
        """Keeps the piece."""
        self._pieces[name] = data

    def names(self) -> list[str]:
        """All of them."""
        return sorted(self._pieces)

    def remove(self, name: str) -> None:
        """Drops the piece."""
        self._pieces.pop(name, None)


@dataclass(frozen=True)
class Answer:
    """What a silo answered, and how to take it back.

    Attributes:
        place: where in the run.
        asked: fingerprint of the envelope that it answers.
        reply: the answer.
        before: the silo's state before it.
    """

    place: str
    asked: str
    reply: Reply
    before: State


class RunMemory:
    """A silo's memory of one run.

    Args:
        pieces: where it is kept.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces

    @property
    def agreement(self) -> dict[str, Any] | None:
        """What was agreed on; None if the silo knows nothing of the run."""
        data = self._pieces.load(_AGREEMENT)
        return None if data is None else dict(json.loads(data))

    def agree(self, agreement: Mapping[str, Any]) -> None:
        """Keeps what was agreed on."""
        self._pieces.save(_AGREEMENT, json.dumps(agreement).encode())

    def recall(self) -> tuple[str | None, State, dict[str, int]]:
        """The last place that was answered at, the state after it, and what had left by then."""
        data = self._pieces.load(_STATE)
        if data is None:
            return None, {}, (self.agreement or {}).get("sent", {})
        header, arrays = unpack(data)
        return header["place"], arrays, header["sent"]

    def answer_at(self, place: str) -> Answer | None:
        """What was answered there, if it is not too long ago.

        An answer that the state does not know of is from a silo that was killed between the two.
        It answers nothing, so ``asked`` is empty; the state before it is that before the place.
        """
        asked, data = self._asked().get(place), self._pieces.load(place + _ANSWER)
        if asked is None or data is None:
            return None
        header, arrays = unpack(data)
        reply = Reply(header["client"], group(arrays, "reply"), header["metrics"])
        known = asked if asked == header["asked"] else ""
        return Answer(place, known, reply, group(arrays, "before"))

    def _asked(self) -> dict[str, str]:
        """What was asked at the places whose answers led to the state."""
        data = self._pieces.load(_STATE)
        return {} if data is None else unpack(data)[0].get("asked", {})

    def move_on(self, answer: Answer, after: State, sent: Mapping[str, int]) -> None:
        """Keeps an answer, then the state after it: killed in between, the silo answers again.

        What came after this place belongs to a past that is taken back.
        """
        earlier = [pair for pair in sorted(self._asked().items()) if pair[0] < answer.place]
        asked = dict([*earlier, (answer.place, answer.asked)][-KEPT_ANSWERS:])
        header = {
            "asked": answer.asked,
            "client": answer.reply.client,
            "metrics": dict(answer.reply.metrics),
        }
        arrays = grouped("reply", answer.reply.arrays) | grouped("before", answer.before)
        self._pieces.save(answer.place + _ANSWER, pack(header, arrays))
        now = {"place": answer.place, "sent": dict(sent), "asked": asked}
        self._pieces.save(_STATE, pack(now, after))
        for name in self._pieces.names():
            if name.endswith(_ANSWER) and name.removesuffix(_ANSWER) not in asked:
                self._pieces.remove(name)

    def forget(self) -> None:
        """The run is over."""
        for name in self._pieces.names():
            self._pieces.remove(name)
