"""The disclosure log: one JSON line for everything that leaves a silo, chained by hashes.

Every run that the silo agrees to or refuses has a line as well.

A line is on the disk before its payload goes to the network, so nothing leaves without being
logged. Each line holds the hash of the line before, so no line can be changed, removed, swapped
or inserted without breaking the chain. Only lines cut off at the end leave no trace in the file:
note :meth:`DisclosureLog.head` elsewhere from time to time, and let :func:`verify` look for it.
"""

import errno
import fcntl
import json
import logging
import math
import os
import stat
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from feddep.deployment.protocol.log_lines import (
    GENESIS,
    Agreed,
    Begun,
    Head,
    Line,
    Payload,
    Withdrawn,
    chained,
    find,
    head_of,
    parsed,
    sha256,
    spelt,
    walked,
)
from feddep.deployment.protocol.memory import Files
from feddep.errors import DataError, RuntimeFailureError
from feddep.federation.messages import Reply, group_of, payload_bytes
from feddep.reading import plain_file
from feddep.runs.files import folder_to_disk

log = logging.getLogger(__name__)

_Check = Callable[[Path, bytes, Line], None]
"""Looks at the whole lines of the file at a path before one more is written."""

_LONGEST_REASON = 500  # it may repeat what the server wrote


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
            epsilon: the sound ε that the silo promises for this run as a whole, not for all runs
                that are in the log; None if it has no bound.

        Raises:
            DataError: the last line is broken, the payload has names that cannot be logged, or its
                run was withdrawn.
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
        self._write(payload, _check_not_withdrawn)

    def agree(
        self,
        *,
        run: str,
        agreement: str,
        epsilon: float | None,
        delta: float | None = None,
        graph: str | None = None,
        priced: Mapping[str, Any] | None = None,
        check: Callable[[Sequence[Line], Line], None] | None = None,
    ) -> Head:
        """Logs that the silo is about to agree to a run; raises as :meth:`append` does.

        Args:
            run: the run's name.
            agreement: hash of the agreement.
            epsilon: the sound ε that the silo promises for the run; None if it has no bound.
            delta: δ of that promise.
            graph: recognises the graph, to the silo alone; None if the silo has no secret.
            priced: the fields of :class:`~.log_lines.Priced`.
            check: may refuse the new line after a look at those before. No other line is written
                in between, so that two runs cannot both be the last that a budget allows.

        Returns:
            The head after this line.
        """
        content = {"kind": "agreed", "run": run, "agreement": agreement, "graph": graph}
        bounds = {"epsilon": _bound(epsilon), "delta": delta}
        return self._write(
            {**content, **bounds, "priced": priced},
            check and (lambda path, whole, line: check(list(walked(path, whole)), line)),
            noted=True,
        )

    def begin(self, *, run: str) -> None:
        """Logs that something is about to be worked out; raises as :meth:`append` does."""
        self._write({"kind": "begun", "run": run}, _check_not_withdrawn)

    def withdraw(self, *, run: str) -> None:
        """Logs that a run is over before it began; raises as :meth:`append` does."""
        self._write({"kind": "withdrawn", "run": run})

    def refuse(self, *, run: str, reason: str) -> None:
        """Logs that the silo is about to refuse a run; raises as :meth:`append` does."""
        self._write({"kind": "refused", "run": run, "reason": reason[:_LONGEST_REASON]})

    def lines(self) -> list[Line]:
        """All whole lines, checked; none if there is no file.

        Raises:
            DataError: the chain is broken.
        """
        whole, _ = _split(_read(self.path) if self.path.exists() else b"")
        return list(walked(self.path, whole))

    @property
    def note(self) -> Path:
        """The file beside the log in which its head is noted after every agreement."""
        return self.path.with_name(self.path.name + ".head")

    def _write(
        self, content: Mapping[str, Any], check: _Check | None = None, *, noted: bool = False
    ) -> Head:
        try:
            with _opened(self.path) as file:
                text, line = self._next(file, content)
                if check is not None:
                    file.seek(0)
                    check(self.path, file.read(), line)
                file.write(text)
                _to_disk(file)
                if noted:
                    Files(self.path.parent).save(self.note.name, spelt(head_of(line)).encode())
        except OSError as error:
            raise RuntimeFailureError(
                f"cannot write the disclosure log {self.path}: {error.strerror}; "
                "nothing may leave the silo before it is logged there"
            ) from None
        return head_of(line)

    def _next(self, file: BinaryIO, content: Mapping[str, Any]) -> tuple[bytes, Line]:
        try:
            return chained(self._ready(file), content)
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
        what = {"file": aside.name, "bytes": len(torn), "sha256": sha256(torn)}
        line, recovered = chained(head, {"kind": "recovered", "torn": what})
        # Written over the torn line, and only then cut: a crash between the two leaves either
        # this line or a torn one, never a chain from which something is silently missing.
        with self.path.open("r+b") as own:
            own.seek(len(whole))
            own.write(line)
            _to_disk(own)
            own.truncate(len(whole) + len(line))
            _to_disk(own)
        return head_of(recovered)


