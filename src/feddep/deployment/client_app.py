"""The silo's program for Flower: one letter, one answer, one process.

A SuperNode says in its node configuration where the silo's resident process listens (``socket``);
so this module imports little. A simulated node has a number instead, and its data stand in the
simulation's folder.
"""

import os
from collections.abc import Iterator, MutableMapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from feddep.deployment.resident import ask
from feddep.errors import DataError
from feddep.runtime.flower import ClientApp, ConfigRecord, Context, Message, RecordDict
from feddep.runtime.flower.codec import from_record, to_record
from feddep.runtime.letter import Letter

if TYPE_CHECKING:
    from feddep.deployment.station import Station

SIMULATION = "FEDDEP_SIMULATION"
"""Environment variable with the folder of a simulation's shards."""

app = ClientApp()


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Answers one letter."""
    try:
        letter = from_record(message.content)
    except DataError as error:
        reply = Letter({"refused": str(error)})
    else:
        socket = context.node_config.get("socket")
        reply = ask(str(socket), letter) if socket else _simulated(letter, context)
    return Message(to_record(reply), reply_to=message)


def _simulated(letter: Letter, context: Context) -> Letter:
    from feddep.deployment.memory import Carried

    number = int(context.node_config["partition-id"])
    station = _station(Path(os.environ[SIMULATION]), number)
    return station.answer(letter, lambda run: Carried(_Pieces(context.state, run)))


@lru_cache(maxsize=8)
def _station(folder: Path, number: int) -> "Station":
    """A simulated silo; a process of the simulation works for several, again and again."""
    from feddep.deployment.station import Station
    from feddep.graph.folder import read_graph
    from feddep.graph.shard import client_folder

    graph = lru_cache(maxsize=1)(partial(read_graph, folder / client_folder(number)))
    return Station(f"client-{number:03d}", graph, client=number)


class _Pieces(MutableMapping[str, bytes]):
    """Pieces of memory in the state that Flower carries for a simulated node."""

    def __init__(self, state: RecordDict, run: str) -> None:
        self._state, self._run = state, run

    @property
    def _record(self) -> ConfigRecord:
        if self._run not in self._state:
            self._state[self._run] = ConfigRecord()
        return self._state.config_records[self._run]

    def __getitem__(self, name: str) -> bytes:
        value = self._record[name]
        assert isinstance(value, bytes)
        return value

    def __setitem__(self, name: str, data: bytes) -> None:
        self._record[name] = data

    def __delitem__(self, name: str) -> None:
        del self._record[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._record))

    def __len__(self) -> int:
        return len(self._record)
