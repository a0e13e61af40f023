"""Which labelled nodes are for training, validation and test: 60/20/20, drawn before partitioning.

A split is one array, a :class:`~feddep.graph.graph.Part` for every node of the global graph. Only
labelled nodes take part, n of them; the others stay ``Part.NONE``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Gt, Le

from feddep.errors import InputError, unknown
from feddep.graph.graph import Graph, Part
from feddep.graph.marks import Marks
from feddep.seeding import Seeds

Split = npt.NDArray[np.int8]
Counts = npt.NDArray[np.int64]

# Fractions, because 0.6 times a number can fall just short of the whole number it should be.
TRAIN_SHARE = Fraction(3, 5)
VAL_SHARE = Fraction(1, 5)

# The authors drew this data set 60/20/20 at random where they drew the others by quota.
QUOTA_EXCEPTIONS = frozenset({"msacademic"})


@dataclass(frozen=True, kw_only=True)
class SplitSpec:
    """How a split is drawn.

    Attributes:
        kind: ``stratified`` divides every class 60/20/20, ``random`` all labelled nodes at once,
            ``quota`` repeats the authors' split (which leaves some classes without test nodes);
            ``given`` stands for the split that a graph brings with it.
        by: ``random``; or whole cases, or the order of time, for data that have these marks. Then
            ``kind`` says how nodes of no case are divided, and a node without a time is in no part.
        train: share of the labelled nodes that train. Below 0.6, the others of the 60% are as if
            nobody knew their class; validation and test nodes are the same.
    """

    kind: Literal["stratified", "random", "quota", "given"] = "stratified"
    by: Literal["random", "case", "time"] = "random"
    train: Annotated[float, Gt(0), Le(0.6)] = 0.6


def draw(graph: Graph, spec: SplitSpec, seeds: Seeds) -> Split:
    """A :class:`Part` for every node, ``(n,)``; every class that has nodes has a training node."""
    if spec.kind == "given":
        raise InputError(f"{graph.name} brings no split of its own; use stratified")
    if spec.kind not in KINDS:
        raise unknown("split", spec.kind, KINDS)
    labelled = np.flatnonzero(graph.labels >= 0)
    if len(labelled) == 0:
        raise InputError(f"a split needs labelled nodes (got none in {graph.name!r})")
    split = np.full(graph.nodes, Part.NONE, np.int8)
    split[labelled] = KINDS[spec.kind](graph, graph.labels[labelled], seeds.stream("split"))
    if spec.by != "random":
        split = _BY[spec.by](graph, split, seeds)
    if spec.train < TRAIN_SHARE:
        split = _with_fewer_labels(split, graph.labels, spec.train, seeds.stream("split", "train"))
    _check_every_class_trains(graph, split, spec.kind if spec.by == "random" else f"by {spec.by}")
    return split


def _stratified(graph: Graph, labels: Counts, rng: np.random.Generator) -> Split:
    """60/20/20 in every class, rounded so that round(0.6 n) train and round(0.2 n) validate in all.

    A class that rounding would leave without a training node gets one on top of that total. Only
    classes of a single node can need it.
    """
    sizes = np.bincount(labels, minlength=graph.classes)
    train = np.maximum(_apportion(sizes, round(TRAIN_SHARE * len(labels))), sizes > 0)
    val = _apportion(sizes - train, round(VAL_SHARE * len(labels)))
    rank = _rank_in_class(labels, rng)
    return np.select(
        [rank < train[labels], rank < (train + val)[labels]],
        [np.int8(Part.TRAIN), np.int8(Part.VAL)],
        default=np.int8(Part.TEST),
    )


def _random(graph: Graph, labels: Counts, rng: np.random.Generator) -> Split:
    """round(0.6 n) nodes train and round(0.2 n) validate, whatever their class; the rest test."""
    split = np.full(len(labels), Part.TEST, np.int8)
    shuffled = rng.permutation(len(labels))
    train = round(TRAIN_SHARE * len(labels))
    val = round(VAL_SHARE * len(labels))
    split[shuffled[:train]] = Part.TRAIN
    split[shuffled[train : train + val]] = Part.VAL
    return split


def _quota(graph: Graph, labels: Counts, rng: np.random.Generator) -> Split:
    """The authors' split: equally many training nodes in every class, however large it is.

    floor(0.6 n / classes) nodes of each class train (all, if it has no more); of the others
    round(0.2 n) validate, whatever their class, and the rest test. Cora: 232 a class and 542.
    :data:`QUOTA_EXCEPTIONS` names the data set for which the authors drew at random instead.
    """
    if graph.name in QUOTA_EXCEPTIONS:
        return _random(graph, labels, rng)
    split = np.full(len(labels), Part.TEST, np.int8)
    per_class = int(TRAIN_SHARE * len(labels) / graph.classes)
    trains = _rank_in_class(labels, rng) < per_class
    others = rng.permutation(np.flatnonzero(~trains))
    split[trains] = Part.TRAIN
    split[others[: round(VAL_SHARE * len(labels))]] = Part.VAL
    return split


KINDS: dict[str, Callable[[Graph, Counts, np.random.Generator], Split]] = {
    "stratified": _stratified,
    "random": _random,
    "quota": _quota,
}


def _by_case(graph: Graph, split: Split, seeds: Seeds) -> Split:
    """The split with whole cases in one part, which follows from the case's name and the seed.

    So silos that share a case put it into the same part without a word. A case trains with
    probability 0.6 and validates or tests with 0.2 each.
    """
    case = _marks(graph, "case").case
    names, place = np.unique(case, return_inverse=True)
    drawn = np.array([_level(seeds, name) for name in names.tolist()])
    ends = [float(TRAIN_SHARE), float(TRAIN_SHARE + VAL_SHARE)]
    part = np.array([Part.TRAIN, Part.VAL, Part.TEST], np.int8)[np.searchsorted(ends, drawn)]
    return np.where((case != "") & (graph.labels >= 0), part[place], split)


def _level(seeds: Seeds, case: str) -> float:
    """From 0 to 1, the same for the same name in every silo."""
    return int.from_bytes(seeds.key("split", "case", case)[:8], "big") / 2**64


def _by_time(graph: Graph, split: Split, seeds: Seeds) -> Split:
    """The earliest 60% of a graph's labelled nodes train, the latest 20% test; equal times stay."""
    time = _marks(graph, "time").time
    known = np.flatnonzero((graph.labels >= 0) & ~np.isnan(time))
    earlier = np.searchsorted(np.sort(time[known]), time[known]) / len(known)
    ends = [float(TRAIN_SHARE), float(TRAIN_SHARE + VAL_SHARE)]
    found = np.full(graph.nodes, Part.NONE, np.int8)
    parts = np.array([Part.TRAIN, Part.VAL, Part.TEST], np.int8)
    found[known] = parts[np.searchsorted(ends, earlier, side="right")]
    return found


