"""DP-SGD on a GraphSAGE: every example's gradient is clipped, their sum noised.

Source: Abadi et al. 2016, algorithm 1. An example is a training node with its full ego-graph; the
batch is a Poisson sample, as the accountants assume. Opacus hooks into the layers of torch.nn,
which our sparse first layer is not; so the clipping is our own.

What it protects is one training node as an example. A node's edges are in the ego-graphs of many
examples, so one edge may change many of the clipped gradients: ``docs/privacy.md``.
"""

import math

import numpy as np

from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import full_ego_graphs
from feddep.models.sgd import SageSgd


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
    rng: np.random.Generator,
) -> None:
    """Takes ⌈n / batch_size⌉ · epochs steps w ← w - rate / batch_size · (Σ clipped + N(0, (σC)²)).

    Args:
        sgd: gives the gradients and holds the weights.
        graph: whose training nodes are the examples.
        layers: hops of an example's ego-graph.
        batch_size: examples in a batch in the mean; n of them are there in all.
        epochs: as many steps as this many passes would take.
        rate: the learning rate.
        noise: σ, noise multiplier.
        clip: C, largest norm of an example's gradient.
        rng: for batches and noise.
    """
    nodes = graph.members(Part.TRAIN)
    weights, total, example = sgd.weights, sgd.weights.zeros(), sgd.weights.zeros()
    for _ in range(epochs * math.ceil(len(nodes) / batch_size)):
        chosen = nodes[rng.random(len(nodes)) < batch_size / len(nodes)]
        for array in total.arrays():
            rng.standard_normal(out=array, dtype=np.float32)
            array *= noise * clip
        for node in chosen:
            for array in example.arrays():
                array.fill(0)
            sgd.add_gradient(full_ego_graphs(graph, np.array([node]), layers), example)
            squares = sum(float(np.vdot(array, array)) for array in example.arrays())
            scale = np.float32(min(1.0, clip / max(math.sqrt(squares), 1e-12)))
            for sum_, own in zip(total.arrays(), example.arrays(), strict=True):
                sum_ += scale * own
        for weight, change in zip(weights.arrays(), total.arrays(), strict=True):
            weight -= np.float32(rate / batch_size) * change
