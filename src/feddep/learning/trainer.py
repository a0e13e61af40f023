"""Mini-batch training of a classifier on one silo: the hot path."""

import torch
from torch.nn.functional import cross_entropy

from feddep.graph.graph import Part
from feddep.graph.sampling import NeighbourSampler
from feddep.learning.recipe import Silo
from feddep.models.sage import FusedSage
from feddep.seeding import Seeds


def train(model: FusedSage, silo: Silo, seeds: Seeds) -> float:
    """Trains ``model`` in place for one round: every training node once in each local epoch.

    Minimises the cross-entropy −log softmax(F(v))[y_v] over mini-batches of sampled ego-graphs.

    Args:
        model: the classifier.
        silo: whose nodes to train on.
        seeds: streams of this client and round.

    Returns:
        The mean loss over nodes and epochs; 0 if the silo has no training node.
    """
    spec = silo.recipe.training
    nodes = silo.graph.members(Part.TRAIN)
    sampler = NeighbourSampler(silo.graph, spec.fanout, silo.recipe.model.layers)
    optimiser = torch.optim.SGD(
        model.parameters(), lr=spec.learning_rate, weight_decay=spec.weight_decay
    )
    sampling, dropout = seeds.stream("sampling"), seeds.stream("dropout")
    total = 0.0
    for _ in range(spec.local_epochs):
        for ego in sampler.batches(nodes, spec.batch_size, sampling):
            batch = ego.nodes[: ego.blocks[-1].targets]
            scores = model(silo.table, ego, dropout=dropout)
            loss = cross_entropy(scores, silo.labels[batch])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            total += loss.item() * len(batch)
    return total / max(1, spec.local_epochs * len(nodes))
