"""Training a silo's own GNN and computing its embeddings, both with sampled neighbours.

The embeddings are sampled too: an embedding over full neighbour lists would show every edge, and
the paper's privacy statement is about sampled ones (section 3.3).
"""

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy

from feddep.graph.graph import Part
from feddep.graph.sampling import NeighbourSampler
from feddep.learning.prototypes import LocalGnn
from feddep.learning.recipe import Silo
from feddep.learning.trainer import fit, mean_loss
from feddep.models.dropout import DropoutStream
from feddep.models.sage import initialise
from feddep.models.sgd import Head, SageSgd
from feddep.seeding import Seeds

_NODES_AT_ONCE = 1024


def local_embeddings(silo: Silo) -> npt.NDArray[np.float32]:
    """z of every node of the silo, ``(n, d_z)``; the features themselves if the depth is 0."""
    if silo.recipe.embedding.depth == 0:
        features = silo.graph.features
        return features if isinstance(features, np.ndarray) else features.toarray()
    return embed(train_local_gnn(silo), silo)


def train_local_gnn(silo: Silo) -> LocalGnn:
    """A GNN trained on the silo's training nodes for N epochs."""
    recipe, spec = silo.recipe, silo.recipe.embedding
    model = LocalGnn(recipe.model, spec, recipe.features, recipe.classes).to(silo.device)
    start = Seeds(recipe.seed) if spec.shared_start else silo.seeds
    initialise(model, start.child("local_gnn"))
    seeds = silo.seeds.child("local_gnn")
    sampler = NeighbourSampler(silo.graph, recipe.training.fanout, spec.depth)
    nodes, size = silo.graph.members(Part.TRAIN), recipe.training.batch_size
    batches = sampler.batches(nodes, size, seeds.stream("sampling"), spec.epochs)
    dropout = DropoutStream(recipe.model.dropout, seeds.integer("dropout"))
    if silo.device.type == "cpu":
        sgd = SageSgd(
            model.trunk,
            silo.graph.features,
            silo.graph.labels,
            rate=spec.learning_rate,
            decay=0.0,
            dropout=dropout,
            head=Head(model.head, model.head_bias),
        )
        mean_loss(batches, sgd.step)
    else:
        fit(
            model,
            batches,
            lambda ego: cross_entropy(model(silo.table, ego, dropout), silo.labels[ego.targets]),
            spec.learning_rate,
        )
    return model


def embed(model: LocalGnn, silo: Silo) -> npt.NDArray[np.float32]:
    """z of every node, each from a freshly sampled ego-graph."""
    sampler = NeighbourSampler(silo.graph, silo.recipe.training.fanout, silo.recipe.embedding.depth)
    rng = silo.seeds.stream("local_gnn", "embedding")
    slices = np.array_split(np.arange(silo.graph.nodes), -(-silo.graph.nodes // _NODES_AT_ONCE))
    with torch.no_grad():
        rows = [model.embed(silo.table, sampler.sample(nodes, rng)) for nodes in slices]
    found: npt.NDArray[np.float32] = torch.cat(rows).cpu().numpy()
    return found
