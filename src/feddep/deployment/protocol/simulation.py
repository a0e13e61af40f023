"""``feddep run --runtime flower-sim``: every client is a node of Flower's simulation."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from feddep.algorithms import find_method
from feddep.algorithms.method import Method
from feddep.deployment.protocol.agreement import agreed_on, check_federated
from feddep.deployment.protocol.federate import in_order
from feddep.deployment.protocol.remote_runtime import RemoteRuntime, meet
from feddep.deployment.protocol.simulated_silo import simulated_app
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.graph.folder import fill_graph_folder
from feddep.graph.shard import Shards, client_folder, write_shards
from feddep.graph.silos import ClientData
from feddep.learning.spec import LearningSpec
from feddep.runs.pipeline import cores, run
from feddep.runs.result import Result
from feddep.runtime.client_pool import ClientPool
from feddep.runtime.envelope import Channel
from feddep.runtime.flower import Grid
from feddep.runtime.flower.channel import FlowerChannel
from feddep.runtime.flower.simulation import simulate
from feddep.scenario.spec import RunSpec

CLUSTER = "RAY_ADDRESS"


def check_can_run(method: str) -> None:
    """Refuses a method that does not run between silos, before anything is claimed or loaded."""
    check_federated(find_method(method))


def run_simulated(
    spec: RunSpec, shards: ClientData, *, workers: int | None = None, **options: Any
) -> Result:
    """:func:`~feddep.runs.pipeline.run` with Flower nodes as clients.

    If the environment variable ``RAY_ADDRESS`` is set, the simulation joins that Ray cluster. The
    clients' data are written to a temporary folder (``TMPDIR``), which all of its machines must
    see.
    """
    with tempfile.TemporaryDirectory(prefix="feddep-") as folder:
        data = Path(folder) / "shards"
        _write(shards, data)
        results: list[Result] = []

        def main(grid: Grid) -> None:
            start = partial(connected, spec, FlowerChannel(grid), Path(folder) / "requests")
            results.append(run(spec, shards, start=start, **options))

        address = os.environ.get(CLUSTER)
        simulate(main, simulated_app(data), shards.clients, workers or cores(), address)
    return results[0]


def _write(data: ClientData, folder: Path) -> None:
    """Writes each client's graph folder where its node looks for it."""
    if isinstance(data, Shards):
        write_shards(data, folder)
        return
    for client, graph in enumerate(data):
        fill_graph_folder(graph, folder / client_folder(client))


@contextmanager
def connected(
    spec: RunSpec,
    channel: Channel,
    requests: Path,
    shards: ClientData,
    method: Method,
    learning: LearningSpec,
) -> Iterator[RemoteRuntime]:
    """A runtime over simulated silos; scores on the whole graph are computed in this process."""
    wait_policy = WaitPolicy()
    silos = in_order(meet(channel, shards.clients, wait_policy))
    nodes = shards.nodes
    sizes = (learning.features, learning.classes, nodes)
    agreement = agreed_on("simulation", spec, *sizes, shards.client_names)
    pool = ClientPool(method, learning, torch.device("cpu"), {}, lambda: shards.whole)
    runtime = RemoteRuntime(channel, agreement, silos, requests, wait_policy, measure=pool.score)
    runtime.agree(range(len(silos)))
    yield runtime
