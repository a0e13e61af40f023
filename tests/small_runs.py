"""Whole runs of any method in this process, small enough to take a second."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from feddep.algorithms.method import Method
from feddep.federation.messages import Reply, Request
from feddep.federation.metering import Transport
from feddep.federation.run_phases import Progress, run_phases
from feddep.graph.shard import Shards
from feddep.runtime.client_pool import ClientPool
from feddep.scenario.build import (
    client_graphs,
    initial_server_state,
    learning_spec_for,
    settings_of,
)
from feddep.scenario.spec import RunSpec

SMALL = {
    "training.rounds": 2,
    "model.hidden": 8,
    "embedding.width": 6,
    "embedding.epochs": 2,
    "generator.epochs": 2,
    "generator.refresh": 2,
}


def spec_of(method: Method, shards: Shards, **settings: Any) -> RunSpec:
    given = SMALL | {"method": method.name} | settings_of(shards) | settings
    return RunSpec().with_settings(given | dict(method.settings))


def pool_of(method: Method, shards: Shards, **settings: Any) -> ClientPool:
    """All clients of a small run."""
    spec = learning_spec_for(spec_of(method, shards, **settings), shards.graph, method)
    graphs = dict(enumerate(client_graphs(shards, method)))
    names = shards.client_names[: len(graphs)]
    return ClientPool(method, spec, torch.device("cpu"), graphs, lambda: shards.graph, names=names)


def carry_out(
    pool: ClientPool,
    shards: Shards,
    transport: Transport,
    after_round: Callable[..., None] = lambda *_: None,
) -> Progress:
    """The run of these clients from its beginning to its end."""
    method, start = pool.method, Progress(state=initial_server_state(shards, pool.method))
    clients = len(pool.graphs)
    return run_phases(method.phases, pool.spec, clients, transport, start, after_round)


def messages_of(pool: ClientPool, shards: Shards) -> list[tuple[Request, Reply]]:
    """Every request of the run with its reply."""
    wire = _Wire(pool)
    carry_out(pool, shards, wire)
    return wire.said


@dataclass
class _Wire:
    pool: ClientPool
    said: list[tuple[Request, Reply]] = field(default_factory=list)

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        replies = self.pool.handle(requests)
        self.said += zip(requests, replies, strict=True)
        return replies
