"""Mending a silo's subgraph: computing z̄, the mean embedding of each node's missing neighbours."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from feddep.errors import InputError
from feddep.learning import neighgen
from feddep.learning.expansion import expand, features_from
from feddep.learning.generation import GeneratorTraining, Targets, centred
from feddep.learning.local_gnn import known_embeddings
from feddep.learning.prototypes import Prototypes, find_prototypes
from feddep.learning.silo import Silo
from feddep.models.generator import DeepGenerator
from feddep.models.sage import FusedSage
from feddep.models.span import basis_of
from feddep.models.weights import to_arrays
from feddep.seeding import Seeds

T = TypeVar("T")

Memory = Mapping[str, npt.NDArray[Any]]
"""What a silo remembers between messages."""

GENERATOR = "generator"
MENDING = frozenset(
    ["missing_embeddings", "counts", "basis", "added/links", "added/rows"]
    + [f"added/{name}" for name in ("indptr", "indices", "data")]
)
"""The parts of a silo's memory from which, with its generator, its subgraph can be mended again.

A run keeps those of its best round for predictions. A mender of your own should use these names.
"""

log = logging.getLogger(__name__)

_SOME = np.ones(1)

# Names in Silo.prepared.
_EXPANDED, _TRAINING = "expanded", "generator"


@dataclass(frozen=True, eq=False)
class Mended:
    """What a client trains and scores on in one round.

    Attributes:
        silo: its own, or one whose graph has more nodes.
        missing_embeddings: z̄ of every node, ``(n, d_z)``, for a classifier that takes them.
        basis: ``(k, d_z)``; with it, ``missing_embeddings`` holds coordinates, ``(n, k)``.
        shown: ``(n,)`` the nodes whose z̄ the classifier is trained with in this round; None means
            all of them. It is scored with all.
        in_training: z̄ that the classifier is trained with, where that is another one.
    """

    silo: Silo
    missing_embeddings: Tensor | None = None
    basis: Tensor | None = None
    shown: Tensor | None = None
    in_training: Tensor | None = None

    @property
    def embeddings_in_training(self) -> Tensor | None:
        """z̄ of the nodes that show it, zero for the others."""
        if self.in_training is not None:
            return self.in_training
        if self.missing_embeddings is None or self.shown is None:
            return self.missing_embeddings
        return self.missing_embeddings * self.shown.unsqueeze(1)

    @contextmanager
    def fitting(self, model: FusedSage) -> Iterator[FusedSage]:
        """The classifier that takes these embeddings; what it learns goes back to ``model``."""
        if self.basis is None:
            yield model
            return
        inner = model.within(self.basis)
        yield inner
        model.learn_from(inner, self.basis)


class Mender(Protocol):
    """Computes z̄ of a silo's nodes, or adds neighbours to its graph."""

    def mend(
        self, classifier: FusedSage, silo: Silo, memory: Memory, round: int
    ) -> tuple[Mended, Memory]:
        """The silo mended for this round of averaging, and its memory."""
        ...


@runtime_checkable
class Recalling(Protocol):
    """A mender that can mend again after the run, from what :func:`mending_of` kept."""

    def recall(self, silo: Silo, memory: Memory) -> Mended:
        """The silo mended as in the round that the memory is from."""
        ...

    def mend_another(self, silo: Silo, memory: Memory) -> Mended:
        """The silo mended, with a graph that is not the one in the memory.

        Raises:
            InputError: the memory says nothing about other graphs.
        """
        ...


def mending_of(memory: Memory) -> dict[str, npt.NDArray[Any]]:
    """What is needed to mend the silo's subgraph again in the same way, and its generator."""
    return {
        name: array
        for name, array in memory.items()
        if name in MENDING or name.startswith(f"{GENERATOR}/")
    }


