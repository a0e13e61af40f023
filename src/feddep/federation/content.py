"""Kinds of content that a message may carry, each with the names, types, shapes and sizes allowed.

A phase declares, for every step, which group of arrays is of which kind
(:class:`~feddep.federation.phase.Step`). Whoever receives a message checks it against that.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.federation.messages import Arrays, group_of
from feddep.graph.csr import csr_problem

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

Problems = Iterator[str]
"""What is wrong with a message. Only the first problem is ever asked for, so each check may rely
on the ones before it."""

MOST_NEIGHBOURS = 1000  # that a client may receive, for each node of the federation
_LARGEST = 2**53
_BLOCK = 1 << 20  # numbers that are looked at together
_SHOWN = 60


class Count(Enum):
    """A number of rows that does not follow from the spec."""

    NODES = "one for each node of the client"
    SOME_NODES = "at most one for each node of the client"
    ALL_NODES = "at most one for each node of the federation"
    ASKED = "one for each node in ``nodes`` of the request"
    NEIGHBOURS = f"at most {MOST_NEIGHBOURS} for each node of the federation"


class Number(Enum):
    """What a plain number in a reply is."""

    REAL = "finite"
    COUNT = "whole, from 0 to the client's number of nodes"
    SHARE = "from 0 to 1, or none (NaN) if there is nothing to judge"
    LOSS = "a mean cross-entropy from 0 to 20, or none (NaN)"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is known besides the message itself.

    Attributes:
        nodes: number of nodes of the client; None if unknown.
        all_nodes: number of nodes of the federation; None if unknown.
        asked: arrays of the request: the message itself, or the one it answers.
        largest_norm: of a change of weights, and of each row of anything else; None sets no limit.
        largest_weight: of each number in weights, by its absolute value; None sets no limit.
    """

    nodes: int | None = None
    all_nodes: int | None = None
    asked: Arrays = field(default_factory=dict)
    largest_norm: float | None = None
    largest_weight: float | None = None

    def rows(self, count: "int | Count", least: int) -> tuple[int, int]:
        """The smallest and the largest number of rows allowed."""
        if isinstance(count, int):
            return least, count
        if count is Count.ASKED:
            return (np.size(self.asked.get("nodes", ())),) * 2
        if count in (Count.NODES, Count.SOME_NODES) and self.nodes is not None:
            return self.nodes if count is Count.NODES else 0, self.nodes
        most = _LARGEST if self.all_nodes is None else self.all_nodes
        return 0, most * (MOST_NEIGHBOURS if count is Count.NEIGHBOURS else 1)


@dataclass(frozen=True, kw_only=True)
class Content(ABC):
    """One group of arrays in a message.

    Attributes:
        optional: the group may be left out.
    """

    optional: bool = False

    @abstractmethod
    def problems(self, name: str, arrays: Arrays, seen: Seen) -> Problems:
        """What is wrong with a group in a message.

        Args:
            name: of the group.
            arrays: of the group, by full name; finite, and of types that may be sent.
            seen: what else is known.
        """

    def contained(self) -> "Iterator[Content]":
        """This content and everything that it is made of."""
        yield self

    def largest_bytes(self, nodes: int) -> int:
        """The largest size of the group at a client with this many nodes; 0 if unbounded."""
        return 0


