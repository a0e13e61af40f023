"""A run on the server's disk: what was asked, for silos that missed it, and what was left out."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from feddep.errors import DataError
from feddep.federation.messages import Request, group, unpack
from feddep.reading import json_of, plain_bytes, plain_text
from feddep.runs.files import sealed, unsealed, write_atomically
from feddep.runtime.worker import pack_requests

_MOST_BYTES = 1 << 36


def place_of(phase: int, round: int, step: int) -> str:
    """The place of an exchange in a run. Places sort in the order of the exchanges."""
    return f"{phase:02d}-{round:06d}-{step:02d}"


class RequestLog:
    """The requests of every exchange, one file each, named after its place in the run.

    Args:
        folder: where the files are; the first write creates it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, place: str, requests: Sequence[Request]) -> None:
        """Stores what is about to be sent; deletes later places, from a round that is redone."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # it holds what silos sent
        for later in self._places():
            if later > place:
                (self._folder / f"{later}.bin").unlink()
        write_atomically(self._folder / f"{place}.bin", sealed(pack_requests(requests)))

    def before(self, place: str) -> str | None:
        """The place of the exchange before this one, or None."""
        earlier = [other for other in self._places() if other < place]
        return earlier[-1] if earlier else None

    def between(
        self, after: str | None, before: str, client: int
    ) -> Iterator[tuple[str, str | None, Request]]:
        """One client's requests between two places, each with its place and the place before."""
        previous = after
        for place in self._places():
            if (after is None or place > after) and place < before:
                yield place, previous, self._read(place, client)
                previous = place

    def delete(self) -> None:
        """Deletes everything."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self, place: str, client: int) -> Request:
        file = self._folder / f"{place}.bin"
        try:
            header, arrays = unpack(unsealed(plain_bytes(file, _MOST_BYTES)), once=True)
            for who, phase, step, round_, number in header["requests"]:
                if who == client:
                    return Request(client, phase, step, round_, group(arrays, str(number)))
        except (OSError, DataError, LookupError, TypeError, ValueError) as error:
            raise DataError(
                f"{file} is damaged ({error}); a silo that missed it cannot be brought up to date"
            ) from None
        raise LookupError(f"client {client} was not asked at {place}")

    def _places(self) -> list[str]:
        return sorted(file.stem for file in self._folder.glob("*.bin"))


@dataclass(frozen=True)
class Offence:
    """A reply that was left out of a step, and why."""

    client: int
    phase: str
    round: int
    reason: str


class PlaceLog:
    """Plain data, one line for each entry, with its place in the run.

    Args:
        file: where they are stored; the first entry creates it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.entries: list[tuple[str, Any]] = []
        if file.exists():
            for line in _lines(file):
                place, entry = line
                self.entries.append((place, entry))

    def note(self, place: str, entry: Any = None) -> None:
        """Adds an entry."""
        self.entries.append((place, entry))
        self._write()

    def forget_from(self, place: str) -> None:
        """Deletes the entries of this place and of later ones, which are redone."""
        before = [entry for entry in self.entries if entry[0] < place]
        if len(before) < len(self.entries):
            self.entries = before
            self._write()

    def _write(self) -> None:
        rows = [json.dumps([place, entry]) + "\n" for place, entry in self.entries]
        write_atomically(self._file, "".join(rows))


def _lines(file: Path) -> list[tuple[str, Any]]:
    try:
        return [(str(place), entry) for place, entry in map(json_of, plain_text(file).splitlines())]
    except (OSError, TypeError, ValueError) as error:
        raise DataError(f"{file} is damaged ({error}); start the run again") from None


class OffenceLog:
    """The offences of a run, one line each, with their places.

    Args:
        file: where they are stored; the first offence creates it.
    """

    def __init__(self, file: Path) -> None:
        self._log = PlaceLog(file)

    @property
    def offences(self) -> list[Offence]:
        """All offences, in order."""
        return [Offence(**entry) for _, entry in self._log.entries]

    def note(self, place: str, offence: Offence) -> None:
        """Adds an offence."""
        self._log.note(place, asdict(offence))

    def forget_from(self, place: str) -> None:
        """Deletes the offences of this place and of later ones, which are redone."""
        self._log.forget_from(place)
