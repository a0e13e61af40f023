"""What a silo remembers of a run from one envelope to the next.

A silo may be killed at any moment, and a new process may answer the next envelope. So the memory
consists of named pieces of bytes, each stored completely or not at all: files on the silo's disk,
or, for a simulated silo, pieces that the simulation carries along.
"""

import json
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from feddep.errors import DataError
from feddep.federation.messages import Reply, State, group, grouped, pack, unpack
from feddep.reading import json_of, plain_bytes
from feddep.runs.files import folder_to_disk, sealed, unsealed
from feddep.runs.old_formats import memory_of_today

KEPT_ANSWERS = 8
"""A server that was killed repeats its round, or two if its last checkpoint is damaged; no round
has more than four steps."""

_AGREEMENT, _STATE, _ANSWER, _BEST = "agreement.json", "state.bin", ".answer", "best.bin"
_BEGUN = "begun"
_MOST_BYTES = 1 << 36


class Pieces(Protocol):
    """Named pieces of bytes that outlive the process."""

    def load(self, name: str) -> bytes | None:
        """The piece of this name, or None."""
        ...

    def save(self, name: str, data: bytes) -> None:
        """Stores a piece, completely or not at all."""
        ...

    def names(self) -> list[str]:
        """The names of all stored pieces, sorted."""
        ...

    def remove(self, name: str) -> None:
        """Deletes a piece, if there is one."""
        ...


class Files:
    """One file per piece, readable by the silo's user only.

    A saved file is on the disk, not just in a cache: a silo that loses power must not have sent
    what it cannot remember.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, name: str) -> bytes | None:
        """The file's content.

        Raises:
            DataError: it is not what was saved.
        """
        file = self._folder / name
        if not file.exists():
            return None
        try:
            return unsealed(plain_bytes(file, _MOST_BYTES))
        except OSError as error:
            raise DataError(f"{file} cannot be read ({error.strerror})") from None
        except DataError as error:
            raise DataError(
                f"{file} is damaged ({error}); delete its folder, and the silo replays what it "
                "has lost without sending answers again"
            ) from None

    def save(self, name: str, data: bytes) -> None:
        """Writes a draft next to the file, then moves it into place."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._folder / f".{name}.{os.getpid()}"
        private = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(private, "wb") as file:
            file.write(sealed(data))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._folder / name)
        folder_to_disk(self._folder)  # otherwise the new name could be lost

    def names(self) -> list[str]:
        """The names of the files, without drafts."""
        if not self._folder.exists():
            return []
        return sorted(f.name for f in self._folder.iterdir() if not f.name.startswith("."))

    def remove(self, name: str) -> None:
        """Deletes the file."""
        (self._folder / name).unlink(missing_ok=True)


class Carried:
    """The pieces of a simulated silo, which the simulation carries along."""

    def __init__(self, pieces: MutableMapping[str, bytes]) -> None:
        self._pieces = pieces

    def load(self, name: str) -> bytes | None:
        """The piece."""
        return self._pieces.get(name)

    def save(self, name: str, data: bytes) -> None:
        """Stores the piece."""
        self._pieces[name] = data

    def names(self) -> list[str]:
        """The names of all pieces."""
        return sorted(self._pieces)

    def remove(self, name: str) -> None:
        """Deletes the piece."""
        self._pieces.pop(name, None)


@dataclass(frozen=True)
class Answer:
    """A silo's answer, and what is needed to undo it.

    Attributes:
        place: the place in the run.
        asked: fingerprint of the envelope that was answered.
        reply: the answer.
        before: the silo's state before the answer.
    """

    place: str
    asked: str
    reply: Reply
    before: State


class RunMemory:
    """A silo's memory of one run.

    Args:
        pieces: where it is stored.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces

    @property
    def agreement(self) -> dict[str, Any] | None:
        """The agreement, as plain values; None if the silo knows nothing of the run."""
        data = self._pieces.load(_AGREEMENT)
        try:
            return None if data is None else dict(json_of(data))
        except (TypeError, ValueError) as error:
            raise DataError(f"what the silo agreed to is damaged ({error})") from None

    def agree(self, agreement: Mapping[str, Any]) -> None:
        """Stores the agreement."""
        self._pieces.save(_AGREEMENT, json.dumps(agreement).encode())

    @property
    def begun(self) -> bool:
        """Whether an answer was worked out, or was about to be."""
        return self._pieces.load(_BEGUN) is not None

    def begin(self) -> None:
        """Notes that an answer is about to be worked out."""
        self._pieces.save(_BEGUN, b"")

    def recall(self) -> tuple[str | None, State, dict[str, int]]:
        """The place of the last answer, the state after it, and how often each name had left."""
        data = self._pieces.load(_STATE)
        if data is None:
            return None, {}, (self.agreement or {}).get("sent", {})
        header, arrays = unpack(data)
        return header["place"], memory_of_today(arrays), header["sent"]

    def answer_at(self, place: str) -> Answer | None:
        """The answer at a place, if it is among the last :data:`KEPT_ANSWERS`.

        If the silo was killed after storing an answer and before storing the state, the state does
        not list the answer. Such an answer must not be used, so its ``asked`` is empty; its
        ``before`` is still the state before the place.
        """
        asked, data = self._asked().get(place), self._pieces.load(place + _ANSWER)
        if asked is None or data is None:
            return None
        header, arrays = unpack(data)
        reply = Reply(header["client"], group(arrays, "reply"), header["metrics"])
        known = asked if asked == header["asked"] else ""
        return Answer(place, known, reply, memory_of_today(group(arrays, "before")))

    def _asked(self) -> dict[str, str]:
        """The fingerprints of what was asked, by place, for the answers that the state includes."""
        data = self._pieces.load(_STATE)
        return {} if data is None else unpack(data)[0].get("asked", {})

    def move_on(self, answer: Answer, after: State, sent: Mapping[str, int]) -> None:
        """Stores an answer, then the state after it; killed in between, the silo answers again.

        Answers at later places are deleted: the server has gone back to this place.
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

    def keep(self, place: str, state: State) -> None:
        """Keeps what a silo needs of the round that is the best so far."""
        self._pieces.save(_BEST, pack({"place": place}, state))

    def kept_at(self, place: object) -> State | None:
        """What was kept of a place, if that is the one that was kept last."""
        data = self._pieces.load(_BEST)
        if data is None:
            return None
        header, arrays = unpack(data)
        return arrays if header["place"] == place else None

    def forget(self) -> None:
        """Deletes everything stored of the run, which is over."""
        for name in self._pieces.names():
            self._pieces.remove(name)
