"""A run on the server's disk: what was asked, to be told again, and whose reply was left out."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from feddep.federation.messages import Request, group, unpack
from feddep.runs.files import write_atomically
from feddep.runtime.worker import pack_requests


def place_of(phase: int, round: int, step: int) -> str:
    """The place of an exchange in a run. Places sort as the exchanges follow each other."""
    return f"{phase:02d}-{round:06d}-{step:02d}"


class RequestLog:
    """One file for each exchange, named after its place in the run.

    Args:
        folder: where they are; made when the first is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, place: str, requests: Sequence[Request]) -> None:
        """Keeps what is about to be sent. Later places, of a round that is redone, are dropped."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # it holds what silos sent
        for later in self._places():
            if later > place:
                (self._folder / f"{later}.bin").unlink()
        write_atomically(self._folder / f"{place}.bin", pack_requests(requests))

    def before(self, place: str) -> str | None:
        """The exchange that came before this one, if any."""
        earlier = [other for other in self._places() if other < place]
        return earlier[-1] if earlier else None

    def between(
        self, after: str | None, before: str, client: int
    ) -> Iterator[tuple[str, str | None, Request]]:
        """What one client was asked after one place and before another: place, the one before."""
        previous = after
        for place in self._places():
            if (after is None or place > after) and place < before:
                yield place, previous, self._read(place, client)
                previous = place

    def _read(self, place: str, client: int) -> Request:
        header, arrays = unpack((self._folder / f"{place}.bin").read_bytes())
        for who, phase, step, round_, number in header["requests"]:
            if who == client:
                return Request(client, phase, step, round_, group(arrays, str(number)))
        raise LookupError(f"client {client} was not asked at {place}")

    def _places(self) -> list[str]:
        return sorted(file.stem for file in self._folder.glob("*.bin"))


@dataclass(frozen=True)
class Offence:
    """A reply that was left out, and why."""

    client: int
    phase: str
    round: int
    reason: str


class OffenceLog:
    """One line for each offence, with its place in the run.

    Args:
        file: where they are; made when the first is noted.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._noted: list[tuple[str, Offence]] = []
        if file.exists():
            for line in file.read_text().splitlines():
                place, offence = json.loads(line)
                self._noted.append((place, Offence(**offence)))

    @property
    def offences(self) -> list[Offence]:
        """All of them, in order."""
        return [offence for _, offence in self._noted]

    def note(self, place: str, offence: Offence) -> None:
        """Adds one."""
        self._noted.append((place, offence))
        self._write()

    def forget_from(self, place: str) -> None:
        """Drops those of this place and of later ones, which are redone."""
        before = [entry for entry in self._noted if entry[0] < place]
        if len(before) < len(self._noted):
            self._noted = before
            self._write()

    def _write(self) -> None:
        rows = [json.dumps([place, asdict(offence)]) + "\n" for place, offence in self._noted]
        write_atomically(self._file, "".join(rows))
