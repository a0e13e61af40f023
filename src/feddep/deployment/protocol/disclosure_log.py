"""The disclosure log: one JSON line for everything that leaves a silo, chained by hashes.

Every run that the silo agrees to or refuses has a line as well.

A line is on the disk before its payload goes to the network, so nothing leaves without being
logged. Each line holds the hash of the line before, so no line can be changed, removed, swapped
or inserted without breaking the chain. Only lines cut off at the end leave no trace in the file:
note :meth:`DisclosureLog.head` elsewhere from time to time, and let :func:`verify` look for it.
"""

import fcntl
import hashlib
import json
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from feddep.deployment.protocol.memory import folder_to_disk
from feddep.errors import DataError, RuntimeFailureError
from feddep.federation.messages import Reply, group_of, payload_bytes

log = logging.getLogger(__name__)

Head = tuple[int, str]
"""Number and hash of a line; those of the last line determine the whole chain."""

GENESIS: Head = (0, "0" * 64)
"""The head of an empty log."""


_LONGEST_REASON = 500  # it may repeat what the server wrote


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class _Array(_Strict):
    shape: list[int]
    dtype: str
    bytes: int
    sha256: str


class _Torn(_Strict):
    file: str
    bytes: int
    sha256: str


class _Payload(_Strict):
    number: int
    time: str
    run: str
    phase: str
    step: str
    round: int
    names: dict[str, _Array]
    numbers: dict[str, float | str]
    bytes: int
    epsilon: float | None
    previous: str
    hash: str


class _Agreed(_Strict):
    number: int
    time: str
    kind: Literal["agreed"]
    run: str
    agreement: str
    epsilon: float | None
    previous: str
    hash: str


class _Refused(_Strict):
    number: int
    time: str
    kind: Literal["refused"]
    run: str
    reason: str
    previous: str
    hash: str


class _Recovered(_Strict):
    number: int
    time: str
    kind: Literal["recovered"]
    torn: _Torn
    previous: str
    hash: str


_Line = _Payload | _Agreed | _Refused | _Recovered
_LINES: TypeAdapter[_Line] = TypeAdapter(_Line)


@dataclass(frozen=True)
class Verified:
    """What an unbroken log holds.

    Attributes:
        lines: number of payloads, agreements, refusals and recoveries.
        runs: number of runs that the payloads belong to.
        bytes: size of all arrays that left.
    """

    lines: int
    runs: int
    bytes: int