@dataclass(frozen=True)
class GeneratedNeighbours:
    """Neighbours that the silo's own DGen generates, anew every few rounds.

    Before they are generated anew, DGen takes a joint step with the current classifier, so that
    Lⁿ + Lᶜ is minimised over both in turn.
    """

    def mend(
        self, classifier: FusedSage, silo: Silo, memory: Memory, round: int
    ) -> tuple[Mended, Memory]:
        """See :class:`Mender`."""
        spec = silo.spec.generator
        if round % spec.refresh == 0 or "missing_embeddings" not in memory:
            seeds = silo.seeds.child("mending", round)
            memory = with_prototypes(silo, memory)
            training = generator_training(silo, memory)
            known = _parts(memory, GENERATOR)
            generator = training.generator(known) if known else pretrained(training)[0]
            targets = targets_of(training, memory)
            training.joint_step(generator, classifier, seeds.child("joint"), targets)
            missing, counts = training.mend(generator, seeds)
            weights = {f"{GENERATOR}/{name}": a for name, a in to_arrays(generator).items()}
            if memory.get("missing_embeddings", _SOME).any():  # said once
                warn_if_dead(silo, weights, generated=bool(missing.any()))
            kept = {name: a for name, a in memory.items() if name != "basis"}
            memory = {**kept, **weights, "counts": counts, **_in_few_columns(missing, silo, seeds)}
        drawn = silo.seeds.child("mending", round).stream("shown").random(silo.graph.nodes)
        shown = torch.from_numpy(drawn < spec.shown).to(silo.device)
        return replace(self.recall(silo, memory), shown=shown), memory

    def recall(self, silo: Silo, memory: Memory) -> Mended:
        """See :class:`Recalling`."""
        basis = None
        if "basis" in memory:
            basis = torch.tensor(memory["basis"], device=silo.device)
        missing = torch.tensor(memory["missing_embeddings"], device=silo.device)
        return Mended(silo, missing, basis)

    def mend_another(self, silo: Silo, memory: Memory) -> Mended:
        """See :class:`Recalling`: the silo's DGen generates for the other graph."""
        training = _without_targets(silo)
        generator = training.generator(_parts(memory, GENERATOR))
        missing, _ = training.mend(generator, silo.seeds.child("prediction"))
        return Mended(silo, torch.tensor(missing, device=silo.device))


def warn_if_dead(silo: Silo, weights: Memory, *, generated: bool) -> None:
    """Says so where a generator generates nothing: F then learns as if there were none."""
    finite = all(np.isfinite(array).all() for array in weights.values())
    if finite and generated:
        return
    log.warning(
        "client %d: its generator %s, so its subgraph stays as it is; lower "
        "generator.learning_rate (it is %g) or raise generator.keep (it is %g)",
        silo.client,
        "generates no neighbour at all" if finite else "has run away: its weights are no numbers",
        silo.spec.generator.learning_rate,
        silo.spec.generator.keep,
    )


def _in_few_columns(missing: npt.NDArray[np.float32], silo: Silo, seeds: Seeds) -> Memory:
    """z̄ as coordinates in a basis if that is much shorter, otherwise as it is."""
    basis = None
    if silo.spec.training.weight_decay == 0:  # decay would shrink what no basis reaches
        basis = basis_of(missing, seeds.integer("span") % 2**32)
    return (
        {"missing_embeddings": missing}
        if basis is None
        else {"missing_embeddings": missing @ basis.T, "basis": basis}
    )


@dataclass(frozen=True)
class KnownNeighbours:
    """Neighbours that the silo received once; their mean is kept in its memory.

    A silo that was away at that time has z̄ = 0, as at the paper's inference.
    """

    def mend(
        self, classifier: FusedSage, silo: Silo, memory: Memory, round: int
    ) -> tuple[Mended, Memory]:
        """See :class:`Mender`."""
        return self.recall(silo, memory), memory

    def recall(self, silo: Silo, memory: Memory) -> Mended:
        """See :class:`Recalling`."""
        if "missing_embeddings" not in memory:
            nothing = torch.zeros(silo.graph.nodes, silo.spec.embedding_width)
            return Mended(silo, nothing.to(silo.device))
        return Mended(silo, torch.tensor(memory["missing_embeddings"], device=silo.device))

    def mend_another(self, silo: Silo, memory: Memory) -> Mended:
        """See :class:`Recalling`: nothing is known about other nodes."""
        raise unknown_neighbours(silo)


@dataclass(frozen=True)
class AddedNodes:
    """Neighbours that are kept in the silo's memory as nodes, with features and links.

    A silo that was away when they were sent has only its own nodes.
    """

    def mend(
        self, classifier: FusedSage, silo: Silo, memory: Memory, round: int
    ) -> tuple[Mended, Memory]:
        """See :class:`Mender`."""
        return self.recall(silo, memory), memory

    def recall(self, silo: Silo, memory: Memory) -> Mended:
        """See :class:`Recalling`."""
        if "added/links" not in memory:
            return Mended(silo)
        added = _parts(memory, "added")

        def expanded() -> Silo:
            features = features_from(added, silo.graph.feature_count)
            return replace(silo, graph=expand(silo.graph, memory["added/links"], features))

        return Mended(prepared(silo, _EXPANDED, added, expanded))

    def mend_another(self, silo: Silo, memory: Memory) -> Mended:
        """See :class:`Recalling`: NeighGen generates them, if the nodes came from it."""
        known = _parts(memory, GENERATOR)
        if not known:
            raise unknown_neighbours(silo)
        training = _without_targets(silo)
        seeds = silo.seeds.child("prediction")
        links, features = neighgen.generate(training, training.generator(known), seeds)
        return Mended(replace(silo, graph=expand(silo.graph, links, features)))


def _without_targets(silo: Silo) -> GeneratorTraining:
    """A trained generator for mending a graph; it needs no targets."""
    nothing = np.zeros((0, silo.spec.embedding_width), np.float32)
    return GeneratorTraining(silo, Prototypes(nothing, np.zeros(0, np.int64)))


