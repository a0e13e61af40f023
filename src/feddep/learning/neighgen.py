"""The parts of NeighGen's training across silos: what is shared, compared and generated."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, smooth_l1_loss

from feddep.graph.graph import Features, Part
from feddep.graph.sampling import EgoGraphs
from feddep.learning.expansion import stacked
from feddep.learning.generation import GeneratorTraining, distance_scales
from feddep.learning.mended_batch import mended_batch
from feddep.learning.spec import LearningSpec
from feddep.models.dropout import DropoutStream
from feddep.models.generator import HEAD, DeepGenerator, GeneratorSpec, rows_at, select
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage
from feddep.seeding import Seeds

Arrays = Mapping[str, npt.NDArray[Any]]


def head_shapes(spec: LearningSpec) -> dict[str, tuple[int, ...]]:
    """The shapes of a generator's weights that other clients need in order to generate."""
    with torch.device("meta"):  # shapes without numbers
        width = spec.embedding_width
        generator = DeepGenerator(spec.model, spec.generator, spec.features, width)
    return {name: tuple(weight.shape) for name, weight in generator.head.items()}


@dataclass(frozen=True, eq=False)
class NeighGen:
    """A generator, and the silo's own classifier that it is trained with and that stays there.

    Zhang et al. 2021 train both on λᵈ Lᵈ + λᶠ Lᶠ + λᶜ Lᶜ over the nodes V̄ that remain after hiding:
    Lᵈ and Lᶠ are the first two terms of Lⁿ, and with ŷ_v the classifier's scores of v where v's
    generated neighbours are nodes of the impaired graph,

        Lᶜ = mean over training nodes v in V̄ of cross-entropy(ŷ_v, y_v),

    whose gradient reaches the generator through the generated features.
    """

    training: GeneratorTraining
    generator: DeepGenerator
    classifier: FusedSage

    def train(self, seeds: Seeds, epochs: int) -> float:
        """Minimises the three terms over the impaired graph; returns their mean sum."""
        training, spec = self.training, self.generator.spec
        noise = seeds.stream("noise")
        share = training.silo.spec.model.dropout
        dropout = DropoutStream(share, seeds.integer("dropout"))

        def loss(ego: EgoGraphs) -> Tensor:
            nodes = torch.from_numpy(ego.targets).to(training.silo.device)
            targets, is_learnt = training.targets.of(nodes), self._is_learnt[nodes]
            inputs, degree = self.generator.encode(training.table, ego, noise)
            # Rows are as wide as the features, so those that do not count are not generated.
            counts = targets.has_hidden.any(dim=1, keepdim=True) | is_learnt.unsqueeze(1)
            kept = select(degree, spec, noise).bool() & counts
            rows, places = rows_at(self.generator.head, inputs, kept)
            owners = places // spec.slots
            wrong = smooth_l1_loss(degree, targets.missing_degree, reduction="sum")
            scale, _ = distance_scales(spec, rows.shape[1], 1)
            own = _to_hidden(rows, targets.has_hidden[owners], training.silo.graph.features)
            total = (spec.degree_weight * wrong + spec.own_weight * scale * own) / len(inputs)
            batch = mended_batch(ego, training.table, self._degrees(ego), owners, rows)
            scores = self.classifier(batch, batch.ego, None, dropout)
            return total + spec.class_weight * _mean_cross_entropy(
                scores[is_learnt], self._labels[nodes[is_learnt]]
            )

        both = nn.ModuleList([self.generator, self.classifier])
        return training.minimise(loss, both, seeds, epochs)

    @cached_property
    def _is_learnt(self) -> Tensor:
        """``(m,)`` the training nodes of the impaired graph; without Lᶜ none counts."""
        graph = self.training.impaired.graph
        chosen = graph.mask(Part.TRAIN) & (self.generator.spec.class_weight > 0)
        return torch.from_numpy(chosen).to(self.training.silo.device)

    @cached_property
    def _labels(self) -> Tensor:
        return torch.tensor(self.training.impaired.graph.labels, device=self.training.silo.device)

    def _degrees(self, ego: EgoGraphs) -> npt.NDArray[np.int64]:
        return self.training.impaired.graph.degrees[ego.targets]


def _mean_cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """0 where there is no label; the mean of nothing would be no number."""
    return cross_entropy(scores, labels, reduction="sum") / max(1, len(labels))


def _to_hidden(rows: Tensor, of_rows: Tensor, features: Features) -> Tensor:
    """Σ ‖row − the nearest of its node's hidden neighbours‖², over the rows that have any.

    Args:
        rows: ``(k, d)``.
        of_rows: ``(k, n)`` which of the silo's nodes are hidden neighbours.
        features: of the n nodes.
    """
    is_own = of_rows.cpu().numpy()  # each node is a cluster of its own
    some = is_own.any(axis=1)
    hidden = np.flatnonzero(is_own.any(axis=0))
    chosen = rows if some.all() else rows[torch.from_numpy(some).to(rows.device)]
    nearest = _nearest(chosen, features[hidden], is_own[some][:, hidden])
    return (chosen - nearest).square().sum()


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
