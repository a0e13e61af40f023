"""The paper's Statement 3.2 by experiment: which nodes a prediction depends on.

The paper counts more loosely: it says that K fused convolutions over embeddings of depth L see
the (K + L)-hop ego-graph. An embedding belongs to a node one lost edge away from the node that it
mends, so a prediction sees K hops, then that edge, then L hops: K + 1 + L.
"""

import numpy as np
import pytest
import torch

from feddep.graph.graph import Graph
from feddep.graph.sampling import whole_graph
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.seeding import Seeds

CPU = torch.device("cpu")
K, WIDTH, FEATURES = 2, 4, 3


def path(features, nodes):
    edges = [[i, i + 1] for i in range(nodes - 1)]
    return Graph.from_edges(edges, features, [0] * nodes)


def embeddings_of(graph, depth):
    """z of depth L over the other silo's graph, full lists."""
    if depth == 0:
        return torch.tensor(graph.features)
    trunk = FusedSage(ModelSpec(layers=depth, hidden=WIDTH), FEATURES, WIDTH)
    initialise(trunk, Seeds(1))
    with torch.no_grad():
        return torch.tanh(trunk(FeatureTable(graph.features, CPU), whole_graph(graph, depth)))


def prediction(features, depth, *, mended):
    """Of node 0 on the path 0 … K | K+1 …, cut by a lost edge between nodes K and K + 1."""
    mine, theirs = features[: K + 1], features[K + 1 :]
    silo, other = path(mine, len(mine)), path(theirs, len(theirs))
    z = embeddings_of(other, depth)
    classifier = FusedSage(ModelSpec(layers=K, hidden=8), FEATURES, 2, embedding=z.shape[1])
    initialise(classifier, Seeds(0))
    fused = torch.zeros(len(mine), z.shape[1])
    if mended:
        fused[K] = z[0]  # the true embedding of the neighbour that node K has lost
    with torch.no_grad():
        table = FeatureTable(silo.features, CPU)
        return classifier(table, whole_graph(silo, K), fused)[0].numpy()


def sees(hops, depth, *, mended):
    features = np.random.default_rng(0).uniform(0.5, 1.5, (12, FEATURES)).astype(np.float32)
    changed = features.copy()
    changed[hops] += 1
    before = prediction(features, depth, mended=mended)
    return not np.array_equal(before, prediction(changed, depth, mended=mended))


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_with_true_embeddings_a_prediction_sees_k_plus_1_plus_l_hops_and_no_more(depth):
    assert sees(K + 1 + depth, depth, mended=True)
    assert not sees(K + 2 + depth, depth, mended=True)


@pytest.mark.parametrize("depth", [0, 2])
def test_with_zero_embeddings_it_sees_k_hops(depth):
    assert sees(K, depth, mended=False)
    assert not sees(K + 1, depth, mended=False)
