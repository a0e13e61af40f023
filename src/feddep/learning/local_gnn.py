"""Training a silo's own GNN and computing its embeddings, both with sampled neighbours.

Embeddings are computed over sampled lists too: over full lists they would reveal every edge, and
the paper's privacy statement is about sampled ones (section 3.3).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from feddep.graph.graph import Part
from feddep.graph.sampling import EgoGraphs, NeighbourSampler, full_ego_graphs
from feddep.learning.dp_sgd import dp_sgd
from feddep.learning.private_training import embedding_gradients, inner_lists
from feddep.learning.prototypes import LocalGnn
from feddep.learning.silo import Silo
from feddep.learning.trainer import mean_loss
from feddep.models.dropout import DropoutStream
from feddep.models.sage import initialise
from feddep.models.sgd import SageSgd
from feddep.models.sgd_weights import Head
from feddep.models.weights import Weights, to_arrays
from feddep.seeding import Seeds

_NODES_AT_ONCE = 1024


def local_embeddings(silo: Silo) -> tuple[npt.NDArray[np.float32], Weights]:
    """z of every node of the silo, ``(n, d_z)``, and the weights of the GNN that gives them.

    At depth 0 they are the features themselves, and there is no GNN.
    """
    if silo.spec.embedding.depth == 0:
        features = silo.graph.features
        return (features if isinstance(features, np.ndarray) else features.toarray()), {}
    model = train_local_gnn(silo)
    return embed(model, silo), to_arrays(model.trunk)


def known_embeddings(silo: Silo, memory: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
    """z from the silo's memory; a silo that was away when the others trained does so now."""
    return memory["embeddings"] if "embeddings" in memory else local_embeddings(silo)[0]


def train_local_gnn(silo: Silo) -> LocalGnn:
    """A GNN trained on the silo's training nodes for N epochs."""
    learning, spec = silo.spec, silo.spec.embedding
    model = LocalGnn(learning.model, spec, learning.inputs, learning.classes)
    start = Seeds(learning.seed) if spec.shared_start else silo.seeds
    initialise(model, start.child("local_gnn"))
    seeds = silo.seeds.child("local_gnn")
    private = learning.privacy.mechanism == "dp-sgd"
    # Clipped gradients are computed without dropout; the noise takes its place.
    share = 0.0 if private else learning.model.dropout
    dropout = DropoutStream(share, seeds.integer("dropout"))
    sgd = SageSgd(
        model.trunk,
        silo.graph.features,
        silo.graph.labels,
        rate=spec.learning_rate,
        decay=0.0,
        dropout=dropout,
        head=Head(model.head, model.head_bias),
    )
    size = learning.training.batch_size
    if private:
        event = embedding_gradients(learning, silo.graph)
        dp_sgd(
            sgd,
            silo.graph,
            layers=spec.depth,
            batch_size=size,
            epochs=spec.epochs,
            rate=spec.learning_rate,
            noise=event.noise,
            clip=event.clip,
            rng=silo.mechanism(seeds, "dp-sgd"),
            inner=inner_lists(silo),
        )
    else:
        sampler = NeighbourSampler(silo.graph, learning.training.fanout, spec.depth)
        nodes, sampling = silo.graph.members(Part.TRAIN), seeds.stream("sampling")
        mean_loss(sampler.batches(nodes, size, sampling, spec.epochs), sgd.step)
    return model.to(silo.device)


def embed(model: LocalGnn, silo: Silo) -> npt.NDArray[np.float32]:
    """z of every node, from a freshly sampled ego-graph; from a full one where NFDP is off."""
    graph, spec = silo.graph, silo.spec.embedding
    sampler = NeighbourSampler(graph, silo.spec.training.fanout, spec.depth)
    rng = silo.seeds.stream("local_gnn", "embedding")

    def ego_graphs(nodes: npt.NDArray[np.int64]) -> EgoGraphs:
        if silo.spec.privacy.mechanism in ("dp-sgd", "none"):
            return full_ego_graphs(graph, nodes, spec.depth)
        return sampler.sample(nodes, rng)

    slices = np.array_split(np.arange(graph.nodes), -(-graph.nodes // _NODES_AT_ONCE))
    with torch.no_grad():
        rows = [model.embed(silo.table, ego_graphs(nodes)) for nodes in slices]
    found: npt.NDArray[np.float32] = torch.cat(rows).cpu().numpy()
    return found