@dataclass(frozen=True)
class Rows(Content):
    """One array with a variable number of rows: ``Rows(10, (64,))`` is at most ``(10, 64)``.

    Attributes:
        count: the largest number of rows (at least one is expected), or what determines it.
        axes: exact sizes of the further axes.
        dtype: of the array.
        means_of: each row is a mean over at least this many nodes; 0 makes no statement.
    """

    count: int | Count
    axes: Shape = ()
    dtype: str = "float32"
    means_of: int = 0

    def problems(self, name: str, arrays: Arrays, seen: Seen) -> Problems:  # noqa: D102
        array = yield from _single(name, arrays)
        yield from _type_problems(name, array, self.dtype)
        least, most = seen.rows(self.count, 1)
        rows, *axes = array.shape or (-1,)
        if axes != list(self.axes) or not least <= rows <= most:
            span = f"{least}" if least == most else f"{least} to {most}"
            allowed = ", ".join([span, *map(str, self.axes)])
            yield f"{short(name)} has the shape {array.shape} where ({allowed}) belongs"
        yield from _row_norm_problems(name, array, seen.largest_norm)

    def largest_bytes(self, nodes: int) -> int:  # noqa: D102
        rows = self.count if isinstance(self.count, int) else nodes
        return rows * math.prod(self.axes) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Exactly(Content):
    """One array of one shape."""

    shape: Shape
    dtype: str = "float32"

    def problems(self, name: str, arrays: Arrays, seen: Seen) -> Problems:  # noqa: D102
        array = yield from _single(name, arrays)
        yield from _type_problems(name, array, self.dtype)
        if array.shape != self.shape:
            yield f"{name} has the shape {array.shape} where {self.shape} belongs"
        yield from _row_norm_problems(name, array, seen.largest_norm)

    def largest_bytes(self, nodes: int) -> int:  # noqa: D102
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Weights(Content):
    """Weights of a model, one part for each parameter: ``classifier/bias``, ``classifier/own``, …

    Their norm is that of the change against the array of the same name in the request.

    Attributes:
        shapes: every part with its exact shape.
        complete: no part may be missing.
    """

    shapes: Mapping[str, Shape]
    complete: bool = True

    def problems(self, name: str, arrays: Arrays, seen: Seen) -> Problems:  # noqa: D102
        exact = {f"{name}/{part}": shape for part, shape in self.shapes.items()}
        for full, array in arrays.items():
            if full not in exact:
                yield f"{short(full)} is not a part of {name}"
            yield from _type_problems(full, array, "float32")
            if array.shape != exact[full]:
                yield f"{full} has the shape {array.shape} where {exact[full]} belongs"
        if self.complete and (absent := sorted(exact.keys() - arrays.keys())):
            yield f"{', '.join(absent)} is missing"
        if seen.largest_norm is not None:
            yield from self._norm_problems(name, arrays, seen.asked, seen.largest_norm)
        if seen.largest_weight is not None:
            yield from _weight_problems(arrays, seen.largest_weight)

    def _norm_problems(self, name: str, arrays: Arrays, sent: Arrays, largest: float) -> Problems:
        total = 0.0
        for full, array in arrays.items():
            before = sent.get(full, np.float64(0))
            parts = blocks(np.broadcast_to(before, array.shape))
            for own, old in zip(blocks(array), parts, strict=True):
                with np.errstate(over="ignore"):
                    total += float(((own.astype(np.float64) - old) ** 2).sum())
        if not math.sqrt(total) <= largest:
            yield (
                f"{name} is {math.sqrt(total):.3g} away from what was sent, "
                f"where {largest:g} is allowed"
            )

    def largest_bytes(self, nodes: int) -> int:  # noqa: D102
        return 4 * sum(map(math.prod, self.shapes.values()))


@dataclass(frozen=True)
class Parts(Content):
    """A group whose parts are of several kinds.

    Attributes:
        contents: the kind of every part; none may be missing.
        aligned: parts that must have the same number of rows.
    """

    contents: Mapping[str, Content]
    aligned: Collection[str] = ()

    def contained(self) -> Iterator[Content]:  # noqa: D102
        yield self
        for content in self.contents.values():
            yield from content.contained()

    def problems(self, name: str, arrays: Arrays, seen: Seen) -> Problems:  # noqa: D102
        parts = {f"{name}/{part}": content for part, content in self.contents.items()}
        for full, array in arrays.items():
            if full not in parts:
                yield f"{short(full)} is not a part of {name}"
            yield from parts[full].problems(full, {full: array}, seen)
        if absent := sorted(parts.keys() - arrays.keys()):
            yield f"{', '.join(absent)} is missing"
        if len({len(arrays[f"{name}/{part}"]) for part in self.aligned}) > 1:
            listed = ", ".join(f"{name}/{part}" for part in sorted(self.aligned))
            yield f"{listed} differ in their number of rows"

    def largest_bytes(self, nodes: int) -> int:  # noqa: D102
        return sum(content.largest_bytes(nodes) for content in self.contents.values())


