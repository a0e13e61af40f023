"""Mini-batch training of a classifier on one silo: the hot path."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from feddep.errors import DivergedError
from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import EgoGraphs, NeighbourSampler
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.class_loss import class_loss
from feddep.models.dropout import DropoutStream
from feddep.models.sage import FusedSage
from feddep.models.sgd import SageSgd
from feddep.privacy.events import NeighbourSampling
from feddep.seeding import Seeds

TrainingStep = Callable[[EgoGraphs], float]
"""One step of SGD on a batch; it returns the batch's mean loss before the step."""


class Trainer(Protocol):
    """Trains a classifier at a client for one round; :func:`train` is the default.

    A trainer must not remember anything from one call to the next: a run may continue in another
    process after any round.
    """

    def __call__(
        self, model: FusedSage, silo: Silo, seeds: Seeds, missing_embeddings: Tensor | None = None
    ) -> float:
        """Trains ``model`` in place and returns the mean loss, see :func:`train`."""
        ...


def sampled_lists(spec: LearningSpec, graph: Graph) -> NeighbourSampling:
    """What :func:`train` does with a silo's neighbour lists in all rounds of a run."""
    training = spec.training
    passes = training.rounds * training.local_epochs
    return NeighbourSampling(
        "classifier", training.fanout, spec.model.layers, passes, graph.degree_histogram
    )


def train(
    model: FusedSage,
    silo: Silo,
    seeds: Seeds,
    missing_embeddings: Tensor | None = None,
    *,
    around: Callable[[TrainingStep], TrainingStep] | None = None,
) -> float:
    """Trains ``model`` in place for one round: every training node once in each local epoch.

    Minimises the cross-entropy −log softmax(F(v))[y_v] over mini-batches of sampled ego-graphs, or
    what ``training.class_weights`` and ``training.focal`` make of it.

    Args:
        model: the classifier.
        silo: whose nodes to train on.
        seeds: streams of this client and round.
        missing_embeddings: z̄ of the silo's nodes, ``(n, d_z)``; None trains without them.
        around: wraps the step of SGD, for example to add a term; it may change
            ``model.parameters()`` in place.

    Returns:
        The mean loss over nodes and epochs; 0 if the silo has no training node.
    """
    spec, graph = silo.spec.training, silo.graph
    model_spec = silo.spec.model
    sampler = NeighbourSampler(graph, spec.fanout, model_spec.layers, model_spec.ways(graph))
    nodes = graph.members(Part.TRAIN)
    batches = sampler.batches(nodes, spec.batch_size, seeds.stream("sampling"), spec.local_epochs)
    dropout = DropoutStream(silo.spec.model.dropout, seeds.integer("dropout"))
    weighted = class_loss(spec.class_weights, spec.focal, graph.labels[nodes], silo.spec.classes)

    def loss(ego: EgoGraphs) -> Tensor:
        missing = (
            None if missing_embeddings is None else missing_embeddings[torch.from_numpy(ego.nodes)]
        )
        scores = model(silo.table, ego, missing, dropout)
        labels = silo.labels[ego.targets]
        return cross_entropy(scores, labels) if weighted is None else weighted.of(scores, labels)

    if silo.device.type == "cpu":
        step: TrainingStep = SageSgd(
            model,
            graph.features,
            graph.labels,
            rate=spec.learning_rate,
            decay=spec.weight_decay,
            dropout=dropout,
            missing_embeddings=None if missing_embeddings is None else missing_embeddings.numpy(),
            loss=weighted,
        ).step
    else:
        step = autograd_step(model, loss, spec.learning_rate, spec.weight_decay)
    mean = mean_loss(batches, step if around is None else around(step))
    if not math.isfinite(mean):
        raise DivergedError(
            f"training diverged at client {silo.client}: its loss is no longer a number; "
            f"lower training.learning_rate (it is {spec.learning_rate}) or scale the features"
        )
    return mean


def fit(
    model: nn.Module,
    batches: Iterable[EgoGraphs],
    loss: Callable[[EgoGraphs], Tensor],
    rate: float,
    decay: float = 0.0,
) -> float:
    """Takes a step of SGD on every batch and returns the mean loss over the batches' nodes."""
    return mean_loss(batches, autograd_step(model, loss, rate, decay))


def autograd_step(
    model: nn.Module, loss: Callable[[EgoGraphs], Tensor], rate: float, decay: float
) -> TrainingStep:
    """A step of SGD on a loss that torch differentiates."""
    parameters = list(model.parameters())

    def step(ego: EgoGraphs) -> float:
        value = loss(ego)
        descend(parameters, torch.autograd.grad(value, parameters), rate, decay)
        return value.item()

    return step


def mean_loss(batches: Iterable[EgoGraphs], step: TrainingStep) -> float:
    """Takes a step on every batch and returns the mean loss over all nodes, 0 if there are none."""
    total, count = 0.0, 0
    for ego in batches:
        total += step(ego) * len(ego.targets)
        count += len(ego.targets)
    return total / max(1, count)


def descend(
    parameters: Sequence[Tensor], gradients: Sequence[Tensor], rate: float, decay: float
) -> None:
    """One step of SGD in place, w ← w - rate · (gradient + decay · w).

    The same numbers as ``torch.optim.SGD``, whose first use imports torch's compiler: a second and
    80 MB in each worker, for three lines.
    """
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if decay:
                gradient = gradient.add(parameter, alpha=decay)
            parameter.add_(gradient, alpha=-rate)
