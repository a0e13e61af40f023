"""What silos tell each other about linked nodes in the course of training, and what becomes of it.

A *talk* is said by the silo that has a node and heard by those that have a link to it. What is
heard becomes z̄ of the receiver's nodes, or nodes beside its own.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from feddep.graph.graph import Features, Part
from feddep.learning.evaluation import predict
from feddep.learning.expansion import features_to
from feddep.learning.link_codes import (
    CodePart,
    cells_of,
    code_of,
    columns_of,
    likelihoods,
    posteriors,
    prior_of,
)
from feddep.learning.link_rows import Counterparties
from feddep.learning.mending import KnownNeighbours, Memory, Mended, count_of, mean_of
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.sage import FusedSage
from feddep.models.weights import to_arrays
from feddep.privacy.events import LinkAnswers
from feddep.privacy.permanent_response import permanent_response

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

COLUMNS = "heard/columns"
"""In a silo's memory: what it heard about its nodes' counterparties, a row for each node."""

_SAID = "counterparties/"
_TYPICAL = 64  # features by which a class is shown; a row of all would fill the memory


class LinkTalk(Protocol):
    """What silos tell each other about linked nodes, before some rounds of training."""

    @property
    def dtype(self) -> str:
        """The type of the numbers that travel."""
        ...

    def exchanges(self, spec: LearningSpec) -> list[int]:
        """The rounds of training before which silos talk."""
        ...

    def width(self, spec: LearningSpec) -> int:
        """How many numbers are told about a node."""
        ...

    def event(self, spec: LearningSpec, phase: str) -> LinkAnswers:
        """What it costs a node of the silo that talks."""
        ...

    def said(self, model: FusedSage, mended: Mended, silo: Silo, release: int) -> npt.NDArray[Any]:
        """``(n, width)`` what a silo says about each of its nodes, if it is linked.

        Args:
            model: the current classifier.
            mended: the silo's own subgraph.
            silo: who talks.
            release: the place, from 0, of this exchange among those of the run.
        """
        ...

    def heard(self, found: Counterparties, silo: Silo, memory: Memory) -> Memory:
        """The memory of a silo with what others told it."""
        ...


@dataclass(frozen=True)
class Codes:
    """Codes under randomised response, of which a receiver makes columns: mean, counts, number."""

    dtype: ClassVar[str] = "uint16"

    def exchanges(self, spec: LearningSpec) -> list[int]:
        """See :class:`LinkTalk`."""
        return spec.links.exchanges(spec.training.rounds)

    def width(self, spec: LearningSpec) -> int:
        """See :class:`LinkTalk`."""
        return len(spec.links.parts(spec.classes))

    def event(self, spec: LearningSpec, phase: str) -> LinkAnswers:
        """See :class:`LinkTalk`."""
        links = spec.links
        epsilon = None if links.noise == "none" else links.epsilon
        return LinkAnswers(phase, links.in_words, epsilon=epsilon, of=links.shows)

    def said(self, model: FusedSage, mended: Mended, silo: Silo, release: int) -> npt.NDArray[Any]:
        """Only training nodes are confirmed: the class of any other is the classifier's guess.

        What is confirmed is answered alike in every run. What may change from one release to the
        next has noise of its own in each, or two answers that differ would prove that it changed,
        whatever ε; and in silos with a secret, for each classifier.
        """
        spec, graph = silo.spec.links, silo.graph
        confirmed = graph.mask(Part.TRAIN)
        scores = predict(model, mended.silo.graph, mended.silo.table, mended.missing_embeddings)
        probabilities = torch.softmax(scores[: graph.nodes].double(), dim=1).cpu().numpy()
        answers = []
        for part in spec.parts(silo.spec.classes):
            if part.kind == "features":
                code = cells_of(graph.features, part.values)
            else:
                code = code_of(part, graph.labels, confirmed, probabilities)
            epsilon = spec.epsilon_of(part)
            if epsilon is not None:
                lasting = confirmed & np.array(part.kind == "labels") | part.is_lasting
                code = _responses(silo, part, epsilon, code, lasting, model, release)
            answers.append(code)
        return np.stack(answers, axis=1).astype(self.dtype)

    def heard(self, found: Counterparties, silo: Silo, memory: Memory) -> Memory:
        """See :class:`LinkTalk`."""
        memory = with_columns(silo, remembered(found, memory, silo))
        own, _, answered = beliefs_by_link(silo, memory)
        counts = count_of(own[answered], silo)
        return {**memory, "missing_embeddings": memory[COLUMNS], "counts": counts}


@dataclass(frozen=True)
class CodesAsNodes(Codes):
    """Counterparties as ordinary nodes of the graph, each with the features of a typical node.

    The features are the mean over the receiver's own training nodes of the classes that the
    counterparty may have (or over all its own nodes in the cells where that may lie), weighted by
    how likely these are, and cut to the strongest columns.
    """

    def heard(self, found: Counterparties, silo: Silo, memory: Memory) -> Memory:
        """See :class:`LinkTalk`."""
        memory = with_columns(silo, remembered(found, memory, silo))
        believed = beliefs(silo, memory)
        rows = features_to(typical_features(silo, believed[found.answered]))
        added = {"links": links_to_new(found), **rows}
        kept = {name: array for name, array in memory.items() if not name.startswith("added/")}
        return {**kept, **{f"added/{name}": array for name, array in added.items()}}


@dataclass(frozen=True)
class HiddenStates:
    """Hidden states of the current classifier, as they are, every few rounds (FedGraph)."""

    dtype: ClassVar[str] = "float32"

    def exchanges(self, spec: LearningSpec) -> list[int]:
        """See :class:`LinkTalk`."""
        return list(range(0, spec.training.rounds + 1, spec.generator.refresh))

    def width(self, spec: LearningSpec) -> int:
        """See :class:`LinkTalk`."""
        return spec.model.hidden

    def event(self, spec: LearningSpec, phase: str) -> LinkAnswers:
        """See :class:`LinkTalk`."""
        return LinkAnswers(phase, "hidden states of nodes that they have a link to")

    def said(self, model: FusedSage, mended: Mended, silo: Silo, release: int) -> npt.NDArray[Any]:
        """See :class:`LinkTalk`."""
        with torch.no_grad():
            nodes = np.arange(silo.graph.nodes)
            return np.asarray(model.hidden_states(silo.table, silo.graph, nodes).cpu().numpy())

    def heard(self, found: Counterparties, silo: Silo, memory: Memory) -> Memory:
        """See :class:`LinkTalk`."""
        return {**memory, **known_neighbours(found, silo)}


@dataclass(frozen=True)
class HeardColumns(KnownNeighbours):
    """z̄ is what was heard; in training some nodes see only a part of it, if the spec says so."""

    def mend(
        self, classifier: FusedSage, silo: Silo, memory: Memory, round: int
    ) -> tuple[Mended, Memory]:
        """See :class:`~feddep.learning.mending.Mender`."""
        mended, spec = self.recall(silo, memory), silo.spec.links
        no_labels = spec.code in ("scores", "features")
        if not spec.masked or f"{_SAID}links" not in memory or no_labels:
            return mended, memory
        rng, nodes = silo.seeds.child("links", round).stream("masked"), silo.graph.nodes
        own, rows, answered = beliefs_by_link(silo, memory)
        share = np.where(rng.random(nodes) < spec.masked, rng.random(nodes), 0.0)
        rows = _without_labels(silo, rows, rng.random(len(own)) < share[own])
        columns = torch.tensor(columns_of(own, rows, answered, nodes), device=silo.device)
        return replace(mended, in_training=columns), memory


def _responses(
    silo: Silo,
    part: CodePart,
    epsilon: float,
    code: Longs,
    lasting: Bools,
    model: FusedSage,
    release: int,
) -> Longs:
    """The answers of one release; ``lasting`` marks the nodes whose code no classifier changes."""
    question: list[str | int] = ["links", part.kind, part.values, repr(epsilon)]
    if release and not part.is_lasting:
        question += ["release", release]
    ids, key = silo.graph.node_ids, silo.lasting_key(*question)
    answers = permanent_response(code, ids, part.values, epsilon, key)
    if silo.lasting is None:  # a simulation: the seed tells its noise anyway
        return answers
    anew = ~lasting
    asked = hashlib.sha256()
    for name, weights in sorted(to_arrays(model).items()):
        asked.update(f"{name} {weights.shape}".encode() + np.ascontiguousarray(weights).tobytes())
    key = silo.lasting_key(*question, "classifier", asked.hexdigest())
    answers[anew] = permanent_response(code[anew], ids[anew], part.values, epsilon, key)
    return answers


def known_neighbours(found: Counterparties, silo: Silo) -> Memory:
    """z̄ as the mean of rows that were told, and how many there were."""
    told = found.answered[found.other]
    own = found.own[told]
    missing = mean_of(own, found.rows[found.other[told]], silo)
    return {"missing_embeddings": missing, "counts": count_of(own, silo)}


def links_to_new(found: Counterparties) -> Longs:
    """``(L, 2)`` from own nodes to the counterparties that answered, numbered from 0."""
    number = np.cumsum(found.answered) - 1
    told = found.answered[found.other]
    return np.stack([found.own, number[found.other]], axis=1)[told].astype(np.int64)


def remembered(found: Counterparties, memory: Memory, silo: Silo) -> Memory:
    """The memory with what was said, as likelihoods; an earlier answer about a node counts too.

    What was confirmed is said with the same noise each time, so that it tells nothing new.
    """
    spec = silo.spec.links
    parts = spec.parts(silo.spec.classes)
    said = [
        likelihoods(part, found.rows[:, place], spec.epsilon_of(part))
        for place, part in enumerate(parts)
    ]
    rows = np.where(found.answered[:, None], np.hstack(said), 0.0)
    before = memory.get(f"{_SAID}likelihoods")
    if before is not None and len(before) == len(rows):
        same = np.concatenate([np.full(part.values, part.is_lasting) for part in parts])
        known = np.where((before > 0) & ~same, before, 1.0)
        rows = np.where(rows.any(axis=1, keepdims=True), rows * known, before)
    new = {
        "links": np.stack([found.own, found.other], axis=1),
        "peers": found.peer,
        "likelihoods": rows,
        "answers": found.rows.astype(np.int32),
    }
    kept = {name: array for name, array in memory.items() if not name.startswith(_SAID)}
    return {**kept, **{f"{_SAID}{name}": array for name, array in new.items()}}


def with_columns(silo: Silo, memory: Memory) -> Memory:
    """The memory with :func:`~feddep.learning.link_codes.columns_of` all that was heard so far."""
    own, rows, answered = beliefs_by_link(silo, memory)
    return {**memory, COLUMNS: columns_of(own, rows, answered, silo.graph.nodes)}


def beliefs(silo: Silo, memory: Memory) -> Floats:
    """``(U, K)`` how likely each value of each counterparty's codes is."""
    said, peers = memory[f"{_SAID}likelihoods"], memory[f"{_SAID}peers"]
    found, first = [], 0
    for part in silo.spec.links.parts(silo.spec.classes):
        rows = said[:, first : first + part.values]
        found.append(posteriors(rows, peers, prior_of(part, _class_counts(silo))))
        first += part.values
    return np.hstack(found)


