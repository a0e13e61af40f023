"""The gradient worked out by hand against torch's."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from agreement import assert_agree, assert_weights_agree, training_terms
from feddep.graph.graph import Graph
from feddep.graph.sampling import NeighbourSampler
from feddep.models.dropout import DropoutStream
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.models.sgd import SageSgd
from feddep.models.sgd_weights import Head
from feddep.models.weights import to_arrays
from feddep.seeding import Seeds

NODES, COLUMNS, CLASSES, WIDTH = 40, 30, 3, 6
FANOUT, BATCH = 3, 16


def toy_graph(sparse=True):
    rng = np.random.default_rng(0)
    features = rng.integers(0, 3, (NODES, COLUMNS)).astype(np.float32)
    features[:, 7] = 0  # a column that no batch touches
    edges = rng.integers(0, NODES - 2, (90, 2))  # the last two nodes are isolated
    edges = edges[edges[:, 0] != edges[:, 1]]
    labels = rng.integers(0, CLASSES, NODES)
    return Graph.from_edges(edges, sp.csr_array(features) if sparse else features, labels)


def batches(graph, layers):
    sampler = NeighbourSampler(graph, FANOUT, layers)
    nodes = np.arange(NODES)
    return list(sampler.batches(nodes, BATCH, np.random.default_rng(1)))


def by_torch(model, graph, egos, stream, rate, decay, missing_embeddings=None, head=None):
    """Steps of torch.optim.SGD; changes the model and returns the losses."""
    table = FeatureTable(graph.features, torch.device("cpu"))
    optimiser = torch.optim.SGD([*model.parameters(), *(head or ())], lr=rate, weight_decay=decay)
    losses = []
    for ego in egos:
        missing = (
            None if missing_embeddings is None else torch.from_numpy(missing_embeddings[ego.nodes])
        )
        scores = model(table, ego, missing, stream)
        if head is not None:
            scores = torch.tanh(scores) @ head.weight + head.bias
        loss = cross_entropy(scores, torch.from_numpy(graph.labels[ego.targets]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def compare(
    spec,
    graph,
    *,
    rate=0.1,
    decay=0.0,
    missing_embeddings=None,
    width=0,
    with_head=False,
    last_only=False,
):
    outputs = WIDTH if with_head else CLASSES
    models = [FusedSage(spec, COLUMNS, outputs, width, last_only=last_only) for _ in range(2)]
    heads = [None, None]
    for model in models:
        initialise(model, Seeds(0))
    if with_head:
        drawn = torch.tensor(np.random.default_rng(2).standard_normal((WIDTH, CLASSES)))
        heads = [
            Head(nn.Parameter(drawn.float()), nn.Parameter(torch.zeros(CLASSES))) for _ in (0, 1)
        ]
    egos = batches(graph, spec.layers)
    streams = [DropoutStream(spec.dropout, 5) for _ in range(2)]
    expected = by_torch(
        models[0], graph, egos, streams[0], rate, decay, missing_embeddings, heads[0]
    )
    sgd = SageSgd(
        models[1],
        graph.features,
        graph.labels,
        rate=rate,
        decay=decay,
        dropout=streams[1],
        missing_embeddings=missing_embeddings,
        head=heads[1],
    )
    losses = [sgd.step(ego) for ego in egos]
    terms = training_terms(models[0], FANOUT, batch=BATCH, steps=len(egos))
    assert_agree(losses, expected, terms=terms, precision=np.float32)
    arrays = [to_arrays(model) for model in models]
    assert_weights_agree(arrays[1], arrays[0], terms=terms)
    if with_head:
        assert_weights_agree(heads[1]._asdict(), heads[0]._asdict(), terms=terms)
    return arrays


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("form", ["separate", "closed"])
@pytest.mark.parametrize("sparse", [True, False])
def test_steps_are_those_of_torch(form, layers, sparse):
    compare(ModelSpec(form=form, layers=layers, hidden=8), toy_graph(sparse))


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("sparse", [True, False])
def test_weight_decay_reaches_columns_that_no_node_has(decay, sparse):
    spec = ModelSpec(hidden=8)
    arrays = compare(spec, toy_graph(sparse), decay=decay)
    fresh = FusedSage(spec, COLUMNS, CLASSES)
    initialise(fresh, Seeds(0))
    start = to_arrays(fresh)["features"][7]
    factor = (1 - 0.1 * decay) ** 3
    assert_agree(arrays[1]["features"][7], factor * start, terms=3 * 3)  # three in each step


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("generated", [0, 0.5, 1])
@pytest.mark.parametrize("form", ["separate", "closed"])
def test_embeddings_are_fused_at_every_layer(form, generated, decay):
    rng = np.random.default_rng(3)
    missing_embeddings = rng.standard_normal((NODES, 5)).astype(np.float32)
    missing_embeddings[rng.random(NODES) >= generated] = 0
    spec = ModelSpec(form=form, hidden=8)
    compare(spec, toy_graph(), decay=decay, missing_embeddings=missing_embeddings, width=5)


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("form", ["separate", "closed"])
def test_embeddings_may_be_fused_at_the_last_layer_only(form, layers, decay):
    rng = np.random.default_rng(3)
    missing_embeddings = rng.standard_normal((NODES, 5)).astype(np.float32)
    missing_embeddings[rng.random(NODES) >= 0.5] = 0
    spec = ModelSpec(form=form, layers=layers, hidden=8)
    options = {
        "decay": decay,
        "missing_embeddings": missing_embeddings,
        "width": 5,
        "last_only": True,
    }
    arrays = compare(spec, toy_graph(), **options)
    assert [name for name in arrays[1] if "embedding" in name] == [
        f"convolutions.{layers - 1}.embedding"
    ]


def test_without_embeddings_their_weights_stay_as_they_are():
    spec, graph = ModelSpec(hidden=8, dropout=0), toy_graph()
    model = FusedSage(spec, COLUMNS, CLASSES, 5)
    initialise(model, Seeds(0))
    before = to_arrays(model)
    stream = DropoutStream(0, 0)
    sgd = SageSgd(model, graph.features, graph.labels, rate=0.1, decay=0, dropout=stream)
    sgd.step(batches(graph, 2)[0])
    after = to_arrays(model)
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {name for name in before if "embedding" not in name}


@pytest.mark.parametrize("layers", [1, 2])
def test_a_head_on_tanh_is_trained_too(layers):
    compare(ModelSpec(layers=layers, hidden=8), toy_graph(), with_head=True)


def test_an_odd_width_draws_the_same_bits():
    compare(ModelSpec(hidden=7, dropout=0.3), toy_graph())


def test_large_scores_neither_overflow_nor_lose_the_loss():
    graph = toy_graph()
    model = FusedSage(ModelSpec(hidden=8, dropout=0), COLUMNS, CLASSES)
    initialise(model, Seeds(0))
    with torch.no_grad():
        model.features *= 1e4
    stream = DropoutStream(0, 0)
    sgd = SageSgd(model, graph.features, graph.labels, rate=1e-9, decay=0, dropout=stream)
    assert 0 < sgd.step(batches(graph, 2)[0]) < 1e7