def unknown_neighbours(silo: Silo) -> InputError:
    """The error of a mender that knows neighbours of one graph and is given another."""
    return InputError(
        f"the missing neighbours are known for the graph that client {silo.client} was trained on, "
        f"and this is another one ({silo.graph.nodes} nodes, {silo.graph.edges} edges); give that "
        "graph, or leave out the client to predict without missing neighbours"
    )


def with_prototypes(silo: Silo, memory: Memory) -> Memory:
    """The memory with clusters of the embeddings, if it has none yet.

    The same seed gives the same clusters, so a silo that was away when the others computed theirs
    still gets those that it would have had.
    """
    if "prototypes" in memory:
        return memory
    seed, embeddings = silo.seeds.integer("prototypes"), known_embeddings(silo, memory)
    found = find_prototypes(embeddings, silo.spec.embedding, seed)
    memory = _in_place_of_embeddings(memory, found)
    # Features are there anyway; other embeddings are kept for whoever compares with them.
    return {**memory, "embeddings": embeddings} if silo.spec.embedding.depth else memory


def with_nodes_as_prototypes(silo: Silo, memory: Memory) -> Memory:
    """The same with each node as a cluster of its own, for what never leaves the silo."""
    if "prototypes" in memory and "embeddings" not in memory:
        return memory
    embeddings = known_embeddings(silo, memory)
    return _in_place_of_embeddings(memory, Prototypes(embeddings, np.arange(len(embeddings))))


def _in_place_of_embeddings(memory: Memory, found: Prototypes) -> Memory:
    kept = {name: array for name, array in memory.items() if name != "embeddings"}
    return {**kept, "prototypes": found.centres, "cluster": found.cluster}


def pretrained(training: GeneratorTraining) -> tuple[DeepGenerator, float]:
    """A new DGen trained on the silo's impaired graph alone, and its mean loss."""
    silo, generator = training.silo, training.generator()
    loss = training.pretrain(generator, silo.seeds.child("generator"), silo.spec.generator.epochs)
    return generator, loss


def generator_training(silo: Silo, memory: Memory) -> GeneratorTraining:
    """The silo's generator with its ground truth, prepared once and cached with the silo.

    It can be recomputed from the silo and its memory, so a client in a new process gets the same.
    """
    foreign = _parts(memory, "foreign")
    own = {name: memory[name] for name in ("prototypes", "cluster")}

    def training() -> GeneratorTraining:
        prototypes = Prototypes(own["prototypes"], own["cluster"])
        return GeneratorTraining(silo, prototypes, list(foreign.values()))

    return prepared(silo, _TRAINING, own | foreign, training)


def forget_generator_training(silo: Silo) -> None:
    """Frees the memory once a generator has done its work."""
    silo.prepared.pop(_TRAINING, None)


def mean_of(
    nodes: npt.NDArray[np.int64], neighbours: npt.NDArray[np.float32], silo: Silo
) -> npt.NDArray[np.float32]:
    """z̄ of every node from known neighbours, one row for each entry of ``nodes``."""
    total = np.zeros((silo.graph.nodes, neighbours.shape[1]), np.float32)
    np.add.at(total, nodes, neighbours)
    count = np.bincount(nodes, minlength=silo.graph.nodes)
    missing = (total / np.maximum(count, 1)[:, None]).astype(np.float32)
    return centred(missing) if silo.spec.generator.centred else missing


def count_of(nodes: npt.NDArray[np.int64], silo: Silo) -> npt.NDArray[np.float32]:
    """How many neighbours of each node are known, one for each entry of ``nodes``."""
    return np.bincount(nodes, minlength=silo.graph.nodes).astype(np.float32)


def targets_of(training: GeneratorTraining, memory: Memory) -> Targets:
    """What DGen should generate, with the pull of the other silos if they were asked."""
    if "pulled" not in memory:
        return training.targets
    pulled = torch.tensor(memory["pulled"], device=training.silo.device)
    return replace(training.targets, pulled=pulled, pulls=int(memory["pulls"]))


def prepared(silo: Silo, name: str, of: Memory, make: Callable[[], T]) -> T:
    """A cached value computed from these arrays, recomputed if they have changed.

    Arrays are compared by content: between machines, the memory is read anew for each message.
    """
    known: tuple[Memory, T] | None = silo.prepared.get(name)
    if known is None or not _equal(known[0], of):
        known = of, make()
        silo.prepared[name] = known
    return known[1]


def _equal(one: Memory, other: Memory) -> bool:
    return one.keys() == other.keys() and all(
        one[name] is other[name] or np.array_equal(one[name], other[name]) for name in one
    )


def _parts(memory: Memory, group: str) -> dict[str, npt.NDArray[np.float32]]:
    prefix = group + "/"
    return {name.removeprefix(prefix): a for name, a in memory.items() if name.startswith(prefix)}
