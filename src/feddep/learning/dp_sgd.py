"""DP-SGD on a GraphSAGE: each example's gradient is clipped, and noise is added to their sum.

Source: Abadi et al. 2016, algorithm 1. An example is a training node with its full ego-graph; the
batch is a Poisson sample, as the accountants assume. Opacus hooks into the layers of torch.nn,
which our sparse first layer is not; so the clipping is our own.

It protects one training node as an example. A node's edges are in the ego-graphs of many examples,
so one edge may change many of the clipped gradients (``docs/privacy.md``). Lists in which a node
occurs a limited number of times (``inner``) bound how many.
"""

import math

import numpy as np

from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import Lists, separate_ego_graphs
from feddep.models.sgd import SageSgd
from feddep.privacy.noise import NoiseStream, below, noised_sum, sum_type

_AT_ONCE = 64  # examples, whose ego-graphs are held side by side


def dp_sgd(
    sgd: SageSgd,
    graph: Graph,
    *,
    layers: int,
    batch_size: int,
    epochs: int,
    rate: float,
    noise: float,
    clip: float,
    rng: NoiseStream,
    inner: Lists | None = None,
    decay: float = 0.0,
) -> None:
    """Takes ⌈n / batch_size⌉ · epochs steps w ← w - rate / batch_size · (Σ clipped + N(0, (σC)²)).

    Args:
        sgd: computes the gradients and holds the weights.
        graph: whose training nodes are the examples.
        layers: hops of an example's ego-graph.
        batch_size: mean number of examples in a batch, out of n.
        epochs: as many steps as this many passes over the examples would take.
        rate: the learning rate.
        noise: σ, noise multiplier.
        clip: C, largest norm of an example's gradient.
        rng: for batches and noise. Who is in a batch must be as secret as the noise: the price
            counts on it.
        inner: the lists of all but the outermost hop; None reads the graph's own.
        decay: L2 penalty, which does not depend on the examples.
    """
    nodes = graph.members(Part.TRAIN)
    weights, total = sgd.weights, sgd.weights.zeros(sum_type(rng))
    for _ in range(epochs * math.ceil(len(nodes) / batch_size)):
        chosen = nodes[rng.random(len(nodes)) < batch_size / len(nodes)]
        with noised_sum(rng, total.arrays(), noise * clip):
            for start in range(0, len(chosen), _AT_ONCE):
                part = chosen[start : start + _AT_ONCE]
                ego, owner = separate_ego_graphs(graph, part, layers, inner)
                sgd.add_clipped(ego, owner, total, below(rng, clip))
        for weight, change in zip(weights.arrays(), total.arrays(), strict=True):
            if decay:
                weight *= np.float32(1 - rate * decay)
            change *= np.float32(rate / batch_size)
            weight -= change.astype(np.float32, copy=False)
