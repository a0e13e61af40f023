"""Training DGen: the cross-subgraph prototype reconstruction loss Lⁿ, alone and jointly with F.

Source: the paper's section 3.2. For silo i, over the nodes v that remain after hiding,

    Lⁿᵢ = 1/|V̄ᵢ| Σ_v [ βᵈ smoothL1(ñ_v − n_v)
                       + βᶠ Σ_p min over prototypes z' of v's hidden neighbours ‖z̃ᵖ_v − z'‖²
                       + βⁿ Σ_{j≠i} Σ_p min over z' in Z'_j ‖z̃ᵖ_v − z'‖² ],

p over the kept rows. A node without hidden neighbours adds nothing to the second term. Unless
``generator.distances`` is ``summed``, squared distances are divided by √d_z and the third term by
M − 1; :class:`~feddep.models.generator.GeneratorSpec` says why.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, smooth_l1_loss

from feddep.graph.graph import Graph, Part
from feddep.graph.impair import Impaired, impair
from feddep.graph.sampling import EgoGraphs, NeighbourSampler
from feddep.learning.prototypes import Prototypes, held_once
from feddep.learning.silo import Silo
from feddep.learning.trainer import descend, fit
from feddep.models.generator import DeepGenerator, Generated, GeneratorSpec
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, initialise
from feddep.models.weights import Weights, from_arrays
from feddep.seeding import Seeds

T = TypeVar("T")
Embeddings = TypeVar("Embeddings", Tensor, npt.NDArray[np.float32])

_NODES_AT_ONCE = 1024
_FEW = 256


@dataclass(frozen=True, eq=False)
class Targets:
    """What DGen is to generate.

    Attributes:
        missing_degree: ``(m,)`` n_v of the remaining nodes.
        has_hidden: ``(m, C)`` True where a hidden neighbour of the node is in the cluster.
        own: ``(C, d_z)`` the silo's own prototypes.
        foreign: the other silos' prototypes, ``(C_j, d_z)`` each.
        pulled: ``(m, P, d_z)`` the point that the other silos pull each generated row to, in the
            mean over ``pulls`` silos; it replaces ``foreign`` where there are no prototypes.
        pulls: how many silos pull.
    """

    missing_degree: Tensor
    has_hidden: Tensor
    own: Tensor
    foreign: Sequence[Tensor] = ()
    pulled: Tensor | None = None
    pulls: int = 0

    def of(self, nodes: Tensor) -> "Targets":
        """The targets of some of the remaining nodes."""
        return replace(
            self,
            missing_degree=self.missing_degree[nodes],
            has_hidden=self.has_hidden[nodes],
            pulled=None if self.pulled is None else self.pulled[nodes],
        )


def reconstruction_loss(generated: Generated, targets: Targets, spec: GeneratorSpec) -> Tensor:
    """Lⁿ of the generated neighbours of m nodes, a scalar."""
    nodes, kept = generated.nodes, generated.kept
    rows = generated.rows.view_as(generated.rows)  # gradients of distances add up before the pull's
    degree = smooth_l1_loss(generated.degree, targets.missing_degree, reduction="sum")

    centres, has_hidden = targets.own, targets.has_hidden
    if len(centres) > _FEW:  # nodes rather than prototypes: only those that are hidden here
        needed = has_hidden.any(dim=0)
        needed[0] = True  # there is always one
        centres, has_hidden = centres[needed], has_hidden[:, needed]
    of_rows = has_hidden[nodes]
    nearest = squared_distances(rows, centres).masked_fill(~of_rows, torch.inf).amin(dim=1)
    own = torch.where(of_rows.any(dim=1), nearest, 0.0)

    foreign = torch.zeros_like(own)
    silos = max(1, len(targets.foreign))
    if targets.foreign:
        distances = squared_distances(rows, torch.cat(list(targets.foreign)))
        sizes = [len(centres) for centres in targets.foreign]
        for to_silo in torch.split(distances, sizes, dim=1):
            foreign = foreign + to_silo.amin(dim=1)
    if targets.pulled is not None:
        pulled = targets.pulled.flatten(0, 1)[generated.places]
        silos = max(1, targets.pulls)
        foreign = targets.pulls * (generated.rows - pulled).square().sum(dim=1)

    per_row, per_silo = distance_scales(spec, rows.shape[1], silos)
    total = (
        spec.degree_weight * degree
        + spec.own_weight * per_row * (own * kept).sum()
        + spec.foreign_weight * per_row * per_silo * (foreign * kept).sum()
    )
    return total / len(generated.degree)


def distance_scales(spec: GeneratorSpec, width: int, silos: int) -> tuple[float, float]:
    """What squared distances are multiplied by, and besides those to other silos' prototypes."""
    if spec.distances == "summed":
        return 1.0, 1.0
    return (1 / width if spec.distances == "mean" else width**-0.5), 1 / silos


