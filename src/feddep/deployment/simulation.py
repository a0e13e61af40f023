"""``feddep run`` on Flower's simulation: every client is a node of Flower's."""

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
from feddep.deployment.agreement import Agreement, check_federated
from feddep.deployment.convener import Convener, meet
from feddep.deployment.federate import in_order
from feddep.deployment.patience import Patience
from feddep.deployment.simulated_silo import simulated_app
from feddep.experiments.pipeline import cores, run
from feddep.experiments.result import Result
from feddep.graph.shard import Shards, write_shards
from feddep.learning.recipe import Recipe
from feddep.runtime.flower import Grid
from feddep.runtime.flower.post import FlowerPost
from feddep.runtime.flower.simulation import simulate
from feddep.runtime.host import Host
from feddep.runtime.letter import Post
from feddep.scenario.spec import RunSpec

CLUSTER = "RAY_ADDRESS"


def check_can_run(method: str) -> None:
    """Refuses what is no federation, before anything is claimed or loaded."""
    check_federated(find_method(method))


def run_simulated(
    spec: RunSpec, shards: Shards, *, workers: int | None = None, **options: Any
) -> Result:
    """:func:`~feddep.experiments.pipeline.run` with Flower's nodes for clients.

    With the environment variable ``RAY_ADDRESS`` a Ray that runs already is used, over several
    machines if it has them. The clients' data stand in a temporary folder (``TMPDIR``), which all
    these machines must see.
    """
    with tempfile.TemporaryDirectory(prefix="feddep-") as folder:
        data = Path(folder) / "shards"
        write_shards(shards, data)
        results: list[Result] = []

        def main(grid: Grid) -> None:
            start = partial(convened, spec, FlowerPost(grid), Path(folder) / "requests")
            results.append(run(spec, shards, start=start, **options))

        address = os.environ.get(CLUSTER)
        simulate(main, simulated_app(data), shards.clients, workers or cores(), address)
    return results[0]


@contextmanager
def convened(
    spec: RunSpec, post: Post, requests: Path, shards: Shards, method: Method, recipe: Recipe
) -> Iterator[Convener]:
    """A federation over simulated silos; scores on the whole graph are measured here."""
    patience = Patience()
    silos = in_order(meet(post, shards.clients, patience))
    nodes = shards.graph.nodes
    agreement = Agreement("simulation", spec, recipe.features, recipe.classes, nodes)
    host = Host(method, recipe, torch.device("cpu"), {}, lambda: shards.graph)
    convener = Convener(post, agreement, silos, requests, patience, measure=host.score)
    convener.agree(range(len(silos)))
    yield convener
