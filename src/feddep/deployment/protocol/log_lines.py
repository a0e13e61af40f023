"""The lines of a disclosure log: what each kind of line holds, and how lines are chained.

The file itself, and when a line is written, is :mod:`feddep.deployment.protocol.disclosure_log`.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from feddep.errors import DataError

Head = tuple[int, str]
"""Number and hash of a line; those of the last line determine the whole chain."""

GENESIS: Head = (0, "0" * 64)
"""The head of an empty log."""

_HEAD = re.compile(r"(\d{1,12}):([0-9a-f]{64})")


class Strict(BaseModel):
    """Holds what is declared, of the declared types, and nothing else."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Array(Strict):
    """An array that left."""

    shape: list[int]
    dtype: str
    bytes: int
    sha256: str


class Torn(Strict):
    """What a crash left of a line."""

    file: str
    bytes: int
    sha256: str


class Payload(Strict):
    """Something was about to leave the silo."""

    number: int
    time: str
    run: str
    phase: str
    step: str
    round: int
    names: dict[str, Array]
    numbers: dict[str, float | str]
    bytes: int
    epsilon: float | None
    previous: str
    hash: str


class Priced(Strict):
    """All that is needed to price a run again, alone or with others.

    Attributes:
        data: the name that the owner gives the silo's data; empty if none.
        nodes: of the silo's graph.
        version: of the library that drew the noise.
        key: recognises the silo's secret, to the silo alone; None if it has none.
        events: the mechanisms whose price bounds all that may leave, as
            :func:`~feddep.privacy.events.to_plain` writes them; empty if nothing leaves, None if
            nothing bounds it.
        rates: q₁ and q₀ of randomised response, or noise and hops of noised sums.
        shown: recognises the perturbed graph that all answers come from, to the silo alone; None
            where noise is drawn anew in each run.
        told: what other silos are told, as events; left out of the line if they are told nothing.
    """

    data: str
    nodes: int
    version: str
    key: str | None
    events: list[dict[str, Any]] | None
    rates: list[float] | None
    shown: str | None
    told: list[dict[str, Any]] = []


class Agreed(Strict):
    """The silo was about to agree to a run; lines of earlier versions are not ``priced``."""

    number: int
    time: str
    kind: Literal["agreed"]
    run: str
    agreement: str
    graph: str | None = None
    epsilon: float | None
    delta: float | None = None
    priced: Priced | None = None
    previous: str
    hash: str


class Begun(Strict):
    """The silo was about to work out its first answer in a run: from here on its price is spent.

    It counts even if that answer was kept back. Noise that was drawn would be drawn again for the
    same question, asked under other circumstances.
    """

    number: int
    time: str
    kind: Literal["begun"]
    run: str
    previous: str
    hash: str


class Withdrawn(Strict):
    """A run was closed before it began; it has to be agreed to again before anything leaves."""

    number: int
    time: str
    kind: Literal["withdrawn"]
    run: str
    previous: str
    hash: str


class Refused(Strict):
    """The silo was about to refuse a run."""

    number: int
    time: str
    kind: Literal["refused"]
    run: str
    reason: str
    previous: str
    hash: str


class Recovered(Strict):
    """A torn line was moved aside."""

    number: int
    time: str
    kind: Literal["recovered"]
    torn: Torn
    previous: str
    hash: str


Line = Payload | Agreed | Begun | Withdrawn | Refused | Recovered
_LINES: TypeAdapter[Line] = TypeAdapter(Line)


class _Checked:
    """Logs that this process has checked, by path: what they held, and their lines.

    A log only grows, and a server may ask often. So lines that were checked are not checked again,
    as long as the file begins with the very same bytes; comparing them takes next to no time.
    """

    _MOST = 2

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, tuple[Line, ...]]] = {}

    def __call__(self, path: Path, whole: bytes) -> tuple[int, tuple[Line, ...]]:
        """How many leading bytes of a log have been checked before, and their lines."""
        known, lines = self._known.get(str(path), (b"", ()))
        return (len(known), lines) if whole.startswith(known) else (0, ())

    def note(self, path: Path, whole: bytes, lines: tuple[Line, ...]) -> None:
        """Notes a whole log that has been checked."""
        self._known.pop(str(path), None)
        self._known[str(path)] = (whole, lines)
        while len(self._known) > self._MOST:
            del self._known[next(iter(self._known))]


_checked = _Checked()


def walked(path: Path, whole: bytes) -> Iterator[Line]:
    """The lines in order, each checked on its own and against the one before."""
    start, known = _checked(path, whole)
    yield from known
    number, digest = head_of(known[-1]) if known else GENESIS
    found = list(known)
    for text in whole[start:].split(b"\n")[:-1]:
        number += 1
        try:
            line = parsed(text, number)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        if line.previous != digest:
            raise DataError(
                f"{path}: line {number} breaks the chain: its 'previous' is not the hash of the "
                "line before, so one of the two was changed or replaced"
            )
        digest = line.hash
        found.append(line)
        yield line
    if len(found) > len(known):
        _checked.note(path, whole[: whole.rfind(b"\n") + 1], tuple(found))


@lru_cache(maxsize=1 << 14)
def parsed(text: bytes, number: int) -> Line:
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


def find(path: Path | str, head: Head, lines: Sequence[Line]) -> None:
    """Looks for a head that was noted before.

    Raises:
        DataError: it is not there, and why.
    """
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


def head_of(line: Line) -> Head:
    """The head of a log that ends with this line."""
    return line.number, line.hash


def spelt(head: Head) -> str:
    """A head as it is noted, NUMBER:HASH."""
    return f"{head[0]}:{head[1]}"


def head_from(text: object) -> Head | None:
    """The head that a text spells; None if it spells none."""
    found = _HEAD.fullmatch(text) if isinstance(text, str) else None
    return (int(found[1]), found[2]) if found else None


def chained(head: Head, content: Mapping[str, Any]) -> tuple[bytes, Line]:
    """The next line after a head, as bytes and parsed."""
    number, previous = head[0] + 1, head[1]
    time = datetime.now(UTC).isoformat(timespec="seconds")
    fields = {"number": number, "time": time, **content, "previous": previous}
    fields["hash"] = entry_hash(fields)
    text = canonical(fields)
    return text + b"\n", parsed(text, number)  # never a line that could not be verified


def canonical(fields: Any) -> bytes:
    """The one spelling of an entry, which its hash is taken of."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def entry_hash(fields: Mapping[str, Any]) -> str:
    """The hash of an entry's other fields."""
    return sha256(canonical({key: value for key, value in fields.items() if key != "hash"}))


def sha256(data: bytes) -> str:
    """64 digits."""
    return hashlib.sha256(data).hexdigest()
