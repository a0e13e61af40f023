"""Mending a silo's subgraph with what other silos said about its known counterparties."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from feddep.graph.graph import Features, Part
from feddep.learning.evaluation import predict
from feddep.learning.expansion import expand
from feddep.learning.link_codes import (
    CodePart,
    code_of,
    columns_of,
    likelihoods,
    posteriors,
    prior_of,
)
from feddep.learning.link_rows import Counterparties
from feddep.learning.mending import Memory, Mended, prepared, unknown_neighbours
from feddep.learning.silo import Silo
from feddep.models.sage import FusedSage
from feddep.privacy.permanent_response import permanent_response

Floats = npt.NDArray[np.float64]

_EXPANDED = "with counterparties"
_TYPICAL = 64  # features by which a class is shown; a row of all would fill the memory


def answers_of(model: FusedSage, mended: Mended, silo: Silo) -> npt.NDArray[np.uint16]:
    """``(n, parts)`` what the silo says about each of its nodes, if asked.

    Only training nodes are confirmed: the class of any other is the classifier's guess, whatever
    the silo knows for scoring. A silo's answer about a node is the same in every run, as long as
    what it says is the same.
    """
    spec, graph = silo.spec.links, silo.graph
    scores = predict(model, mended.silo.graph, mended.silo.table, mended.missing_embeddings)
    probabilities = torch.softmax(scores[: graph.nodes].double(), dim=1).cpu().numpy()
    answers = []
    for part in spec.parts(silo.spec.classes):
        code = code_of(part, graph.labels, graph.mask(Part.TRAIN), probabilities)
        epsilon = spec.epsilon_of(part)
        if epsilon is not None:
            key = silo.lasting_key("links", part.kind, part.values, repr(epsilon))
            code = permanent_response(code, graph.node_ids, part.values, epsilon, key)
        answers.append(code)
    return np.stack(answers, axis=1).astype(np.uint16)


def remembered(found: Counterparties, memory: Memory, silo: Silo) -> Memory:
    """The memory with what was said, as likelihoods; an earlier answer about a node counts too.

    A code that says the same as before was drawn by the same noise and tells nothing new.
    """
    spec = silo.spec.links
    parts = spec.parts(silo.spec.classes)
    rows = [
        likelihoods(part, found.rows[:, place], spec.epsilon_of(part))
        for place, part in enumerate(parts)
    ]
    said = np.where(found.answered[:, None], np.hstack(rows), 0.0)
    before = memory.get("counterparties/likelihoods")
    if before is not None and len(before) == len(said):
        again = np.all(memory["counterparties/answers"] == found.rows, axis=1)
        kept = np.where((before > 0) & ~again[:, None], before, 1.0)
        said = np.where(said.any(axis=1, keepdims=True), said * kept, before)
    links = np.stack([found.own, found.other], axis=1)
    new = {"links": links, "peers": found.peer, "likelihoods": said, "answers": found.rows}
    kept_memory = {n: a for n, a in memory.items() if not n.startswith("counterparties/")}
    return {**kept_memory, **{f"counterparties/{name}": array for name, array in new.items()}}


def beliefs(silo: Silo, memory: Memory) -> Floats:
    """``(U, K)`` how likely each value of each counterparty's codes is."""
    said, peers = memory["counterparties/likelihoods"], memory["counterparties/peers"]
    labels = silo.graph.labels[silo.graph.members(Part.TRAIN)]
    counts = np.bincount(labels, minlength=silo.spec.classes)
    found, first = [], 0
    for part in silo.spec.links.parts(silo.spec.classes):
        rows = said[:, first : first + part.values]
        found.append(posteriors(rows, peers, prior_of(part, counts)))
        first += part.values
    return np.hstack(found)


@dataclass(frozen=True)
class CodeColumns:
    """z̄ of a node is what is believed of its counterparties: mean, expected counts, and number."""

    def mend(
        self, classifier: FusedSage, silo: Silo, memory: Memory, round: int
    ) -> tuple[Mended, Memory]:
        """See :class:`~feddep.learning.mending.Mender`."""
        mended = self.recall(silo, memory)
        spec = silo.spec.links
        if not spec.masked or "counterparties/links" not in memory or not _confirms(silo):
            return mended, memory
        rng = silo.seeds.child("links", round).stream("masked")
        own, rows, answered = self._said(silo, memory)
        share = np.where(
            rng.random(silo.graph.nodes) < spec.masked, rng.random(silo.graph.nodes), 0
        )
        hidden = rng.random(len(own)) < share[own]
        columns = columns_of(own, _without_labels(silo, rows, hidden), answered, silo.graph.nodes)
        return replace(mended, in_training=_tensor(columns, silo)), memory

    def recall(self, silo: Silo, memory: Memory) -> Mended:
        """See :class:`~feddep.learning.mending.Recalling`."""
        if "missing_embeddings" in memory:  # of a run that is over
            return Mended(silo, _tensor(memory["missing_embeddings"], silo))
        if "counterparties/links" not in memory:
            nothing = np.zeros((silo.graph.nodes, silo.spec.embedding_width), np.float32)
            return Mended(silo, _tensor(nothing, silo))
        return Mended(silo, _tensor(columns_from(silo, memory), silo))

    def mend_another(self, silo: Silo, memory: Memory) -> Mended:
        """See :class:`~feddep.learning.mending.Recalling`: nobody was asked about other nodes."""
        raise unknown_neighbours(silo)

    @staticmethod
    def _said(silo: Silo, memory: Memory) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        own, other = memory["counterparties/links"].T
        rows = beliefs(silo, memory)[other]
        return own, rows, rows.any(axis=1)


