"""Codes: the few bits that linked silos tell each other about a node, and how they are read.

A *code* is one of k values, such as a confirmed class. It is sent by randomised response
(:mod:`feddep.privacy.permanent_response`), so a receiver knows only how likely each value is.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from annotated_types import Ge, Gt, Le

from feddep.graph.graph import Features
from feddep.privacy.permanent_response import response_matrix
from feddep.seeding import Seeds

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

_EM_STEPS = 20
_PSEUDO_CODES = 10.0


@dataclass(frozen=True, kw_only=True)
class LinksSpec:
    """What silos tell each other about the nodes that a known link joins.

    Attributes:
        epsilon: ε of all answers about one node together.
        noise: ``randomised-response``, or ``none`` for answers as they are, for which nothing is
            promised.
        code: ``labels``, the confirmed class of a training node and the predicted class of any
            other; ``confirmed``, the class of a training node and "unknown" of any other;
            ``scores``, the predicted class and how sure the classifier is of it; ``both``,
            ``confirmed`` and ``scores`` apart, each with half of ε; ``features``, the cell of the
            node's features (:func:`cells_of`), which no classifier changes.
        planes: how many planes divide the space of features; there are 2 to the power of that
            many cells.
        levels: how many steps of confidence ``scores`` distinguishes.
        round: before which round of training answers are given; a run of fewer than twice as many
            rounds exchanges them halfway.
        refreshes: how often the answers that depend on the classifier are given; they share ε.
        masked: share of the nodes that see only a part of their counterparties' confirmed labels,
            another part in each round of training, so that F learns to do without them.
        one_sided: silos also answer for links that only the silo that asks has in its tables, as
            far as their owners allow.
    """

    epsilon: Annotated[float, Gt(0)] = 4.0
    noise: Literal["randomised-response", "none"] = "randomised-response"
    code: Literal["labels", "confirmed", "scores", "both", "features"] = "labels"
    planes: Annotated[int, Ge(1), Le(8)] = 4
    levels: Annotated[int, Ge(1), Le(16)] = 4
    round: Annotated[int, Ge(0)] = 25
    refreshes: Annotated[int, Ge(1)] = 1
    masked: Annotated[float, Ge(0), Le(1)] = 0.0
    one_sided: bool = False

    @property
    def shows(self) -> Literal["labels", "scores", "labels and scores", "everything"]:
        """What a silo has to consent to."""
        if self.code == "features":
            return "everything"
        if self.code == "confirmed":
            return "labels"
        return "scores" if self.code == "scores" else "labels and scores"

    @property
    def in_words(self) -> str:
        """What linked silos are told."""
        about = "of nodes that they have a link to"
        return {
            "labels": f"the class {about}, confirmed or predicted",
            "confirmed": f"the confirmed class {about}",
            "scores": f"what the classifier predicts {about}",
            "both": f"the confirmed class {about}, and what the classifier predicts",
            "features": f"in which of {2**self.planes} cells the features lie {about}",
        }[self.code]

    def parts(self, classes: int) -> "tuple[CodePart, ...]":
        """The codes of a node, one after the other."""
        scores = CodePart("scores", classes * self.levels)
        return {
            "labels": (CodePart("labels", classes),),
            "confirmed": (CodePart("confirmed", classes + 1),),
            "scores": (scores,),
            "both": (CodePart("confirmed", classes + 1), scores),
            "features": (CodePart("features", 2**self.planes),),
        }[self.code]

    def columns(self, classes: int) -> int:
        """How many columns a receiver makes of the codes, see :func:`columns_of`."""
        values = sum(part.values for part in self.parts(classes))
        return 2 * values + 1

    def releases_of(self, part: "CodePart") -> int:
        """How often a code is sent in a run; what does not change is sent once."""
        return 1 if part.is_lasting else self.refreshes

    def epsilon_of(self, part: "CodePart") -> float | None:
        """ε of one release of a code; None without noise."""
        if self.noise == "none":
            return None
        shares = 2 if self.code == "both" else 1
        return self.epsilon / shares / self.releases_of(part)

    def exchanges(self, rounds: int) -> list[int]:
        """The rounds of training before which answers are given."""
        first = min(self.round, rounds // 2)
        times = 1 if self.code in ("confirmed", "features") else self.refreshes
        return sorted({first + (rounds - first) * time // times for time in range(times)})


@dataclass(frozen=True)
class CodePart:
    """One code of a node.

    Attributes:
        kind: what it says.
        values: k, how many values it has.
    """

    kind: Literal["labels", "confirmed", "scores", "features"]
    values: int

    @property
    def is_lasting(self) -> bool:
        """Whether no classifier changes it, so that it is answered alike every time."""
        return self.kind in ("confirmed", "features")


def cells_of(features: Features, cells: int) -> Longs:
    """``(n,)`` on which side of some planes through 0 the features lie, as a number below cells.

    The planes are random and the same for everybody, whatever the run; so the cell of a node is
    always the same (random hyperplanes, Charikar 2002).
    """
    bits = cells.bit_length() - 1
    planes = (
        Seeds(0)
        .stream("links", "cells", features.shape[1])
        .choice([-1.0, 1.0], (features.shape[1], bits))
    )
    above = np.asarray(features @ planes) > 0
    return np.asarray(above @ (1 << np.arange(bits)))


def code_of(
    part: CodePart, labels: Longs, confirmed: npt.NDArray[np.bool_], probabilities: Floats
) -> Longs:
    """The true values of a code that tells classes, ``(n,)``.

    Args:
        part: which code.
        labels: ``(n,)`` class of each node; only those of confirmed nodes are looked at.
        confirmed: ``(n,)`` the training nodes. Other labels are what is to be predicted.
        probabilities: ``(n, C)`` of the classes by the current classifier.
    """
    classes = probabilities.shape[1]
    predicted = probabilities.argmax(axis=1)
    if part.kind == "scores":
        levels = part.values // classes
        least = 1 / classes
        sure = (probabilities.max(axis=1) - least) / max(1 - least, 1e-9)
        level = np.minimum((sure * levels).astype(np.int64), levels - 1)
        return np.asarray(predicted * levels + level)
    return np.where(confirmed, labels, predicted if part.kind == "labels" else classes)


def prior_of(part: CodePart, class_counts: Longs) -> Floats:
    """What is expected of a code before any is seen, from the receiver's own training nodes."""
    if part.kind == "features":  # about other silos' cells it knows nothing
        return np.full(part.values, 1 / part.values)
    shares = (class_counts + 1.0) / (class_counts.sum() + len(class_counts))
    if part.kind == "labels":
        return np.asarray(shares)
    if part.kind == "confirmed":
        return np.append(shares / 2, 0.5)
    levels = part.values // len(class_counts)
    return np.repeat(shares / levels, levels)


