"""Looking at everything that crosses before it is used: peers may be broken, or hostile.

The server inspects replies, so that one client can be left out of a round instead of ending it;
a client inspects requests, since it need not trust the server either. A message that passes has
the names, types, shapes and sizes that the other half of the phase relies on, and holds finite
numbers only. Whether the numbers are *true* nobody can see: against lies there is
:mod:`feddep.federation.aggregation`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.errors import FeddepError
from feddep.federation.messages import Arrays, Reply, Request, group, group_of, payload_bytes

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Steps = Mapping[tuple[str, str], frozenset[str]]

_SCORES = frozenset({"val_correct", "val_total", "test_correct", "test_total"})
_TRAINED = _SCORES | {"loss", "training_nodes"}

ANSWERED_WITH: Steps = {
    ("averaging", "train"): _TRAINED | {"classifier/"},
    ("averaging", "score"): _SCORES,
    ("averaging", "show"): frozenset({"hidden"}),
    ("local_training", "train"): _TRAINED,
    ("prototype_exchange", "release"): frozenset({"prototypes"}),
    ("code_graph", "show"): frozenset({"codes"}),
    ("true_neighbours", "show"): frozenset({"embeddings"}),
    ("neighbour_expansion", "show"): frozenset({"features/"}),
    ("peer_search", "generate"): frozenset({"generated"}),
    ("neighgen", "share"): frozenset({"neighgen/"}),
}
"""What the server half cannot do without, by phase and step; ``name/`` is a group with parts."""

ASKED_WITH: Steps = {
    ("averaging", "train"): frozenset({"classifier/"}),
    ("averaging", "score"): frozenset({"classifier/"}),
    ("averaging", "show"): frozenset({"classifier/", "nodes"}),
    ("averaging", "receive"): frozenset({"nodes", "neighbours"}),
    ("true_neighbours", "show"): frozenset({"nodes"}),
    ("true_neighbours", "receive"): frozenset({"nodes", "neighbours"}),
    ("neighbour_expansion", "show"): frozenset({"nodes"}),
    ("neighbour_expansion", "receive"): frozenset({"added/"}),
}
"""What the client half cannot do without."""

_MIRRORS = "gradients"  # whose arrays answer arrays of the request, one by one
_GRADIENTS_OF = {"neighgen": "neighgen"}
"""For a phase that sends more than weights: the group whose parts are, and so have gradients."""

_TABLES = frozenset({"features", "added"})
"""Groups that hold features of nodes: ``rows``, or the three parts of a sparse table."""

_FLOATS = (np.float32, np.float64)
_COUNTS = ("_correct", "_total", "_nodes")
_LARGEST = 2**53  # above it not every whole number is a float
_LARGEST_NUMBER = 1e100  # sums and products of a few such numbers are still numbers
_SHOWN = 60

Problems = Iterator[str]
"""What is wrong with a message, worst first. Only the first one is ever asked for, so each check
may rely on the ones before it."""


class InspectionError(FeddepError):
    """A message is not what an honest peer would send; it says whose, and what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What may cross in a run, as far as both sides know it beforehand.

    Attributes:
        discloses: groups of arrays that may leave a client.
        reports: for each phase the plain numbers that its replies may hold. A phase that is not
            here does not belong to the run.
        shapes: for a group its parts with their exact shapes, e.g. the classifier's. A key
            ``phase/group`` goes before: in a warm start a part of the classifier is all there is.
        rows: for an array, or for every part of a group, the largest number of rows and the
            exact sizes of the further axes: prototypes ``(C, d_z)``. A table of features is
            measured by its nodes and columns, dense or sparse.
        largest_bytes: of the arrays of one message.
        largest_norm: of the change of a group in ``shapes`` against what the request holds of it
            (of the group itself where that is nothing), of each row of everything else in a
            reply but gradients, and of each number in a list. None leaves it open.
        nodes: how many nodes the client has; no node beyond is asked for, and no more are
            counted. None does not look.
        types: of arrays in ``shapes`` and ``rows`` that are not float32.
    """

    discloses: frozenset[str]
    reports: Mapping[str, frozenset[str]]
    shapes: Mapping[str, Mapping[str, Shape]] = field(default_factory=dict)
    rows: Mapping[str, Shape] = field(default_factory=dict)
    largest_bytes: int = 2**31
    largest_norm: float | None = None
    nodes: int | None = None
    types: Mapping[str, str] = field(default_factory=lambda: {"neighgen/kept": "bool"})


def inspect_reply(reply: Reply, request: Request, expected: Expected) -> None:
    """Lets a reply pass that an honest client could have sent to this request.

    Raises:
        InspectionError: it names the client, the phase and what is wrong.
    """
    for problem in _reply_problems(reply, request, expected):
        raise InspectionError(
            f"client {request.client}, phase {request.phase!r}, step {request.step!r}: {problem}"
        )


def without_long_gradients(reply: Reply, expected: Expected) -> Reply:
    """An inspected reply without the gradients that have a row beyond the largest norm.

    Nobody is to blame for these: they may be long because a third party sent rows or weights far
    out to be compared with. The server half does without any gradient.
    """
    largest = expected.largest_norm
    kept = {
        name: array
        for name, array in reply.arrays.items()
        if largest is None or group_of(name) != _MIRRORS or _longest_row(array) <= largest
    }
    return reply if len(kept) == len(reply.arrays) else replace(reply, arrays=kept)


def inspect_request(request: Request, expected: Expected) -> None:
    """Lets a request pass that an honest server could have sent.

    Raises:
        InspectionError: it names the client that was asked, the phase and what is wrong.
    """
    for problem in _request_problems(request, expected):
        raise InspectionError(
            f"the server's request to client {_short(request.client)}, "
            f"phase {_short(request.phase)}, step {_short(request.step)}: {problem}"
        )


def _reply_problems(reply: Reply, request: Request, expected: Expected) -> Problems:
    if not _is_whole(reply.client) or reply.client != request.client:
        yield f"the reply is signed by client {_short(reply.client)}"
    if request.phase not in expected.reports:
        yield "this phase is not part of the run"
    yield from _array_problems(reply.arrays, expected.largest_bytes)
    for name in reply.arrays:
        if group_of(name) not in expected.discloses:
            yield f"the array {_short(name)} is not declared"
    yield from _number_problems(reply.metrics, expected.reports[request.phase], expected.nodes)
    needed = ANSWERED_WITH.get((request.phase, request.step), frozenset())
    yield from _missing({**reply.arrays, **reply.metrics}, needed)
    asked = request.arrays.get("nodes")
    for name in dict.fromkeys(map(group_of, reply.arrays)):
        if name == _MIRRORS:
            yield from _mirror_problems(reply.arrays, request, expected)
        else:
            content = _Group(name, reply.arrays, request.phase, expected)
            least, wanted = (1, None) if asked is None else (0, len(asked))
            yield from content.problems(complete=f"{name}/" in needed, least=least, wanted=wanted)
    if expected.largest_norm is not None:
        yield from _norm_problems(reply, request, expected, expected.largest_norm)


def _request_problems(request: Request, expected: Expected) -> Problems:
    if not isinstance(request.phase, str) or request.phase not in expected.reports:
        yield "this phase is not part of the run"
    if not isinstance(request.step, str):
        yield "the step is not a name"
    for what, number in (("client", request.client), ("round", request.round)):
        if not _is_whole(number) or number < 0:
            yield f"the {what} is {_short(number)}, not a whole number from 0 on"
    yield from _array_problems(request.arrays, expected.largest_bytes)
    needed = ASKED_WITH.get((request.phase, request.step), frozenset())
    yield from _missing(request.arrays, needed)
    for name in dict.fromkeys(map(group_of, request.arrays)):
        content = _Group(name, request.arrays, request.phase, expected)
        yield from content.problems(complete=f"{name}/" in needed)
    yield from _index_problems(request.arrays, expected.nodes)


def _array_problems(arrays: Arrays, largest_bytes: int) -> Problems:
    """Whatever an array is for: it has a name, a type that may travel, and finite numbers."""
    if not isinstance(arrays, Mapping):
        yield f"expected named arrays (got {_short(type(arrays).__name__)})"
    for name, array in arrays.items():
        if not isinstance(name, str):
            yield f"an array is named {_short(name)}"
        if not isinstance(array, np.ndarray):
            yield f"{_short(name)} is no array but {_short(type(array).__name__)}"
        kind = array.dtype
        if not (kind.isnative and (kind.kind in "biu" or kind.type in _FLOATS)):
            yield f"{_short(name)} has the type {_short(str(kind))}, which may not travel"
    size = payload_bytes(arrays)
    if size > largest_bytes:
        yield f"{size} bytes where {largest_bytes} are allowed"
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            yield f"{_short(name)} holds a number that is not finite"


def _number_problems(
    metrics: Mapping[str, float], declared: frozenset[str], nodes: int | None
) -> Problems:
    if not isinstance(metrics, Mapping):
        yield f"expected named numbers (got {_short(type(metrics).__name__)})"
    for name, value in metrics.items():
        if name not in declared:
            yield f"the number {_short(name)} is not declared"
        if not _is_whole(value) and not isinstance(value, float):
            yield f"{name} is no number but {_short(value)}"
        # Nothing was trained on, so there may be no loss; with weight 0 nobody takes it in.
        excused = name == "loss" and metrics.get("training_nodes") == 0 and value != value
        if not excused and not abs(value) <= _LARGEST_NUMBER:
            yield f"{name} is {_short(value)}, which is not finite, or as good as"
        if name.endswith(_COUNTS) and not (0 <= value <= _LARGEST and value == int(value)):
            yield f"{name} is {_short(value)}, which is no count"
        if name.endswith(_COUNTS) and nodes is not None and value > nodes:
            yield f"{name} is {_short(value)}, but the client has {nodes} nodes"
    for name, total in metrics.items():
        correct = metrics.get(name.removesuffix("_total") + "_correct", 0)
        if name.endswith("_total") and correct > total:
            yield f"{_short(correct)} of {_short(total)} {name.removesuffix('_total')} are correct"


def _missing(there: Mapping[str, Any], needed: frozenset[str]) -> Problems:
    for name in sorted(needed):
        if name not in there and not (name.endswith("/") and group(there, name[:-1])):
            yield f"{name.removesuffix('/')} is missing"


@dataclass(frozen=True)
class _Group:
    """The arrays of one group in a message, against what is known of them."""

    name: str
    arrays: Arrays
    phase: str
    expected: Expected

    @property
    def exact(self) -> Mapping[str, Shape] | None:
        """The group's parts and their shapes, by full name; None if they are not known."""
        shapes = self.expected.shapes
        known = shapes.get(f"{self.phase}/{self.name}", shapes.get(self.name))
        return None if known is None else {f"{self.name}/{p}": s for p, s in known.items()}

    def problems(self, *, complete: bool, least: int = 0, wanted: int | None = None) -> Problems:
        """What is wrong with the group.

        Args:
            complete: no part may be missing.
            least: rows that there must be; the nearest of no prototypes is nowhere.
            wanted: rows that were asked for, one for each node; None leaves it open.
        """
        own = {name: a for name, a in self.arrays.items() if group_of(name) == self.name}
        if self.exact is not None:
            complete = complete or f"{self.phase}/{self.name}" in self.expected.shapes
            yield from self._part_problems(own, self.exact, complete, least)
        elif self.name in _TABLES:
            yield from self._table_problems(group(own, self.name), wanted)
        else:
            for name in own:
                yield from self._row_problems(name, own[name], least, wanted)

    def _part_problems(
        self, own: Arrays, exact: Mapping[str, Shape], complete: bool, least: int
    ) -> Problems:
        listed = {name for name in self.expected.rows if group_of(name) == self.name}
        for name, array in own.items():
            if name in exact:
                yield from self._type_problems(name, array)
                if array.shape != exact[name]:
                    yield f"{name} has the shape {array.shape} where {exact[name]} belongs"
            elif name in listed:
                yield from self._row_problems(name, array, least, None)
            else:
                yield f"{_short(name)} is not a part of {self.name}"
        if complete and (absent := sorted((exact.keys() | listed) - own.keys())):
            yield f"{', '.join(absent)} is missing"
        if len({len(own[name]) for name in listed & own.keys()}) > 1:
            yield f"{', '.join(sorted(listed))} differ in their number of rows"

    def _row_problems(self, name: str, array: Array, least: int, wanted: int | None) -> Problems:
        bound = self.expected.rows.get(name, self.expected.rows.get(self.name))
        if bound is not None:
            yield from self._type_problems(name, array)
            rows, *axes = array.shape or (-1,)
            if axes != list(bound[1:]) or not least <= rows <= bound[0]:
                allowed = ", ".join([f"{least} to {bound[0]}", *map(str, bound[1:])])
                yield f"{_short(name)} has the shape {array.shape} where ({allowed}) belongs"
        if wanted is not None and (array.ndim == 0 or len(array) != wanted):
            yield f"{_short(name)} has the shape {array.shape}, but {wanted} nodes were asked for"

    def _type_problems(self, name: str, array: Array) -> Problems:
        right = self.expected.types.get(name, "float32")
        if array.dtype != right:
            yield f"{_short(name)} has the type {array.dtype} where {right} belongs"

    def _table_problems(self, parts: Arrays, wanted: int | None) -> Problems:
        most, columns = self.expected.rows.get(self.name, (_LARGEST, _LARGEST))
        names = parts.keys() - {"links"}
        if names == {"rows"}:
            rows = parts["rows"]
            count, right = len(np.atleast_1d(rows)), rows.ndim == 2 and rows.dtype == np.float32
            right = right and (columns == _LARGEST or rows.shape[1] == columns)
        elif names == {"indptr", "indices", "data"}:
            count, right = len(np.atleast_1d(parts["indptr"])) - 1, _is_sparse(parts, columns)
        else:
            yield f"{self.name} is neither a dense nor a sparse table"
            return
        if not right:
            yield f"{self.name} is no table of float32 with {columns} columns"
        if count > most:
            yield f"{self.name} has {count} nodes where at most {most} belong"
        if wanted not in (None, count):
            yield f"{self.name} has {count} nodes, but {wanted} were asked for"
        if "links" in parts and not _are_links(parts["links"], self.expected.nodes, count):
            yield f"{self.name}/links does not lead from own nodes to the {count} new ones"


