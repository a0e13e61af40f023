"""DP-SGD: clipping and noise against numbers that torch gives."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from agreement import assert_weights_agree, training_terms
from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import full_ego_graphs
from feddep.learning.dp_sgd import dp_sgd
from feddep.models.dropout import DropoutStream
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.models.sgd import SageSgd
from feddep.models.weights import to_arrays
from feddep.seeding import Seeds

GRAPH = Graph.from_edges(
    [[0, 1], [1, 2], [2, 3], [0, 3]],
    np.arange(12, dtype=np.float32).reshape(4, 3) / 6,
    [0, 1, 0, 1],
    split=[Part.TRAIN] * 4,
)


def fresh():
    model = FusedSage(ModelSpec(hidden=5, dropout=0), 3, 2)
    initialise(model, Seeds(0))
    return model


def trained(*, noise=0.0, clip=1.0, epochs=1, seed=0):
    model = fresh()
    stream = DropoutStream(0, 0)
    sgd = SageSgd(model, GRAPH.features, GRAPH.labels, rate=0.5, decay=0, dropout=stream)
    dp_sgd(
        sgd,
        GRAPH,
        layers=2,
        batch_size=4,  # of four nodes: each batch has them all
        epochs=epochs,
        rate=0.5,
        noise=noise,
        clip=clip,
        rng=np.random.default_rng(seed),
    )
    return to_arrays(model)


def example_gradients(model):
    table = FeatureTable(GRAPH.features, torch.device("cpu"))
    for node in range(4):
        scores = model(table, full_ego_graphs(GRAPH, np.array([node]), 2))
        loss = cross_entropy(scores, torch.tensor(GRAPH.labels[[node]]))
        yield torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("clip", [1e9, 0.3])
def test_without_noise_a_step_is_the_mean_of_clipped_gradients(clip):
    model = fresh()
    expected = [p.detach().clone() for p in model.parameters()]
    norms = []
    for gradients in example_gradients(model):
        norm = float(sum((g**2).sum() for g in gradients)) ** 0.5
        norms.append(norm)
        for weight, gradient in zip(expected, gradients, strict=True):
            weight -= 0.5 / 4 * min(1, clip / norm) * gradient
    assert max(norms) > 0.3, "or nothing is clipped"
    names = [name for name, _ in model.named_parameters()]
    assert_weights_agree(
        trained(clip=clip),
        dict(zip(names, expected, strict=True)),
        terms=training_terms(model, degree=2, batch=4),
    )


def test_the_noise_has_the_standard_deviation_asked_for():
    clip, noise = 0.2, 50.0
    quiet = trained(clip=clip)
    draws = []
    for seed in range(40):
        noisy = trained(clip=clip, noise=noise, seed=seed)
        draws += [(noisy[name] - quiet[name]).ravel() for name in quiet]
    spread = np.concatenate(draws).std()
    assert spread == pytest.approx(0.5 / 4 * noise * clip, rel=0.05)


def test_batches_are_poisson_samples():
    sizes = []

    class Counting(SageSgd):
        def add_clipped(self, ego, owner, total, clip):
            sizes[-1] += len(ego.targets)
            super().add_clipped(ego, owner, total, clip)

    model = fresh()
    sgd = Counting(
        model, GRAPH.features, GRAPH.labels, rate=0.1, decay=0, dropout=DropoutStream(0, 0)
    )
    for seed in range(300):
        sizes.append(0)
        dp_sgd(
            sgd,
            GRAPH,
            layers=2,
            batch_size=1,
            epochs=1,
            rate=1e-9,
            noise=0,
            clip=1,
            rng=np.random.default_rng(seed),
        )
    # Four steps of four nodes at probability 1/4: four examples in the mean, variance 3.
    assert np.mean(sizes) == pytest.approx(4, abs=4 * (3 / 300) ** 0.5)
    assert np.var(sizes) == pytest.approx(3, rel=0.4)