def beliefs_by_link(silo: Silo, memory: Memory) -> tuple[Longs, Floats, Bools]:
    """The own node of each link, what is believed of its other end, and whether that answered."""
    own, other = memory[f"{_SAID}links"].T
    answered: Bools = np.any(memory[f"{_SAID}likelihoods"], axis=1)
    return own, beliefs(silo, memory)[other], answered[other]


def typical_features(silo: Silo, believed: Floats) -> Features:
    """``(k, d)`` features of nodes of which only the class or cell is known, and not for sure."""
    graph, part = silo.graph, silo.spec.links.parts(silo.spec.classes)[0]
    if part.kind == "features":
        nodes, weights = np.arange(graph.nodes), believed[:, : part.values]
        groups = cells_of(graph.features, part.values)
    else:
        nodes, weights = graph.members(Part.TRAIN), class_shares(silo, believed)
        groups = graph.labels[nodes]
    counts = np.bincount(groups, minlength=weights.shape[1])[:, None]
    member = sp.csr_array((np.ones(len(nodes)), (groups, nodes)), shape=(len(counts), graph.nodes))
    total = member @ graph.features
    sums = total.toarray() if sp.issparse(total) else np.asarray(total)
    means = (sums + sums.sum(axis=0) / max(1, counts.sum())) / (counts + 1)
    if isinstance(graph.features, np.ndarray):
        return np.asarray((weights @ means).astype(np.float32))
    if means.shape[1] > _TYPICAL:
        size: Floats = np.abs(means)
        size.partition(-_TYPICAL, axis=1)
        means = np.where(np.abs(means) >= size[:, [-_TYPICAL]], means, 0.0)
    rows = sp.csr_array(weights.astype(np.float32)) @ sp.csr_array(means.astype(np.float32))
    return sp.csr_array(rows)


