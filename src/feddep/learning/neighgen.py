"""The parts of NeighGen's training across silos: what is shared, compared and generated."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from feddep.graph.graph import Features
from feddep.graph.sampling import EgoGraphs
from feddep.learning.expansion import stacked
from feddep.learning.generation import GeneratorTraining, distance_scales
from feddep.learning.spec import LearningSpec
from feddep.models.generator import HEAD, DeepGenerator, GeneratorSpec, rows_at, select
from feddep.models.kernels import FeatureTable
from feddep.seeding import Seeds

Arrays = Mapping[str, npt.NDArray[Any]]


def head_shapes(spec: LearningSpec) -> dict[str, tuple[int, ...]]:
    """The shapes of a generator's weights that other clients need in order to generate."""
    with torch.device("meta"):  # shapes without numbers
        width = spec.embedding_width
        generator = DeepGenerator(spec.model, spec.generator, spec.features, width)
    return {name: tuple(weight.shape) for name, weight in generator.head.items()}


def train(
    training: GeneratorTraining, generator: DeepGenerator, seeds: Seeds, epochs: int
) -> float:
    """Minimises Lⁿ without the other silos' part of it; returns the mean loss.

    The same loss as :meth:`~feddep.learning.generation.GeneratorTraining.pretrain`; but rows are
    as wide as the features, so those that do not count are not generated.
    """
    spec, noise = generator.spec, seeds.stream("noise")
    features, device = training.silo.graph.features, training.silo.device

    def loss(ego: EgoGraphs) -> Tensor:
        targets = training.targets.of(torch.from_numpy(ego.targets).to(device))
        inputs, degree = generator.encode(training.table, ego, noise)
        counts = select(degree, spec, noise).bool() & targets.has_hidden.any(dim=1, keepdim=True)
        rows, places = rows_at(generator.head, inputs, counts)
        is_own = (
            targets.has_hidden[places // spec.slots].cpu().numpy()
        )  # each node is a cluster of its own
        hidden = np.flatnonzero(is_own.any(axis=0))
        nearest = _nearest(rows, features[hidden], is_own[:, hidden])
        own = (rows - nearest).square().sum()
        wrong = smooth_l1_loss(degree, targets.missing_degree, reduction="sum")
        scale, _ = distance_scales(spec, rows.shape[1], 1)
        return (spec.degree_weight * wrong + spec.own_weight * scale * own) / len(inputs)

    return training.minimise(loss, generator, seeds, epochs)


def shared(training: GeneratorTraining, generator: DeepGenerator, seeds: Seeds) -> Arrays:
    """The generating part, and its inputs for a batch of nodes.

    ``inputs`` are ``(b, h)`` encodings with noise; ``kept``, ``(b, P)``, marks the rows that count.
    """
    ego = training.sample(training.silo.spec.generator.batch_size, seeds)
    with torch.no_grad():
        inputs, degree = generator.encode(training.table, ego, seeds.stream("noise"))
    taken = select(degree, generator.spec, seeds.stream("kept")).bool().cpu()
    head = {name: array.detach().cpu().numpy() for name, array in generator.head.items()}
    return {**head, "inputs": inputs.cpu().numpy(), "kept": taken.numpy()}


def pull(sent: Arrays, features: Features) -> Arrays:
    """The gradient, for another silo's generating part, of the distances to the nearest nodes.

    Args:
        sent: what :func:`shared` gave there.
        features: of this silo's nodes.
    """
    head = {name: torch.tensor(sent[name], requires_grad=True) for name in HEAD}
    rows, _ = rows_at(head, torch.tensor(sent["inputs"]), torch.tensor(sent["kept"]))
    loss = (rows - _nearest(rows, features)).square().sum() / len(sent["inputs"])
    gradients = torch.autograd.grad(loss, list(head.values()))
    return {name: g.numpy() for name, g in zip(head, gradients, strict=True)}


def descend(generator: DeepGenerator, gradients: Arrays, spec: GeneratorSpec) -> None:
    """A step along the other silos' gradients."""
    scale, _ = distance_scales(spec, generator.embedding, 1)
    rate = spec.learning_rate * spec.foreign_weight * scale
    with torch.no_grad():
        for name, gradient in gradients.items():
            parameter: Tensor = getattr(generator, name)
            parameter.sub_(torch.tensor(gradient, device=parameter.device), alpha=rate)


def generate(
    training: GeneratorTraining, generator: DeepGenerator, seeds: Seeds
) -> tuple[npt.NDArray[np.int64], Features]:
    """Links to new nodes and their features, for every node of the silo that misses some.

    Generated features are dense. If the silo's own are sparse, a new node keeps only as many of
    its largest entries as the silo's nodes have on average; otherwise a graph with many columns
    would not fit into memory.
    """
    own = training.silo.graph.features
    entries = None if isinstance(own, np.ndarray) else max(1, round(own.nnz / own.shape[0]))

    def kept(
        table: FeatureTable, ego: EgoGraphs, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.int64], Features]:
        inputs, degree = generator.encode(table, ego, rng)
        wanted = select(degree, generator.spec, rng).bool()
        found, places = rows_at(generator.head, inputs, wanted)
        positions = places // generator.spec.slots
        order = torch.argsort(positions, stable=True)
        rows = found[order].cpu().numpy()
        kept = rows if entries is None else largest_entries(rows, entries)
        return positions[order].cpu().numpy(), kept

    links: list[npt.NDArray[np.int64]] = []
    parts: list[Features] = []
    for nodes, (positions, features) in training.generated(kept, seeds):
        links.append(nodes[positions])
        parts.append(features)
    owners = np.concatenate(links)
    return np.stack([owners, np.arange(len(owners))], axis=1), stacked(parts)


def _nearest(
    rows: Tensor, features: Features, among: npt.NDArray[np.bool_] | None = None
) -> Tensor:
    """For each row the features of the nearest node, ``(k, d)``.

    Args:
        rows: ``(k, d)``.
        features: of n nodes.
        among: ``(k, n)`` which nodes count for a row, at least one; without it all do.
    """
    points = rows.detach().cpu().numpy()
    if not len(points):
        return rows.detach()
    squares = np.asarray((features * features).sum(axis=1)).ravel()
    distances = squares[:, None] - 2 * (features @ points.T)  # up to a constant for each row
    if among is not None:
        distances[~among.T] = np.inf
    chosen = features[distances.argmin(axis=0)]
    dense = chosen if isinstance(chosen, np.ndarray) else chosen.toarray()
    return torch.from_numpy(dense).to(rows.device)


def largest_entries(rows: npt.NDArray[np.float32], entries: int) -> sp.csr_array:
    """Each row's largest entries in absolute value, the rest zero."""
    count = min(entries, rows.shape[1])
    columns = np.sort(np.argpartition(-np.abs(rows), count - 1, axis=1)[:, :count], axis=1)
    values = np.take_along_axis(rows, columns, axis=1)
    indptr = np.arange(len(rows) + 1) * count
    return sp.csr_array((values.ravel(), columns.ravel(), indptr), shape=rows.shape)