def _marks(graph: Graph, kind: str) -> Marks:
    if graph.marks is None or kind not in graph.marks.kinds:
        raise InputError(
            f"{graph.name} does not say what {kind} a node is of, so it cannot be split by it; "
            f'name the column with {"case" if kind == "case" else "since"} = "…" in tables.toml'
        )
    return graph.marks


_BY: dict[str, Callable[[Graph, Split, Seeds], Split]] = {"case": _by_case, "time": _by_time}


def _with_fewer_labels(
    split: Split, labels: Counts, share: float, rng: np.random.Generator
) -> Split:
    """Keeps of each class's training nodes what makes them this share of all, rounded up."""
    train = np.flatnonzero(split == Part.TRAIN)
    kept = np.ceil(np.bincount(labels[train]) * (share / float(TRAIN_SHARE)) - 1e-9)
    left = split.copy()
    left[train[_rank_in_class(labels[train], rng) >= kept[labels[train]]]] = Part.NONE
    return left


def _apportion(sizes: Counts, total: int) -> Counts:
    """Divides ``total`` over groups in proportion to their sizes, by largest remainders.

    No group gets more than it has, and each gets size · total / Σ sizes rounded down or up.
    """
    everything = int(sizes.sum())
    if total >= everything:
        return sizes
    whole, remainder = np.divmod(sizes * total, everything)
    left_over = total - int(whole.sum())
    whole[np.argsort(-remainder, kind="stable")[:left_over]] += 1
    return whole


def _rank_in_class(labels: Counts, rng: np.random.Generator) -> Counts:
    """The place, from 0, of every node in a random order of its class."""
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    first = np.cumsum(sizes) - sizes
    rank = np.empty(len(labels), np.int64)
    rank[by_class] = np.arange(len(labels)) - first[labels[by_class]]
    return rank


def _check_every_class_trains(graph: Graph, split: Split, kind: str) -> None:
    present = np.unique(graph.labels[graph.labels >= 0])
    untrained = np.setdiff1d(present, graph.labels[split == Part.TRAIN])
    if len(untrained):
        raise InputError(
            f"the {kind} split leaves class {untrained[0]} of {graph.name!r} without a training "
            f"node ({len(untrained)} such classes in all); use the stratified split"
        )
