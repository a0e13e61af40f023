"""No message of an honest run is refused, whatever the method and however odd the clients."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from feddep.algorithms import METHODS, find_method
from feddep.federation.conduct import Progress, conduct
from feddep.federation.inspection import (
    ANSWERED_WITH,
    ASKED_WITH,
    Expected,
    inspect_reply,
    inspect_request,
)
from feddep.graph.graph import Part
from feddep.learning.neighgen import HEAD
from feddep.models.generator import DeepGenerator
from feddep.models.weights import to_arrays
from feddep.phases.local_gnn import shared_shapes
from feddep.runtime.host import Host
from feddep.scenario.build import known_at_first, parties, recipe_for, settings_of
from feddep.scenario.spec import RunSpec


def expected_of(method, recipe, graphs, **more):
    """Everything that can be known of a run's messages before it starts."""
    nodes, width = max(graph.nodes for graph in graphs), recipe.embedding_width
    generator = DeepGenerator(recipe.model, recipe.generator, recipe.features, width)
    slots, hidden = recipe.generator.slots, recipe.model.hidden
    most = 10 * sum(graph.nodes for graph in graphs)
    weights = {name: array.shape for name, array in to_arrays(recipe.classifier()).items()}
    return Expected(
        discloses=method.discloses,
        reports={phase.name: phase.reports for phase in method.phases},
        shapes={
            "classifier": weights,
            "local_gnn/classifier": shared_shapes(recipe),
            "neighgen": {name: tuple(getattr(generator, name).shape) for name in HEAD},
        },
        rows={
            "prototypes": (recipe.embedding.clusters, width),
            "foreign": (recipe.embedding.clusters, width),
            "codes": (nodes, width),
            "embeddings": (nodes, width),
            "hidden": (nodes, hidden),
            "neighbours": (most, hidden if method.fusion == "last" else width),
            "features": (nodes, recipe.features),
            "added": (most, recipe.features),
            "generated": (nodes, slots, width),
            "neighgen/inputs": (recipe.generator.batch_size, hidden),
            "neighgen/kept": (recipe.generator.batch_size, slots),
        },
        largest_bytes=2**20,
        largest_norm=100.0,
        **more,
    )


@pytest.fixture(scope="module")
def odd_shards(small_shards):
    """An ordinary client, one without training nodes, and one with a single node."""
    owner = np.minimum(small_shards.owner, 1)
    owner[np.flatnonzero(small_shards.owner == 2)[0]] = 2
    split = small_shards.graph.split.copy()
    split[(owner == 1) & (split == Part.TRAIN)] = Part.NONE
    split[owner == 2] = Part.TRAIN
    return replace(small_shards, graph=small_shards.graph.with_split(split), owner=owner)


class Inspected:
    """Clients in this process; both sides look at what comes."""

    def __init__(self, shards, method, **settings):
        small = {
            "method": method.name,
            "training.rounds": 2,
            "model.hidden": 8,
            "embedding.width": 6,
            "embedding.epochs": 2,
            "generator.epochs": 2,
            "generator.refresh": 2,
        }
        spec = RunSpec().with_settings(
            small | settings_of(shards) | settings | dict(method.settings)
        )
        recipe = recipe_for(spec, shards.graph, method)
        graphs = dict(enumerate(parties(shards, method)))
        cpu = torch.device("cpu")
        self.host = Host(method, recipe, cpu, graphs, lambda: shards.graph)
        self.servers = expected_of(method, recipe, list(graphs.values()))
        self.clients = {c: replace(self.servers, nodes=g.nodes) for c, g in graphs.items()}
        self.said = []
        start = Progress(state=known_at_first(shards, method))
        conduct(method.phases, recipe, len(graphs), self, start, lambda *_: None)

    def exchange(self, requests):
        for request in requests:
            inspect_request(request, self.clients[request.client])
        replies = self.host.handle(requests)
        for request, reply in zip(requests, replies, strict=True):
            inspect_reply(reply, request, self.servers)
        self.said += zip(requests, replies, strict=True)
        return replies


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["small_shards", "odd_shards"])
def test_everything_that_is_said_passes(request, name, kind):
    said = Inspected(request.getfixturevalue(kind), find_method(name)).said
    assert said
    for question, answer in said:
        step = (question.phase, question.step)
        told, brought = {*question.arrays}, {*answer.arrays, *answer.metrics}
        for names, there in [(ASKED_WITH, told), (ANSWERED_WITH, brought)]:
            groups = there | {f"{key.partition('/')[0]}/" for key in there if "/" in key}
            assert names.get(step, frozenset()) <= groups


def test_every_step_that_needs_something_is_one_of_a_method(small_shards):
    steps = {
        (question.phase, question.step)
        for name in METHODS
        for question, _ in Inspected(small_shards, find_method(name)).said
    }
    assert ANSWERED_WITH.keys() | ASKED_WITH.keys() <= steps


@pytest.mark.parametrize(
    "settings",
    [{"embedding.warm_start": True}, {"training.update_clip": 0.1, "training.update_noise": 2.0}],
    ids=["warm start", "noised updates"],
)
def test_so_does_a_run_with_other_settings(small_shards, settings):
    said = Inspected(small_shards, find_method("feddep"), **settings).said
    sent = {question.phase for question, answer in said if answer.arrays}
    assert ("local_gnn" in sent) == ("embedding.warm_start" in settings)