def verify(path: Path, head: Head | None = None) -> Verified:
    """Checks every line of a log, and that it still holds a head that was noted before.

    Raises:
        DataError: names the first broken line and what is wrong with it.
    """
    whole, torn = _split(_read(path))
    lines = list(walked(path, whole))
    if torn:
        raise DataError(
            f"{path}: line {len(lines) + 1} is unparsable: it is incomplete, as after a crash; "
            "the next payload will move it aside"
        )
    if head is not None:
        find(path, head, lines)
    payloads = [line for line in lines if isinstance(line, Payload)]
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
    for line in walked(path, whole):
        if isinstance(line, Payload) and line.run == run:
            times.update(counted(line.phase, line.names, line.numbers))
    return dict(times)


def spent(path: Path, run: str) -> bool:
    """Whether something was worked out or left under a run's name.

    Raises:
        DataError: the chain is broken.
    """
    if not path.exists():
        return False
    whole, _ = _split(_read(path))
    return any(
        isinstance(line, Begun | Payload) and line.run == run for line in walked(path, whole)
    )


def left_apart(path: Path, run: str, but: Hashable = None) -> dict[str, int]:
    """How often each name of :func:`counted` left in *different* payloads of a run.

    An answer that is handed over again, because the first one was lost on its way, shows nothing
    new. Lines of other runs are not looked at, so that this is quick for every answer.

    Args:
        path: of the log.
        run: the run's name.
        but: what one payload shows (:func:`shows`), which is not counted.
    """
    if not path.exists():
        return {}
    whole, _ = _split(_read(path))
    named = f'"run":{json.dumps(run)}'.encode()
    seen = {but}
    times: Counter[str] = Counter()
    for number, text in enumerate(whole.split(b"\n")[:-1], 1):
        line = parsed(text, number) if named in text else None
        if not isinstance(line, Payload) or line.run != run:
            continue
        hashes = {name: array.sha256 for name, array in line.names.items()}
        shown = _key(line.phase, line.step, line.round, hashes, line.numbers)
        if shown not in seen:
            seen.add(shown)
            times.update(counted(line.phase, line.names, line.numbers))
    return dict(times)


def shows(phase: str, step: str, round: int, reply: Reply) -> Hashable:
    """The same for payloads that show the same; see :func:`left_apart`."""
    hashes = {name: str(_shown(array)["sha256"]) for name, array in reply.arrays.items()}
    numbers = {name: _plain(value) for name, value in reply.metrics.items()}
    return _key(phase, step, round, hashes, numbers)


def _key(
    phase: str,
    step: str,
    round: int,
    hashes: Mapping[str, str],
    numbers: Mapping[str, float | str],
) -> Hashable:
    return phase, step, int(round), tuple(sorted(hashes.items())), tuple(sorted(numbers.items()))


def agreements(path: Path, run: str) -> set[tuple[str, str | None]]:
    """What the silo agreed to under a run's name: hash of the agreement, and which graph it had.

    Empty if there is no file. The graph is None in lines that do not name one.

    Raises:
        DataError: the chain is broken.
    """
    if not path.exists():
        return set()
    whole, _ = _split(_read(path))
    agreed = (line for line in walked(path, whole) if isinstance(line, Agreed) and line.run == run)
    return {(line.agreement, line.graph) for line in agreed}


def counted(phase: str, arrays: Iterable[str], numbers: Iterable[str]) -> set[str]:
    """The names that one payload counts for: its groups of arrays, and ``numbers/<phase>``.

    A group has no slash in its name, so the two cannot be confused. Plain numbers count too,
    because the scores of weights that a server made up tell it about the silo.
    """
    names = {group_of(name) for name in arrays}
    return names | ({f"numbers/{phase}"} if any(True for _ in numbers) else set())


def _check_not_withdrawn(path: Path, whole: bytes, payload: Line) -> None:
    """Refuses a payload of a run that another process withdrew: its price may be spent again."""
    if b'"kind":"withdrawn"' not in whole:  # as a rule; then the lines need not be read
        return
    last = None
    for line in walked(path, whole):
        if isinstance(line, Agreed | Withdrawn) and line.run == getattr(payload, "run", None):
            last = line
    if isinstance(last, Withdrawn):
        raise DataError(
            f"{path}: the run {last.run} was withdrawn in line {last.number}; nothing may leave "
            "before the silo agrees to it again"
        )


def _head_of(whole: bytes) -> Head:
    """The head of whole lines; only the last line is checked."""
    if not whole:
        return GENESIS
    number = whole.count(b"\n")
    line = parsed(whole[:-1].rpartition(b"\n")[2], number)
    return head_of(line)


def _shown(array: npt.NDArray[Any]) -> dict[str, Any]:
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.str,
        "bytes": array.nbytes,
        "sha256": sha256(np.ascontiguousarray(array).tobytes()),
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
        with plain_file(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # a line that is still being written is not torn
            return file.read()
    except OSError as error:
        raise DataError(f"cannot read the disclosure log {path}: {error.strerror}") from None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file, locked and readable by its owner only; writes go to its end."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):  # a pipe or a device would take lines and keep none
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a plain file", str(path))
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