def columns_from(silo: Silo, memory: Memory) -> npt.NDArray[np.float32]:
    """The columns of :func:`~feddep.learning.link_codes.columns_of` for a silo's nodes."""
    own, rows, answered = CodeColumns._said(silo, memory)
    return columns_of(own, rows, answered, silo.graph.nodes)


def _confirms(silo: Silo) -> bool:
    return silo.spec.links.code != "scores"


def _without_labels(silo: Silo, rows: Floats, hidden: npt.NDArray[np.bool_]) -> Floats:
    """The rows with the confirmed classes of some counterparties hidden.

    Where there is a value for it, they are unknown; otherwise nothing is said about them.
    """
    first: CodePart = silo.spec.links.parts(silo.spec.classes)[0]
    found = rows.copy()
    found[hidden, : first.values] = 0.0
    if first.kind == "confirmed":
        found[hidden, first.values - 1] = 1.0
    return found


@dataclass(frozen=True)
class CodedNodes:
    """Counterparties as ordinary nodes of the graph, each with the features of a typical node.

    The features are the mean over the receiver's own training nodes of the classes that the
    counterparty may have, weighted by how likely these are, and cut to the strongest columns.
    """

    def mend(
        self, classifier: FusedSage, silo: Silo, memory: Memory, round: int
    ) -> tuple[Mended, Memory]:
        """See :class:`~feddep.learning.mending.Mender`."""
        return self.recall(silo, memory), memory

    def recall(self, silo: Silo, memory: Memory) -> Mended:
        """See :class:`~feddep.learning.mending.Recalling`."""
        if "counterparties/links" not in memory:
            return Mended(silo)
        about = {n: a for n, a in memory.items() if n.startswith("counterparties/")}

        def expanded() -> Silo:
            believed = beliefs(silo, memory)
            heard = believed.any(axis=1)
            number = np.cumsum(heard) - 1
            own, other = memory["counterparties/links"].T
            links = np.stack([own, number[other]], axis=1)[heard[other]]
            features = _typical_features(silo, believed[heard])
            return replace(silo, graph=expand(silo.graph, links, features))

        return Mended(prepared(silo, _EXPANDED, about, expanded))

    def mend_another(self, silo: Silo, memory: Memory) -> Mended:
        """See :class:`~feddep.learning.mending.Recalling`: nobody was asked about other nodes."""
        raise unknown_neighbours(silo)


def _typical_features(silo: Silo, believed: Floats) -> Features:
    """``(k, d)`` features of nodes of which only the class is known, and not for sure."""
    graph, classes = silo.graph, silo.spec.classes
    training = graph.members(Part.TRAIN)
    member = sp.csr_array(
        (np.ones(len(training)), (graph.labels[training], training)), shape=(classes, graph.nodes)
    )
    total = member @ graph.features
    sums = total.toarray() if sp.issparse(total) else np.asarray(total)
    counts = np.asarray(member.sum(axis=1))[:, None]
    everything = sums.sum(axis=0) / max(1.0, counts.sum())
    means = (sums + everything) / (counts + 1)
    dense = isinstance(graph.features, np.ndarray)
    if not dense and means.shape[1] > _TYPICAL:
        least = -np.partition(-np.abs(means), _TYPICAL - 1, axis=1)[:, _TYPICAL - 1 : _TYPICAL]
        means = np.where(np.abs(means) >= least, means, 0.0)
    weights = class_shares(silo, believed)
    if dense:
        return np.asarray((weights @ means).astype(np.float32))
    rows = sp.csr_array(weights.astype(np.float32)) @ sp.csr_array(means.astype(np.float32))
    return sp.csr_array(rows)


def class_shares(silo: Silo, believed: Floats) -> Floats:
    """``(k, C)`` how likely each class is, given what is believed of the first code.

    Where it is unknown, the receiver's own training nodes tell.
    """
    classes = silo.spec.classes
    part = silo.spec.links.parts(classes)[0]
    rows = believed[:, : part.values]
    if part.kind == "scores":
        return rows.reshape(len(rows), classes, -1).sum(axis=2)
    if part.kind == "labels":
        return rows
    labels = silo.graph.labels[silo.graph.members(Part.TRAIN)]
    own = (np.bincount(labels, minlength=classes) + 1.0) / (len(labels) + classes)
    return np.asarray(rows[:, :classes] + rows[:, classes:] * own)


def _tensor(array: npt.NDArray[np.float32], silo: Silo) -> Tensor:
    return torch.tensor(array, device=silo.device)
