"""The sum of clipped gradients against torch's, one example at a time."""

from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from agreement import assert_weights_agree, training_terms
from feddep.graph.graph import Graph
from feddep.graph.sampling import full_ego_graphs, separate_ego_graphs
from feddep.models.dropout import DropoutStream
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.models.sgd import SageSgd
from feddep.models.sgd_weights import Head, Weights
from feddep.seeding import Seeds

NODES, COLUMNS, CLASSES, WIDTH, HIDDEN = 40, 30, 3, 6, 8
TARGETS = np.array([3, 0, 17, 39, 5])  # node 39 is isolated


def toy_graph(sparse):
    rng = np.random.default_rng(0)
    features = rng.integers(0, 3, (NODES, COLUMNS)).astype(np.float32)
    edges = rng.integers(0, NODES - 2, (90, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    labels = rng.integers(0, CLASSES, NODES)
    return Graph.from_edges(edges, sp.csr_array(features) if sparse else features, labels)


def check(spec, graph, *, with_head=False):
    model = FusedSage(spec, COLUMNS, WIDTH if with_head else CLASSES)
    initialise(model, Seeds(0))
    head = None
    if with_head:
        drawn = torch.tensor(np.random.default_rng(2).standard_normal((WIDTH, CLASSES)))
        head = Head(nn.Parameter(drawn.float()), nn.Parameter(torch.zeros(CLASSES)))
    parameters = [*model.parameters(), *(head or ())]
    table = FeatureTable(graph.features, torch.device("cpu"))
    gradients = []
    for target in TARGETS[:, None]:
        scores = model(table, full_ego_graphs(graph, target, spec.layers))
        if head is not None:
            scores = torch.tanh(scores) @ head.weight + head.bias
        loss = cross_entropy(scores, torch.from_numpy(graph.labels[target]))
        gradients.append(torch.autograd.grad(loss, parameters))
    norms = [float(sum((g.double() ** 2).sum() for g in each)) ** 0.5 for each in gradients]
    clip = float(np.median(norms))  # some are shortened, some are not
    shares = [min(1, clip / norm) for norm in norms]
    expected = [
        sum(share * each[k].double() for share, each in zip(shares, gradients, strict=True))
        for k in range(len(parameters))
    ]
    sgd = SageSgd(
        model,
        graph.features,
        graph.labels,
        rate=0.1,
        decay=0.0,
        dropout=DropoutStream(0, 0),
        head=head,
    )
    sums = [nn.Parameter(torch.zeros_like(p)) for p in parameters]
    found = deepcopy(model)
    for parameter, zeros in zip(found.parameters(), sums, strict=False):
        parameter.data = zeros.data
    found_head = None if head is None else Head(*sums[-2:])
    total = Weights.of(found, found_head, with_missing=False)
    sgd.add_clipped(*separate_ego_graphs(graph, TARGETS, spec.layers), total, clip)
    degree = int(np.diff(graph.indptr).max())
    assert_weights_agree(
        dict(enumerate(sums)),
        dict(enumerate(expected)),
        terms=training_terms(model, degree, batch=len(TARGETS)),
    )


@pytest.mark.parametrize("hidden", [2, HIDDEN, 200])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("form", ["separate", "closed"])
@pytest.mark.parametrize("sparse", [True, False])
def test_sums_are_those_of_torch(form, layers, sparse, hidden):
    check(ModelSpec(form=form, layers=layers, hidden=hidden), toy_graph(sparse))


@pytest.mark.parametrize("sparse", [True, False])
def test_a_head_counts(sparse):
    check(ModelSpec(hidden=HIDDEN), toy_graph(sparse), with_head=True)


def test_what_is_not_finite_behind_a_head_is_left_out():
    graph, model = toy_graph(sparse=True), FusedSage(ModelSpec(hidden=HIDDEN), COLUMNS, WIDTH)
    initialise(model, Seeds(0))
    sgd = SageSgd(
        model,
        graph.features,
        graph.labels,
        rate=0.1,
        decay=0.0,
        dropout=DropoutStream(0, 0),
        head=Head(nn.Parameter(torch.full((WIDTH, CLASSES), 3e38)), nn.Parameter(torch.zeros(3))),
    )
    total = sgd.weights.zeros()
    sgd.add_clipped(*separate_ego_graphs(graph, TARGETS, 2), total, 1.0)
    assert all(np.isfinite(array).all() for array in total.arrays())


def test_embeddings_of_missing_neighbours_are_refused():
    graph = toy_graph(sparse=True)
    sgd = SageSgd(
        FusedSage(ModelSpec(), COLUMNS, CLASSES, 4),
        graph.features,
        graph.labels,
        rate=0.1,
        decay=0.0,
        dropout=DropoutStream(0, 0),
        missing_embeddings=np.ones((NODES, 4), np.float32),
    )
    with pytest.raises(ValueError, match="do not cover"):
        sgd.add_clipped(*separate_ego_graphs(graph, TARGETS, 2), sgd.weights.zeros(), 1.0)
