"""Whole runs of any method in this process, small enough to take a second."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from feddep.algorithms.method import Method
from feddep.federation.conduct import Progress, conduct
from feddep.federation.messages import Reply, Request
from feddep.federation.metering import Transport
from feddep.graph.shard import Shards
from feddep.runtime.host import Host
from feddep.scenario.build import known_at_first, parties, recipe_for, settings_of
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


def host_of(method: Method, shards: Shards, **settings: Any) -> Host:
    """All clients of a small run."""
    recipe = recipe_for(spec_of(method, shards, **settings), shards.graph, method)
    graphs = dict(enumerate(parties(shards, method)))
    return Host(method, recipe, torch.device("cpu"), graphs, lambda: shards.graph)


def carry_out(
    host: Host,
    shards: Shards,
    transport: Transport,
    after_round: Callable[..., None] = lambda *_: None,
) -> Progress:
    """The run of these clients from its beginning to its end."""
    method, start = host.method, Progress(state=known_at_first(shards, host.method))
    clients = len(host.graphs)
    return conduct(method.phases, host.recipe, clients, transport, start, after_round)


def messages_of(host: Host, shards: Shards) -> list[tuple[Request, Reply]]:
    """Every request of the run with its reply."""
    wire = _Wire(host)
    carry_out(host, shards, wire)
    return wire.said


@dataclass
class _Wire:
    host: Host
    said: list[tuple[Request, Reply]] = field(default_factory=list)

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        replies = self.host.handle(requests)
        self.said += zip(requests, replies, strict=True)
        return replies
