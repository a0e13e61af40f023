"""Means by weight, and over both directions apart: worked numbers, gradients, whole runs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import feddep
from agreement import assert_agree
from feddep.errors import InputError
from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import NeighbourSampler, whole_block, whole_graph
from feddep.learning.silo import Silo, open_silo
from feddep.learning.spec import LearningSpec
from feddep.models.dropout import DropoutStream
from feddep.models.kernels import FeatureTable, mean_of_neighbours, portable_mean_of_neighbours
from feddep.models.sage import ModelSpec
from feddep.models.sgd import SageSgd
from feddep.privacy.spec import PrivacySpec

CPU = torch.device("cpu")
READERS = [
    ModelSpec(hidden=4, dropout=0.0, weighted=True),
    ModelSpec(hidden=4, dropout=0.0, directions="apart"),
    ModelSpec(hidden=4, dropout=0.0, weighted=True, directions="apart"),
]


def payments(nodes=12, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, nodes, (3 * nodes, 2))
    return Graph.from_edges(
        rows,
        rng.normal(size=(nodes, 3)),
        rng.integers(0, 2, nodes),
        classes=2,
        split=[Part.TRAIN] * (nodes - 4) + [Part.VAL] * 2 + [Part.TEST] * 2,
        weights=rng.integers(0, 5, len(rows)),
    )


def by_hand(graph, spec, x):
    """The means of every node's neighbours, a node and an edge at a time."""
    found = np.zeros((graph.nodes, spec.means, x.shape[1]))
    incoming = np.zeros((graph.nodes, graph.nodes))
    for node in range(graph.nodes):
        for place in range(graph.indptr[node], graph.indptr[node + 1]):
            incoming[graph.indices[place], node] = graph.flows[place]
    for node in range(graph.nodes):
        goes, comes = incoming[:, node], incoming[node]
        counts = [goes, comes] if spec.directions == "apart" else [goes + comes]
        for way, count in enumerate(counts):
            count = count if spec.weighted else (count > 0) * 1.0
            if count.sum():
                found[node, way] = count @ x / count.sum()
    return found.reshape(graph.nodes, -1)


def test_a_worked_example():
    """0 pays 1 three and 2 one; 1 pays 0 one: node 0 sends to both and hears from 1 alone."""
    rows, amounts = [[0, 1], [0, 2], [1, 0]], [3, 1, 1]
    graph = Graph.from_edges(rows, np.eye(3), [0, 0, 1], weights=amounts)
    x = torch.tensor([[1.0], [10.0], [100.0]])

    def mean(**settings):
        spec = ModelSpec(**settings)
        return mean_of_neighbours(x, whole_block(graph, spec.ways(graph)))[0].tolist()

    assert mean() == [55.0]
    assert mean(weighted=True) == pytest.approx([(4 * 10 + 100) / 5])
    assert mean(directions="apart") == [55.0, 10.0]
    assert mean(weighted=True, directions="apart") == [32.5, 10.0]


@pytest.mark.parametrize("spec", READERS)
def test_means_and_their_gradients(spec):
    graph = payments()
    block = whole_block(graph, spec.ways(graph))
    x = torch.randn(graph.nodes, 5, requires_grad=True)
    upstream = torch.randn(graph.nodes, 5 * spec.means)
    expected = by_hand(graph, spec, x.detach().numpy())
    means = mean_of_neighbours(x, block)
    assert_agree(means.detach().numpy(), expected, terms=16, scale=8.0)
    (mine,) = torch.autograd.grad(means, x, upstream)
    portable = portable_mean_of_neighbours(x, block, closed=False)
    assert_agree(portable.detach().numpy(), expected, terms=16, scale=8.0)
    (theirs,) = torch.autograd.grad(portable, x, upstream)
    assert_agree(mine.numpy(), theirs.numpy(), terms=64, scale=4.0)


@pytest.mark.parametrize("spec", READERS)
def test_scores_of_all_nodes_are_those_of_the_whole_graph(spec, monkeypatch):
    graph, learning = payments(), LearningSpec(features=3, classes=2, model=spec)
    model, table = learning.classifier(), FeatureTable(graph.features, CPU)
    with torch.no_grad():
        expected = model(table, whole_graph(graph, spec.layers, spec.ways(graph))).numpy()
        assert_agree(model.score_all(table, graph).numpy(), expected, terms=64, scale=4.0)
        monkeypatch.setattr("feddep.models.sage._NODES_AT_ONCE", 4)
        monkeypatch.setattr("feddep.models.sage._SLICE", 5)
        assert_agree(model.score_all(table, graph).numpy(), expected, terms=64, scale=4.0)