def centred(missing: Embeddings) -> Embeddings:
    """Embeddings minus their mean over the nodes; nodes without any stay at zero.

    A node without generated neighbours then looks like an average one to F, and so does every
    node at the paper's inference, z̄ = 0.
    """
    has_any: Any = missing.any(1)  # both kinds of array know these three methods
    if not has_any.any():
        return missing
    found: Embeddings = (missing - missing[has_any].mean(0)) * has_any[:, None]
    return found


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """‖aᵢ − bⱼ‖² as aᵢ² + bⱼ² − 2 aᵢ·bⱼ: one matrix product, ``(m, d), (n, d)`` → ``(m, n)``."""
    squares = (a * a).sum(dim=1, keepdim=True) + (b * b).sum(dim=1)
    return torch.addmm(squares, a, b.T, alpha=-2).clamp(min=0)


@dataclass(frozen=True, eq=False)
class GeneratorTraining:
    """One silo's DGen with its ground truth.

    Attributes:
        silo: whose graph is impaired and mended.
        prototypes: of the silo's own embeddings.
        foreign: prototypes of the other silos.
    """

    silo: Silo
    prototypes: Prototypes
    foreign: Sequence[npt.NDArray[np.float32]] = ()

    @cached_property
    def impaired(self) -> Impaired:
        """The silo's graph with some nodes hidden; always the same ones."""
        graph, spec = self.silo.graph, self.silo.spec.generator
        pool = graph.members(Part.VAL) if spec.pool == "val" else np.arange(graph.nodes)
        return impair(graph, pool, spec.impaired_share, self.silo.seeds.stream("impair"))

    @cached_property
    def targets(self) -> Targets:
        """What the remaining nodes miss, as clusters of the hidden ones."""
        impaired, device = self.impaired, self.silo.device
        has_hidden = np.zeros((len(impaired.remaining), len(self.prototypes.centres)), bool)
        owner = np.repeat(np.arange(len(impaired.remaining)), impaired.missing_degree)
        has_hidden[owner, self.prototypes.cluster[impaired.hidden]] = True
        return Targets(
            torch.tensor(impaired.missing_degree, dtype=torch.float32, device=device),
            torch.tensor(has_hidden, device=device),
            torch.tensor(self.prototypes.centres, device=device),
            [torch.from_numpy(held_once(centres)).to(device) for centres in self.foreign],
        )

    @cached_property
    def table(self) -> FeatureTable:
        """The features of the impaired graph."""
        return FeatureTable(self.impaired.graph.features, self.silo.device)

    def generator(self, weights: Weights | None = None) -> DeepGenerator:
        """DGen with the given weights, or with initial ones that all silos share.

        ñ starts at the silo's mean missing degree: from 0 the ReLU might never become active.
        """
        spec = self.silo.spec
        model = DeepGenerator(spec.model, spec.generator, spec.features, spec.embedding_width)
        if weights is None:
            initialise(model, Seeds(spec.seed).child("generator"))
            with torch.no_grad():
                model.degree_bias.fill_(self.targets.missing_degree.mean())
        else:
            from_arrays(model, weights)
        return model.to(self.silo.device)

    def pretrain(
        self, generator: DeepGenerator, seeds: Seeds, epochs: int, targets: Targets | None = None
    ) -> float:
        """Minimises Lⁿ over the impaired graph; returns the mean loss."""
        noise = seeds.stream("noise")
        return self.minimise(
            lambda ego: self._loss(generator, ego, noise, targets), generator, seeds, epochs
        )

    def minimise(
        self,
        loss: Callable[[EgoGraphs], Tensor],
        model: nn.Module,
        seeds: Seeds,
        epochs: int,
    ) -> float:
        """Minimises a loss over batches of the impaired graph; returns its mean."""
        spec = self.silo.spec.generator
        nodes = np.arange(self.impaired.graph.nodes)
        sampler = self._sampler(self.impaired.graph)
        batches = sampler.batches(nodes, spec.batch_size, seeds.stream("sampling"), epochs)
        return fit(model, batches, loss, spec.learning_rate)

    def generate(self, generator: DeepGenerator, seeds: Seeds) -> npt.NDArray[np.float32]:
        """z̃ of every remaining node of the impaired graph, ``(m, P, d_z)``."""
        every = partial(generator, every=True)
        found = self._everywhere(every, self.impaired.graph, self.table, seeds)
        rows = np.concatenate([generated.rows.cpu().numpy() for _, generated in found])
        return rows.reshape(-1, generator.spec.slots, generator.embedding)

    def sample(self, count: int, seeds: Seeds) -> EgoGraphs:
        """Ego-graphs of some remaining nodes of the impaired graph."""
        rng = seeds.stream("sampling")
        nodes = rng.permutation(self.impaired.graph.nodes)[:count]
        return self._sampler(self.impaired.graph).sample(nodes, rng)

    def joint_step(
        self,
        generator: DeepGenerator,
        classifier: FusedSage,
        seeds: Seeds,
        targets: Targets | None = None,
    ) -> None:
        """Some steps of DGen on Lⁿ + Lᶜ: F's gradient reaches DGen through z̄.

        z̄ is centred as F knows it, but over the nodes around the batch, not all of the silo's.

        F itself is not changed here. It minimises Lᶜ in its own epoch, so all methods take the
        same number of steps on F.
        """
        training, silo = self.silo.spec.training, self.silo
        noise, sampling = seeds.stream("noise"), seeds.stream("sampling")
        everywhere, impaired = self._sampler(silo.graph), self._sampler(self.impaired.graph)
        parameters = list(generator.parameters())
        nodes = silo.graph.members(Part.TRAIN)
        for _ in range(silo.spec.generator.joint_batches):
            remaining = sampling.permutation(self.impaired.graph.nodes)[: training.batch_size]
            loss = self._loss(generator, impaired.sample(remaining, sampling), noise, targets)
            if len(nodes):
                chosen = sampling.permutation(nodes)[: training.batch_size]
                batch = everywhere.sample(chosen, sampling)
                around = everywhere.sample(batch.nodes, sampling)
                embeddings = generator(silo.table, around, noise).mean()
                if silo.spec.generator.centred:
                    embeddings = centred(embeddings)
                scores = classifier(silo.table, batch, embeddings)
                loss = loss + cross_entropy(scores, silo.labels[batch.targets])
            gradients = torch.autograd.grad(loss, parameters)
            descend(parameters, gradients, silo.spec.generator.learning_rate, 0.0)

    def mend(
        self, generator: DeepGenerator, seeds: Seeds
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """z̄, ``(n, d_z)``, and ñ, ``(n,)``, of every node of the silo, from sampled neighbours."""
        found = [generated for _, generated in self.generated(generator, seeds)]
        missing = torch.cat([generated.mean() for generated in found]).cpu().numpy()
        if not np.isfinite(missing).all():  # DGen has run away, which need not take F with it
            missing = np.zeros_like(missing)
        if self.silo.spec.generator.centred:
            missing = centred(missing)
        return missing, torch.cat([g.degree for g in found]).cpu().numpy()

    def generated(
        self, generate: Callable[[FeatureTable, EgoGraphs, np.random.Generator], T], seeds: Seeds
    ) -> Iterator[tuple[npt.NDArray[np.int64], T]]:
        """Batches of the silo's nodes and what is generated for them, until all are covered.

        Args:
            generate: a :class:`~feddep.models.generator.DeepGenerator`, or a part of one.
            seeds: streams for noise and sampling.
        """
        return self._everywhere(generate, self.silo.graph, self.silo.table, seeds)

    def _everywhere(
        self,
        generate: Callable[[FeatureTable, EgoGraphs, np.random.Generator], T],
        graph: Graph,
        table: FeatureTable,
        seeds: Seeds,
    ) -> Iterator[tuple[npt.NDArray[np.int64], T]]:
        sampler = self._sampler(graph)
        noise, sampling = seeds.stream("noise"), seeds.stream("sampling")
        for nodes in np.array_split(np.arange(graph.nodes), -(-graph.nodes // _NODES_AT_ONCE)):
            with torch.no_grad():
                found = generate(table, sampler.sample(nodes, sampling), noise)
            yield nodes, found

    def _loss(
        self,
        generator: DeepGenerator,
        ego: EgoGraphs,
        rng: np.random.Generator,
        targets: Targets | None = None,
    ) -> Tensor:
        chosen = torch.from_numpy(ego.targets).to(self.silo.device)
        generated = generator(self.table, ego, rng)
        wanted = (targets or self.targets).of(chosen)
        return reconstruction_loss(generated, wanted, self.silo.spec.generator)

    def _sampler(self, graph: Graph) -> NeighbourSampler:
        spec = self.silo.spec
        return NeighbourSampler(
            graph, spec.training.fanout, spec.model.layers, spec.model.ways(graph)
        )