def class_shares(silo: Silo, believed: Floats) -> Floats:
    """``(k, C)`` how likely each class is, given what is believed of the first code.

    Where that is unknown, the receiver's own training nodes tell.
    """
    classes = silo.spec.classes
    part = silo.spec.links.parts(classes)[0]
    rows = believed[:, : part.values]
    if part.kind == "scores":
        return np.asarray(rows.reshape(len(rows), classes, -1).sum(axis=2))
    if part.kind == "labels":
        return rows
    counts = _class_counts(silo)
    own = (counts + 1.0) / (counts.sum() + classes)
    return np.asarray(rows[:, :classes] + rows[:, classes:] * own)


def _class_counts(silo: Silo) -> Longs:
    labels = silo.graph.labels[silo.graph.members(Part.TRAIN)]
    return np.bincount(labels, minlength=silo.spec.classes)


def _without_labels(silo: Silo, rows: Floats, hidden: Bools) -> Floats:
    """The rows with the confirmed classes of some counterparties hidden.

    Where there is a value for it, they are unknown; otherwise nothing is said about them.
    """
    first: CodePart = silo.spec.links.parts(silo.spec.classes)[0]
    found = rows.copy()
    found[hidden, : first.values] = 0.0
    if first.kind == "confirmed":
        found[hidden, first.values - 1] = 1.0
    return found
