"""A simulated silo: a numbered Flower node, whose data lie in a folder of shards."""

from collections.abc import Iterator, MutableMapping
from functools import lru_cache, partial
from pathlib import Path

from feddep.deployment.protocol.memory import Carried
from feddep.deployment.protocol.silo_service import SiloService
from feddep.graph.folder import read_graph
from feddep.graph.shard import client_folder
from feddep.runtime.flower import ClientApp, ConfigRecord, Context, Message, RecordDict
from feddep.runtime.flower.codec import reply_to


def simulated_app(shards: Path) -> ClientApp:
    """The Flower app of every simulated silo.

    It carries the folder's path to the process, on whichever machine, that runs it.

    Args:
        shards: the folder that :func:`~feddep.graph.shard.write_shards` wrote for the simulation.
    """
    app = ClientApp()
    app.query()(partial(answer, shards))
    return app


def answer(shards: Path, message: Message, context: Context) -> Message:
    """Answers one envelope for the silo of this node."""
    service = service_of(shards, int(context.node_config["partition-id"]))
    memory = partial(_memory, context.state)
    return reply_to(message, lambda envelope: service.answer(envelope, memory))


@lru_cache(maxsize=8)
def service_of(shards: Path, number: int) -> SiloService:
    """A simulated silo. Cached: a process of the simulation works for several in turn."""
    graph = lru_cache(maxsize=1)(partial(read_graph, shards / client_folder(number)))
    return SiloService(f"client-{number:03d}", graph, client=number)


def _memory(state: RecordDict, run: str) -> Carried:
    return Carried(_Pieces(state, run))


class _Pieces(MutableMapping[str, bytes]):
    """A run's stored pieces, in the state that Flower carries for a simulated node."""

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