@dataclass(frozen=True)
class DisclosureLog:
    """The log at a path; the first line creates the file, readable by its owner only.

    Every call opens and locks the file anew, so processes and threads may share a log.
    """

    path: Path

    def append(
        self, *, run: str, phase: str, step: str, round: int, reply: Reply, epsilon: float | None
    ) -> None:
        """Logs a payload that is about to leave; the line is on the disk when this returns.

        If a crash tore the last line, that line is moved to ``<name>.torn`` first, and a line that
        says so takes its place. Its payload never left, since this call had not returned.

        Args:
            run: the run's name.
            phase: the phase.
            step: the step within the phase.
            round: the round within the phase.
            reply: what leaves.
            epsilon: the silo's sound ε so far, this payload included; None if it has no bound.

        Raises:
            DataError: the last line is broken, or the payload has names that cannot be logged.
            RuntimeFailureError: the line cannot be written. The payload must not leave then.
        """
        payload = {
            "run": run,
            "phase": phase,
            "step": step,
            "round": int(round),
            "names": {name: _shown(array) for name, array in reply.arrays.items()},
            "numbers": {name: _plain(value) for name, value in reply.metrics.items()},
            "bytes": payload_bytes(reply.arrays),
            "epsilon": _bound(epsilon),
        }
        self._write(payload)

    def agree(self, *, run: str, agreement: str, epsilon: float | None) -> None:
        """Logs that the silo is about to agree to a run; raises as :meth:`append` does.

        Args:
            run: the run's name.
            agreement: hash of the agreement.
            epsilon: the sound ε that the silo promises for the run; None if it has no bound.
        """
        content = {"kind": "agreed", "run": run, "agreement": agreement}
        self._write({**content, "epsilon": _bound(epsilon)})

    def refuse(self, *, run: str, reason: str) -> None:
        """Logs that the silo is about to refuse a run; raises as :meth:`append` does."""
        self._write({"kind": "refused", "run": run, "reason": reason[:_LONGEST_REASON]})

    def _write(self, content: Mapping[str, Any]) -> None:
        try:
            with _opened(self.path) as file:
                line, _ = _chained(self._ready(file), content)
                file.write(line)
                _to_disk(file)
        except OSError as error:
            raise RuntimeFailureError(
                f"cannot write the disclosure log {self.path}: {error.strerror}; "
                "nothing may leave the silo before it is logged there"
            ) from None
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from None

    def head(self) -> Head:
        """Number and hash of the last whole line, to be noted where nobody can change them."""
        whole, _ = _split(_read(self.path) if self.path.exists() else b"")
        try:
            return _head_of(whole)
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from None

    def _ready(self, file: BinaryIO) -> Head:
        """The head to continue from; a line that a crash tore is moved aside."""
        whole, torn = _split(file.read())
        head = _head_of(whole)
        if not torn:
            return head
        aside = self.path.with_name(self.path.name + ".torn")
        log.warning("%s ends in a torn line, which is moved to %s", self.path, aside.name)
        with _opened(aside) as store:
            store.write(torn + b"\n")
            _to_disk(store)
        what = {"file": aside.name, "bytes": len(torn), "sha256": _sha256(torn)}
        line, head = _chained(head, {"kind": "recovered", "torn": what})
        # Written over the torn line, and only then cut: a crash between the two leaves either
        # this line or a torn one, never a chain from which something is silently missing.
        with self.path.open("r+b") as own:
            own.seek(len(whole))
            own.write(line)
            _to_disk(own)
            own.truncate(len(whole) + len(line))
            _to_disk(own)
        return head


def verify(path: Path, head: Head | None = None) -> Verified:
    """Checks every line of a log, and that it still holds a head that was noted before.

    Raises:
        DataError: names the first broken line and what is wrong with it.
    """
    whole, torn = _split(_read(path))
    lines = list(_walk(path, whole))
    if torn:
        raise DataError(
            f"{path}: line {len(lines) + 1} is unparsable: it is incomplete, as after a crash; "
            "the next payload will move it aside"
        )
    if head is not None:
        _find(path, head, lines)
    payloads = [line for line in lines if isinstance(line, _Payload)]
    runs = {line.run for line in payloads}
    return Verified(len(lines), len(runs), sum(line.bytes for line in payloads))


def sent(path: Path, run: str) -> dict[str, int]:
    """How often each name of :func:`counted` left in a run; empty if there is no file.

    A payload that left twice counts twice, even an identical one: the log does not hold what was
    asked, and the same scores of different weights tell the server something new.

    Raises:
        DataError: the chain is broken, so that the counts cannot be trusted.
    """
    if not path.exists():
        return {}
    whole, _ = _split(_read(path))  # what a torn line describes has not left
    times: Counter[str] = Counter()
    for line in _walk(path, whole):
        if isinstance(line, _Payload) and line.run == run:
            times.update(counted(line.phase, line.names, line.numbers))
    return dict(times)


def agreements(path: Path, run: str) -> set[str]:
    """Hashes of what the silo agreed to under a run's name; empty if there is no file.

    Raises:
        DataError: the chain is broken.
    """
    if not path.exists():
        return set()
    whole, _ = _split(_read(path))
    lines = _walk(path, whole)
    return {line.agreement for line in lines if isinstance(line, _Agreed) and line.run == run}


def counted(phase: str, arrays: Iterable[str], numbers: Iterable[str]) -> set[str]:
    """The names that one payload counts for: its groups of arrays, and ``numbers/<phase>``.

    A group has no slash in its name, so the two cannot be confused. Plain numbers count too,
    because the scores of weights that a server made up tell it about the silo.
    """
    names = {group_of(name) for name in arrays}
    return names | ({f"numbers/{phase}"} if any(True for _ in numbers) else set())