@dataclass(frozen=True)
class ByPeer(Content):
    """The same kind from several other clients: ``foreign/2`` is client 2's."""

    content: Content

    def contained(self) -> Iterator[Content]:  # noqa: D102
        yield self
        yield from self.content.contained()

    def problems(self, name: str, arrays: Arrays, seen: Seen) -> Problems:  # noqa: D102
        peers: dict[str, dict[str, Array]] = {}
        for full, array in arrays.items():
            peer = full.removeprefix(f"{name}/").partition("/")[0]
            if full == name or not (peer.isascii() and peer.isdigit()):
                yield f"{short(full)} names no client"
            peers.setdefault(f"{name}/{peer}", {})[full] = array
        for own, parts in peers.items():
            yield from self.content.problems(own, parts, seen)


@dataclass(frozen=True)
class Nodes(Content):
    """Numbers of the client's own nodes.

    Attributes:
        repeated: a node may be listed several times. Nodes whose rows are asked for may not: a
            short request would have a long answer.
    """

    repeated: bool = False

    def problems(self, name: str, arrays: Arrays, seen: Seen) -> Problems:  # noqa: D102
        array = yield from _single(name, arrays)
        if array.ndim != 1 or not _are_below(array, seen.nodes):
            yield f"{name} does not list nodes of this client"
        if not self.repeated and len(np.unique(array)) < len(array):
            yield f"{name} lists a node twice"


@dataclass(frozen=True)
class Table(Content):
    """Features of nodes: a part ``rows``, or the three parts of a sparse table.

    Attributes:
        count: of its nodes.
        columns: the width of the table.
        linked: it also has a part ``links``, ``(e, 2)``, from own nodes to those in the table.
    """

    count: Count
    columns: int
    linked: bool = False

    def problems(self, name: str, arrays: Arrays, seen: Seen) -> Problems:  # noqa: D102
        parts = {full.removeprefix(f"{name}/"): array for full, array in arrays.items()}
        names = parts.keys() - ({"links"} if self.linked else set())
        if names == {"rows"}:
            rows = parts["rows"]
            right = rows.ndim == 2 and rows.dtype == np.float32 and rows.shape[1] == self.columns
            count = len(np.atleast_1d(rows))
        elif names == {"indptr", "indices", "data"}:
            right = _is_sparse(parts, self.columns)
            count = len(np.atleast_1d(parts["indptr"])) - 1
        else:
            yield f"{name} is neither a dense nor a sparse table"
            return
        if not right:
            yield f"{name} is no table of float32 with {self.columns} columns"
        least, most = seen.rows(self.count, 0)
        if not least <= count <= most:
            expected = f"but {most} were asked for" if least else f"where at most {most} belong"
            yield f"{name} has {count} nodes, {expected}"
        if self.linked and not _are_links(parts.get("links"), seen.nodes, count):
            yield f"{name}/links does not lead from own nodes to the {count} new ones"
        for full, array in arrays.items():
            if array.dtype.kind == "f":
                yield from _row_norm_problems(full, array, seen.largest_norm)


@dataclass(frozen=True)
class Gradients(Content):
    """Answers to arrays of the request, one by one: ``gradients/2`` to ``generated/2``.

    They are optional and not bounded: a third client may have caused long ones, by sending rows
    or weights that are far off; see :func:`~feddep.federation.inspection.without_long_gradients`.

    Attributes:
        of: the parts that have gradients, by their last name; None if all parts do.
    """

    of: Collection[str] | None = None
    optional: bool = True

    def problems(self, name: str, arrays: Arrays, seen: Seen) -> Problems:  # noqa: D102
        for full, array in arrays.items():
            part = full.removeprefix(f"{name}/")
            sent = (a for key, a in seen.asked.items() if key.endswith(f"/{part}"))
            original = next(sent, None)
            if original is None:
                yield f"{short(full)} answers nothing that was sent"
            elif self.of is not None and part.rpartition("/")[2] not in self.of:
                yield f"{short(full)} is no gradient of a weight"
            elif (array.shape, array.dtype) != (original.shape, original.dtype):
                yield (
                    f"{short(full)} has the shape {array.shape} and type {array.dtype} "
                    "where those of what was sent belong"
                )


