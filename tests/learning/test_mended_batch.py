"""Generated neighbours as nodes of a batch, against a graph that really has them."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from agreement import assert_agree
from feddep.graph.graph import Graph
from feddep.graph.sampling import NeighbourSampler, full_ego_graphs
from feddep.learning.expansion import expand
from feddep.learning.mended_batch import mended_batch
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.seeding import Seeds

CPU = torch.device("cpu")
OWNERS, ROWS = [2, 0, 2], np.random.default_rng(1).uniform(-1, 1, (3, 4)).astype(np.float32)


def graph():
    """A path 0-1-2-3-4 and node 5 alone."""
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])
    features = np.random.default_rng(0).random((6, 4)).astype(np.float32)
    return Graph.from_edges(edges, features, np.arange(6) % 2)


@pytest.mark.parametrize("form", ["separate", "closed"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("targets", [[0, 4, 5], [5, 3, 1]])
def test_scores_are_those_on_the_graph_with_the_nodes_added(layers, form, targets):
    """With full lists: they are not longer than the degree, so nothing is cut."""
    known, targets = graph(), np.array(targets)
    model = FusedSage(ModelSpec(layers=layers, hidden=8, form=form), 4, 2)
    initialise(model, Seeds(0))
    ego, table = full_ego_graphs(known, targets, layers), FeatureTable(known.features, CPU)
    batch = mended_batch(
        ego, table, known.degrees[targets], torch.tensor(OWNERS), torch.tensor(ROWS)
    )
    found = model(batch, batch.ego)
    whole = expand(known, np.stack([targets[OWNERS], np.arange(3)], axis=1), ROWS)
    expected = model.score_all(FeatureTable(whole.features, CPU), whole)[targets]
    without = model(table, ego)
    assert_agree(found.detach(), expected.detach(), terms=200, scale=10)
    assert (found - without).abs().amax(dim=1)[[0, 2]].min() > 1e-3
    assert torch.equal(found[1], without[1]) or layers > 1  # has none, but is near one that does


def test_without_new_nodes_nothing_changes():
    known, targets = graph(), np.array([0, 4, 5])
    ego = full_ego_graphs(known, targets, 2)
    none = torch.zeros(0, dtype=torch.int64)
    table = FeatureTable(known.features, CPU)
    batch = mended_batch(ego, table, known.degrees[targets], none, torch.zeros(0, 4))
    assert np.array_equal(batch.ego.nodes, ego.nodes)
    for one, other in zip(batch.ego.blocks, ego.blocks, strict=True):
        assert np.array_equal(one.indptr, other.indptr)
        assert np.array_equal(one.indices, other.indices)


def test_a_list_drawn_with_replacement_counts_no_more_entries_than_the_node_has():
    """Node 2 has two neighbours, of which five were drawn; node 5 has none."""
    known, targets = graph(), np.array([2, 5])
    ego = NeighbourSampler(known, 5, 1).sample(targets, np.random.default_rng(0))
    assert np.diff(ego.blocks[0].indptr).tolist() == [5, 0]
    batch = mended_batch(
        ego,
        FeatureTable(known.features, CPU),
        known.degrees[targets],
        torch.tensor([0, 1, 1]),
        torch.tensor(ROWS),
    )
    (block,) = batch.ego.blocks
    assert np.diff(block.indptr).tolist() == [3, 2]
    first = len(ego.nodes)
    assert block.indices[2:].tolist() == [first, first + 1, first + 2]
    assert block.indices[:2].tolist() == ego.blocks[0].indices[:2].tolist()
    assert batch.ego.nodes.tolist() == [*ego.nodes, -1, -1, -1]


def test_worked_numbers_of_the_loss_and_its_gradient():
    """One convolution, one column, all weights 1 but the last: node 0 with one generated neighbour.

    x_0 = 2, its neighbour x_1 = 4, the generated one z = 6. The mean of neighbours is 5, the scores
    are (0 · 7, ln 3 / 7 · 7) = (0, ln 3), softmax (1/4, 3/4). With y = 0 the loss is ln 4. The
    slope for the second score is 3/4, times ln 3 / 7 for a neighbour's weight, 1/2 in the mean.
    """
    known = Graph.from_edges(np.array([[0, 1]]), np.array([[2.0], [4.0]], np.float32), [0, 1])
    model = FusedSage(ModelSpec(layers=1, hidden=1), 1, 2)
    weight = float(np.log(3) / 7)
    with torch.no_grad():
        model.features.fill_(1.0)
        model.bias.zero_()
        for matrix in (model.convolutions[0].own, model.convolutions[0].neighbours):
            matrix.copy_(torch.tensor([[0.0, weight]]))
        model.convolutions[0].bias.zero_()
    z = torch.tensor([[6.0]], requires_grad=True)
    batch = mended_batch(
        full_ego_graphs(known, np.array([0]), 1),
        FeatureTable(known.features, CPU),
        np.array([1]),
        torch.tensor([0]),
        z,
    )
    loss = cross_entropy(model(batch, batch.ego), torch.tensor([0]))
    loss.backward()
    assert loss.item() == pytest.approx(np.log(4), rel=1e-6)
    assert z.grad.item() == pytest.approx(0.75 * weight / 2, rel=1e-6)
