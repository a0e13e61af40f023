"""Mini-batch training of a classifier on one silo: the hot path."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from feddep.errors import InputError
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
    parameters = list(model.parameters())
    sampling, dropout = seeds.stream("sampling"), seeds.stream("dropout")
    total = 0.0
    for _ in range(spec.local_epochs):
        for ego in sampler.batches(nodes, spec.batch_size, sampling):
            batch = ego.nodes[: ego.blocks[-1].targets]
            scores = model(silo.table, ego, dropout=dropout)
            loss = cross_entropy(scores, silo.labels[batch])
            gradients = torch.autograd.grad(loss, parameters)
            descend(parameters, gradients, spec.learning_rate, spec.weight_decay)
            total += loss.item() * len(batch)
    if not math.isfinite(total):
        raise InputError(
            f"training diverged at client {silo.client}: its loss is no longer a number; "
            f"lower training.learning_rate (it is {spec.learning_rate}) or scale the features"
        )
    return total / max(1, spec.local_epochs * len(nodes))


def descend(
    parameters: Sequence[Tensor], gradients: Sequence[Tensor], rate: float, decay: float
) -> None:
    """One step of SGD in place, w ← w - rate · (gradient + decay · w).

    The same numbers as ``torch.optim.SGD``, whose first use imports the compiler of torch: a
    second and 80 MB in each worker, for three lines.
    """
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if decay:
                gradient = gradient.add(parameter, alpha=decay)
            parameter.add_(gradient, alpha=-rate)