def _is_sparse(parts: Arrays, columns: int) -> bool:
    """Whether three arrays are the rows of a matrix: lists that begin and end where they should."""
    indptr, indices, data = (parts[name] for name in ("indptr", "indices", "data"))
    if not all(array.ndim == 1 for array in (indptr, indices, data)) or not len(indptr):
        return False
    if indptr.dtype.kind not in "iu" or data.dtype != np.float32:
        return False
    ends = indptr.astype(np.int64)
    lists = ends[0] == 0 and bool((np.diff(ends) >= 0).all())
    return lists and ends[-1] == len(indices) == len(data) and _are_below(indices, columns)


def _are_links(links: Array, nodes: int | None, new: int) -> bool:
    if links.ndim != 2 or links.shape[1] != 2:
        return False
    return _are_below(links[:, 0], nodes) and _are_below(links[:, 1], new)


def _are_below(indices: Array, bound: int | None) -> bool:
    """Whether these are whole numbers from 0 to below the bound."""
    if indices.dtype.kind not in "iu":
        return False
    return not indices.size or bool(indices.min() >= 0 and (bound is None or indices.max() < bound))


def _index_problems(arrays: Arrays, nodes: int | None) -> Problems:
    """Numbers of the client's nodes must be some, or Python would count from the end."""
    asked, told = arrays.get("nodes"), arrays.get("neighbours")
    if asked is not None and (asked.ndim != 1 or not _are_below(asked, nodes)):
        yield "nodes does not list nodes of this client"
    rows = nodes if asked is None else len(asked)
    if told is not None and (told.ndim != 2 or rows not in (None, len(told))):
        yield f"neighbours has the shape {told.shape} where {rows} rows belong"