def likelihoods(part: CodePart, answers: npt.NDArray[Any], epsilon: float | None) -> Floats:
    """``(n, k)`` the probability of each answer if the true value were 0 … k - 1.

    An answer that is none of the values says nothing: its row is 0.
    """
    matrix = response_matrix(epsilon, part.values)
    known = answers < part.values
    rows = matrix.T[np.where(known, answers, 0).astype(np.int64)]
    return np.where(known[:, None], rows, 0.0)


def posteriors(rows: Floats, senders: Longs, prior: Floats) -> Floats:
    """``(n, k)`` how likely each value is, given the answer; a row of 0 stays 0.

    A sender's answers are read with shares of the values that are estimated, by EM, from the
    answers of this sender alone and a few made-up ones from ``prior``. So a sender that lies
    changes how its own answers are read and nobody else's.

    Args:
        rows: ``(n, k)`` likelihoods.
        senders: ``(n,)`` who sent each answer.
        prior: ``(k,)`` see :func:`prior_of`.
    """
    if not len(rows):
        return rows
    names, sender = np.unique(senders, return_inverse=True)
    who = sp.csr_array((np.ones(len(rows)), (sender, np.arange(len(rows)))))
    counts = np.asarray(who @ rows.any(axis=1).astype(float))
    shares = np.tile(prior, (len(names), 1))
    found = rows
    for _ in range(_EM_STEPS):
        found = rows * shares[sender]
        found = found / np.maximum(found.sum(axis=1, keepdims=True), 1e-300)
        shares = (who @ found + _PSEUDO_CODES * prior) / (counts + _PSEUDO_CODES)[:, None]
    return found


def columns_of(
    own: Longs, rows: Floats, answered: npt.NDArray[np.bool_], nodes: int
) -> npt.NDArray[np.float32]:
    """What F is told about each node's counterparties, ``(n, 2K + 1)``.

    The mean of their rows, the sum of their rows and how many answered; sums and numbers as
    log(1 + x). Nodes without an answer have zeros.

    Args:
        own: ``(L,)`` the own node of each link.
        rows: ``(L, K)`` posteriors of the counterparty's codes; zeros where one is hidden.
        answered: ``(L,)`` whether the counterparty answered.
        nodes: n.
    """
    here = np.flatnonzero(answered)
    sums = sp.csr_array(
        (np.ones(len(here)), (own[here], np.arange(len(here)))), shape=(nodes, len(here))
    )
    expected = np.asarray(sums @ rows[here])
    count = np.bincount(own[here], minlength=nodes)[:, None]
    mean = expected / np.maximum(count, 1)
    return np.hstack([mean, np.log1p(expected), np.log1p(count)]).astype(np.float32)
