"""The norm of every example's gradient against torch's, one example at a time."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from agreement import assert_agree, training_terms
from feddep.graph.graph import Graph
from feddep.graph.sampling import full_ego_graphs, separate_ego_graphs
from feddep.models import example_squares
from feddep.models.dropout import DropoutStream
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.models.sgd import Head, SageSgd
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


def check(spec, graph, *, missing_embeddings=None, with_head=False):
    model = FusedSage(
        spec,
        COLUMNS,
        WIDTH if with_head else CLASSES,
        0 if missing_embeddings is None else missing_embeddings.shape[1],
    )
    initialise(model, Seeds(0))
    head = None
    if with_head:
        drawn = torch.tensor(np.random.default_rng(2).standard_normal((WIDTH, CLASSES)))
        head = Head(nn.Parameter(drawn.float()), nn.Parameter(torch.zeros(CLASSES)))
    table = FeatureTable(graph.features, torch.device("cpu"))
    expected = []
    for target in TARGETS[:, None]:
        ego = full_ego_graphs(graph, target, spec.layers)
        missing = (
            None if missing_embeddings is None else torch.from_numpy(missing_embeddings[ego.nodes])
        )
        scores = model(table, ego, missing)
        if head is not None:
            scores = torch.tanh(scores) @ head.weight + head.bias
        loss = cross_entropy(scores, torch.from_numpy(graph.labels[target]))
        gradients = torch.autograd.grad(loss, [*model.parameters(), *(head or ())])
        expected.append(float(sum((g.double() ** 2).sum() for g in gradients)) ** 0.5)
    sgd = SageSgd(
        model,
        graph.features,
        graph.labels,
        rate=0.1,
        decay=0.0,
        dropout=DropoutStream(0, 0),
        missing_embeddings=missing_embeddings,
        head=head,
    )
    found = sgd.gradient_norms(*separate_ego_graphs(graph, TARGETS, spec.layers))
    degree = int(np.diff(graph.indptr).max())
    # Squares are all positive: a norm is as exact as the gradients in it.
    assert_agree(
        found, expected, terms=training_terms(model, degree, batch=1), precision=np.float32
    )


@pytest.mark.parametrize("hidden", [2, HIDDEN, 200])  # where either way to add up pays
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("form", ["separate", "closed"])
@pytest.mark.parametrize("sparse", [True, False])
def test_norms_are_those_of_torch(form, layers, sparse, hidden):
    check(ModelSpec(form=form, layers=layers, hidden=hidden), toy_graph(sparse))


@pytest.mark.parametrize("sparse", [True, False])
def test_a_head_and_embeddings_count(sparse):
    rng = np.random.default_rng(1)
    missing_embeddings = rng.standard_normal((NODES, 4)).astype(np.float32)
    missing_embeddings[::3] = 0  # for these nothing was generated
    spec = ModelSpec(hidden=HIDDEN)
    check(spec, toy_graph(sparse), missing_embeddings=missing_embeddings)
    check(spec, toy_graph(sparse), with_head=True)


def test_large_examples_are_added_up_without_a_square_table(monkeypatch):
    monkeypatch.setattr(example_squares, "_MOST", 0)
    check(ModelSpec(hidden=HIDDEN), toy_graph(sparse=True))