def _mirror_problems(arrays: Arrays, request: Request, expected: Expected) -> Problems:
    """An answer to an array has its shape and type; ``gradients/2`` answers ``generated/2``."""
    weights = expected.shapes.get(_GRADIENTS_OF.get(request.phase, ""))
    for full in (full for full in arrays if group_of(full) == _MIRRORS):
        part = full.removeprefix(f"{_MIRRORS}/")
        sent = (a for key, a in request.arrays.items() if f"/{key}".endswith(f"/{part}"))
        original = next(sent, None)
        if original is None:
            yield f"{_short(full)} answers nothing that was sent"
        elif weights is not None and part.rpartition("/")[2] not in weights:
            yield f"{_short(full)} is no gradient of a weight"
        elif (arrays[full].shape, arrays[full].dtype) != (original.shape, original.dtype):
            yield (
                f"{_short(full)} has the shape {arrays[full].shape} and type "
                f"{arrays[full].dtype} where those of what was sent belong"
            )


def _norm_problems(reply: Reply, request: Request, expected: Expected, largest: float) -> Problems:
    squares: dict[str, float] = {}
    for name, array in reply.arrays.items():
        content = _Group(group_of(name), reply.arrays, request.phase, expected)
        if array.dtype.kind != "f" or not array.size or content.name == _MIRRORS:
            continue
        if name in (content.exact or {}):
            with np.errstate(over="ignore"):
                change = array.astype(np.float64) - request.arrays.get(name, np.float64(0))
                squares[content.name] = squares.get(content.name, 0.0) + float((change**2).sum())
        elif (norm := _longest_row(array)) > largest:
            yield f"{_short(name)} has a row of norm {norm:.3g} where {largest:g} is allowed"
    for group_name, square in squares.items():
        if not math.sqrt(square) <= largest:
            yield (
                f"{group_name} is {math.sqrt(square):.3g} away from what was sent, "
                f"where {largest:g} is allowed"
            )


def _longest_row(array: Array) -> float:
    """The largest norm along the last axis; the numbers of a list have no row in common."""
    values = array.astype(np.float64)
    with np.errstate(over="ignore"):
        norms = np.abs(values) if values.ndim < 2 else np.sqrt((values**2).sum(axis=-1))
    return float(norms.max(initial=0.0))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _short(value: object) -> str:
    """A value that somebody else chose, fit for one line: a huge number has no text at all."""
    try:
        text = repr(value)
    except ValueError:
        return f"a huge {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