def _find(path: Path, head: Head, lines: list[_Line]) -> None:
    number, digest = head
    if not 0 <= number <= len(lines):
        raise DataError(
            f"{path} ends at line {len(lines)}, but line {number} was noted as its head: "
            "lines were cut off at the end"
        )
    found = lines[number - 1].hash if number else GENESIS[1]
    if found != digest:
        raise DataError(
            f"{path}: line {number} has the hash {found}, but {digest} was noted: "
            "the log was rewritten"
        )


def _walk(path: Path, whole: bytes) -> Iterator[_Line]:
    """The lines in order, each checked on its own and against the one before."""
    number, digest = GENESIS
    for text in whole.split(b"\n")[:-1]:
        number += 1
        try:
            line = _parsed(text, number)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        if line.previous != digest:
            raise DataError(
                f"{path}: line {number} breaks the chain: its 'previous' is not the hash of the "
                "line before, so one of the two was changed or replaced"
            )
        digest = line.hash
        yield line


def _parsed(text: bytes, number: int) -> _Line:
    """Parses one line, which must be spelt exactly as this module writes it.

    The same values spelt otherwise (spaces, order of keys) are refused as well: such a change
    would not change the hash.
    """
    try:
        fields = json.loads(text)
        spelt_as_written = canonical(fields) == text
    except (ValueError, RecursionError):
        raise DataError(f"line {number} is unparsable: not JSON as the log writes it") from None
    if not isinstance(fields, dict) or not spelt_as_written:
        raise DataError(f"line {number} is unparsable: not spelt as the log spells it")
    if fields.get("hash") != entry_hash(fields):
        raise DataError(f"line {number} has a wrong hash: the line was changed")
    try:
        line = _LINES.validate_python(fields)
    except ValidationError:
        raise DataError(f"line {number} is unparsable: its keys are not those of a log") from None
    if line.number != number:
        raise DataError(
            f"line {number} has the wrong number ({line.number}): lines were removed, inserted "
            "or swapped"
        )
    return line


def _head_of(whole: bytes) -> Head:
    """The head of whole lines; only the last line is checked."""
    if not whole:
        return GENESIS
    number = whole.count(b"\n")
    line = _parsed(whole[:-1].rpartition(b"\n")[2], number)
    return line.number, line.hash


def _chained(head: Head, content: Mapping[str, Any]) -> tuple[bytes, Head]:
    number, previous = head[0] + 1, head[1]
    time = datetime.now(UTC).isoformat(timespec="seconds")
    fields = {"number": number, "time": time, **content, "previous": previous}
    fields["hash"] = entry_hash(fields)
    text = canonical(fields)
    _parsed(text, number)  # never write a line that could not be verified
    return text + b"\n", (number, fields["hash"])


def canonical(fields: Any) -> bytes:
    """The one spelling of an entry, which its hash is taken of."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def entry_hash(fields: Mapping[str, Any]) -> str:
    """The hash of an entry's other fields."""
    return _sha256(canonical({key: value for key, value in fields.items() if key != "hash"}))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _shown(array: npt.NDArray[Any]) -> dict[str, Any]:
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.str,
        "bytes": array.nbytes,
        "sha256": _sha256(np.ascontiguousarray(array).tobytes()),
    }


def _bound(epsilon: float | None) -> float | None:
    """ε, or None if it is not finite."""
    return float(epsilon) if epsilon is not None and math.isfinite(epsilon) else None


def _plain(value: float) -> float | str:
    """A number, or its name if it is not finite, for which JSON has no number."""
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _split(data: bytes) -> tuple[bytes, bytes]:
    """The whole lines, and what comes after the last line end."""
    end = data.rfind(b"\n") + 1
    return data[:end], data[end:]


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # a line that is still being written is not torn
            return file.read()
    except OSError as error:
        raise DataError(f"cannot read the disclosure log {path}: {error.strerror}") from None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file, locked and readable by its owner only; writes go to its end."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        status = os.fstat(descriptor)
        if status.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        if not status.st_size:
            folder_to_disk(path.parent)
        yield file


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
