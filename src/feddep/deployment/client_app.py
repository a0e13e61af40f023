"""The silo's program for Flower: one letter, one answer, one process.

A SuperNode names its configuration file in its node configuration (``silo``). A simulated one has
a number instead, and its data stand in the simulation's folder.
"""

import os
from collections.abc import Iterator, MutableMapping
from functools import lru_cache, partial
from pathlib import Path

from feddep.deployment.memory import Carried
from feddep.deployment.silo import open_station
from feddep.deployment.station import Station
from feddep.errors import DataError
from feddep.graph.folder import read_graph
from feddep.graph.shard import client_folder
from feddep.runtime.flower import ClientApp, ConfigRecord, Context, Message, RecordDict
from feddep.runtime.flower.codec import from_record, to_record
from feddep.runtime.letter import Letter

SIMULATION = "FEDDEP_SIMULATION"
"""Environment variable with the folder of a simulation's shards."""

app = ClientApp()


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Answers one letter."""
    try:
        letter = from_record(message.content)
    except DataError as error:
        return Message(to_record(Letter({"refused": str(error)})), reply_to=message)
    config = context.node_config
    if "silo" in config:
        station, pieces = open_station(Path(str(config["silo"])))
    else:
        station = _simulated(Path(os.environ[SIMULATION]), int(config["partition-id"]))
        pieces = lambda run: Carried(_Pieces(context.state, run))  # noqa: E731
    return Message(to_record(station.answer(letter, pieces)), reply_to=message)


@lru_cache(maxsize=8)
def _simulated(folder: Path, number: int) -> Station:
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