def content_problems(arrays: Arrays, allowed: Mapping[str, Content], seen: Seen) -> Problems:
    """What is wrong with the arrays of a message that may hold these groups."""
    groups: dict[str, dict[str, Array]] = {}
    for name, array in arrays.items():
        if group_of(name) not in allowed:
            yield f"the array {short(name)} is not declared"
        groups.setdefault(group_of(name), {})[name] = array
    for name, content in allowed.items():
        if name in groups:
            yield from content.problems(name, groups[name], seen)
        elif not content.optional:
            yield f"{name} is missing"


def optional(content: Content) -> Content:
    """The same, but it may be left out."""
    return replace(content, optional=True)


def longest_row(array: Array) -> float:
    """The largest norm along the last axis; in a vector each number is a row of its own."""
    rows = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array
    return max(map(_longest, blocks(rows)), default=0.0)


def _longest(rows: Array) -> float:
    values = rows.astype(np.float64)
    with np.errstate(over="ignore"):
        norms = np.abs(values) if values.ndim < 2 else np.sqrt((values**2).sum(axis=-1))
    return float(norms.max(initial=0.0))


def blocks(array: Array) -> Iterator[Array]:
    """Parts along the first axis, so that a large array is not copied whole to be looked at."""
    if array.ndim == 0:
        yield array
        return
    step = max(1, _BLOCK // max(1, math.prod(array.shape[1:])))
    for start in range(0, len(array), step):
        yield array[start : start + step]


def short(value: object) -> str:
    """A value chosen by a peer, cut to fit one line; a huge number cannot even be printed."""
    try:
        text = repr(value)
    except ValueError:
        return f"a huge {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _single(name: str, arrays: Arrays) -> Generator[str, None, Array]:
    """The group's one array, which has the group's own name."""
    for full in arrays:
        if full != name:
            yield f"{short(full)} is not a part of {name}"
    return arrays[name]


def _type_problems(name: str, array: Array, right: str) -> Problems:
    if array.dtype != right:
        yield f"{short(name)} has the type {array.dtype} where {right} belongs"


def _weight_problems(arrays: Arrays, largest: float) -> Problems:
    for name, array in arrays.items():
        if (size := float(np.abs(array).max(initial=0))) > largest:
            yield (
                f"{name} holds a weight of size {size:.3g} where {largest:g} is allowed: such "
                "weights have diverged, or are there to make a client's numbers overflow"
            )


def _row_norm_problems(name: str, array: Array, largest: float | None) -> Problems:
    if largest is not None and array.dtype.kind == "f" and (norm := longest_row(array)) > largest:
        yield f"{short(name)} has a row of norm {norm:.3g} where {largest:g} is allowed"


def _is_sparse(parts: Arrays, columns: int) -> bool:
    """Whether three arrays are a valid CSR matrix."""
    indptr, indices, data = (parts[name] for name in ("indptr", "indices", "data"))
    return data.dtype == np.float32 and not csr_problem(indptr, indices, data, columns)


def _are_links(links: Array | None, nodes: int | None, new: int) -> bool:
    if links is None or links.ndim != 2 or links.shape[1] != 2:
        return False
    return _are_below(links[:, 0], nodes) and _are_below(links[:, 1], new)


def _are_below(indices: Array, bound: int | None) -> bool:
    """Whether these are whole numbers from 0 to below the bound."""
    if indices.dtype.kind not in "iu":
        return False
    return not indices.size or bool(indices.min() >= 0 and (bound is None or indices.max() < bound))
