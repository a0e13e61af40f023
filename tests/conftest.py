"""Fixtures that several layers use. Heavy imports stand inside, so that light tests stay light."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import feddep

if TYPE_CHECKING:
    from feddep.graph.graph import Graph
    from feddep.graph.shard import Shards
    from feddep.learning.spec import LearningSpec


@pytest.fixture(scope="session")
def small_shards(small_graph: "Graph") -> "Shards":
    """The small graph, split and dealt out to three clients that know their links to others."""
    return feddep.partition(small_graph, clients=3, links="known", seed=0)


@pytest.fixture(scope="session")
def odd_shards(small_shards: "Shards") -> "Shards":
    """An ordinary client, one without training nodes, and one with a single node."""
    import numpy as np

    from feddep.graph.graph import Part

    owner = np.minimum(small_shards.owner, 1)
    owner[np.flatnonzero(small_shards.owner == 2)[0]] = 2
    split = small_shards.graph.split.copy()
    split[(owner == 1) & (split == Part.TRAIN)] = Part.NONE
    split[owner == 2] = Part.TRAIN
    graph = small_shards.graph.with_split(split)
    return replace(small_shards, graph=graph, owner=owner, outside=()).with_known_links()


@pytest.fixture(scope="session")
def small_spec(small_graph: "Graph") -> "LearningSpec":
    """A narrow model and three rounds for the small graph."""
    from feddep.learning.spec import LearningSpec, TrainingSpec
    from feddep.models.sage import ModelSpec

    return LearningSpec(
        features=small_graph.feature_count,
        classes=small_graph.classes,
        model=ModelSpec(hidden=8),
        training=TrainingSpec(rounds=3, batch_size=16),
    )


@pytest.fixture
def thread_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers as threads of this process: all of their code, without seconds of starting."""
    from feddep.runtime import inprocess

    monkeypatch.setattr(inprocess, "subprocess", SimpleNamespace(Popen=_ThreadInsteadOfProcess))


class _ThreadInsteadOfProcess:
    def __init__(self, command: Sequence[str], **_: Any) -> None:
        descriptor = os.dup(int(command[-1]))
        self._thread = Thread(target=self._serve, args=(descriptor,), daemon=True)
        self._thread.start()

    @staticmethod
    def _serve(descriptor: int) -> None:
        from multiprocessing.connection import Connection

        from feddep.runtime import worker

        with Connection(descriptor) as connection, suppress(EOFError, OSError):
            worker.serve(connection)

    def kill(self) -> None:
        """Nothing to do: the thread ends when the parent hangs up, which it did."""

    def wait(self) -> int:
        self._thread.join()
        return 0


@pytest.fixture
def inside_a_flower_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower builds messages only in the process of a run."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def banks(tmp_path):
    """Two banks' folders of tables; both number their accounts from 0."""
    from tables.banks import write_numbered_bank

    north = write_numbered_bank(tmp_path / "north", 0)
    return [north, write_numbered_bank(tmp_path / "south", 1, kinds=("person", "club"))]