@pytest.mark.parametrize("spec", READERS)
def test_a_step_by_hand_is_one_of_autograd(spec):
    graph, learning = payments(), LearningSpec(features=3, classes=2, model=spec)
    sampler = NeighbourSampler(graph, 2, spec.layers, spec.ways(graph))
    ego = sampler.sample(np.arange(6), np.random.default_rng(1))
    one, other = learning.classifier(), learning.classifier()
    sgd = SageSgd(
        one, graph.features, graph.labels, rate=0.5, decay=0.0, dropout=DropoutStream(0.0, 0)
    )
    loss = sgd.step(ego)
    scores = other(FeatureTable(graph.features, CPU), ego)
    value = torch.nn.functional.cross_entropy(scores, torch.tensor(graph.labels[ego.targets]))
    assert_agree(loss, value.item(), terms=64, precision=np.float32)
    value.backward()
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        expected = (theirs - 0.5 * theirs.grad).detach().numpy()
        assert_agree(mine.detach().numpy(), expected, terms=64, scale=1.0)


def test_two_means_have_weights_of_their_own():
    shapes = LearningSpec(features=3, classes=2, model=READERS[1]).classifier_shapes
    assert shapes["convolutions.0.neighbours"] == (8, 4)
    assert shapes["convolutions.1.neighbours"] == (8, 2)
    assert shapes["convolutions.1.own"] == (4, 2)


@pytest.mark.parametrize("method", ["fedavg", "local", "feddep"])
def test_methods_learn_from_them_and_predict_as_in_the_run(method, tmp_path):
    settings = {
        "training.rounds": 2,
        "model.hidden": 8,
        "embedding.width": 4,
        "embedding.epochs": 1,
        "model.weighted": True,
        "model.directions": "apart",
        "split.kind": "random",
    }
    graph = replace(payments(60), split=np.zeros(60, np.int8))
    shards = feddep.partition(graph, 2, kind="random", split="random")
    result = feddep.run(method, shards, settings=settings, workers=1, out=tmp_path / "run")
    plain = feddep.run(method, shards, settings=settings | {"model.weighted": False}, workers=1)
    probabilities = feddep.open_run(tmp_path / "run").predict(shards[0], client=0)
    assert np.array_equal(probabilities, result.predict(shards[0], client=0))
    assert not np.array_equal(probabilities, plain.predict(shards[0], client=0))


def test_a_model_that_does_not_read_them_computes_as_without():
    graph, spec = payments(), LearningSpec(features=3, classes=2)
    plain = open_silo(0, replace(graph, flows=None), spec, CPU)
    with_flows = open_silo(0, graph, spec, CPU)
    assert with_flows.graph.flows is None
    assert isinstance(plain, Silo)


class TestRefused:
    def test_a_graph_without_them(self):
        graph = replace(payments(), flows=None)
        learning = LearningSpec(features=3, classes=2, model=READERS[0])
        with pytest.raises(InputError, match="feddep import --flows keeps them"):
            open_silo(0, graph, learning, CPU)

    @pytest.mark.parametrize(
        "mechanism", ["one-shot", "randomised-response", "aggregation-perturbation", "dp-sgd"]
    )
    def test_mechanisms_that_know_edges_alone(self, mechanism):
        privacy = PrivacySpec(mechanism=mechanism, epsilon=1.0)
        with pytest.raises(InputError, match=f"for which {mechanism} promises nothing"):
            LearningSpec(features=3, classes=2, model=READERS[1], privacy=privacy)

    def test_methods_that_add_nodes(self):
        shards = feddep.partition(payments(60), 2, kind="random")
        settings = {"model.weighted": True}
        with pytest.raises(InputError, match="fedsage adds neighbours"):
            feddep.run("fedsage", shards, settings=settings, workers=1)

    def test_the_closed_form(self):
        with pytest.raises(InputError, match=r"choose model\.form = separate"):
            ModelSpec(form="closed", weighted=True)
