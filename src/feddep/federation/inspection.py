"""Inspecting every message before it is used: peers may be broken, or hostile.

The server inspects replies, so that a bad one only costs its client the round; a client inspects
requests, since it need not trust the server either. A message that passes has the names, types,
shapes and sizes that its phase declares for the step, and all its numbers are finite; the weights
in a request are no larger than training ever makes them. Whether the numbers are *true* nobody can
see; :mod:`feddep.federation.aggregation` limits what lies can do.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from feddep.errors import FeddepError
from feddep.federation.content import (
    Content,
    Gradients,
    Number,
    Problems,
    Seen,
    blocks,
    content_problems,
    longest_row,
    short,
)
from feddep.federation.messages import Arrays, Reply, Request, group_of, payload_bytes
from feddep.federation.phase import Step, Steps

_FLOATS = (np.float32, np.float64)
_LARGEST_COUNT = 2**53  # above it not every whole number is a float
LARGEST_WEIGHT = 1e6
"""Of a request. Honest weights are far smaller: beyond it float32 has no digits left for a step
of training. It depends on nothing that a client has, so a refusal tells nothing about a client."""
_LIMITS = {Number.SHARE: 1.0, Number.LOSS: 20.0}  # NaN says that there is nothing to judge
_LARGEST_NUMBER = 1e100  # sums and products of a few such numbers are still finite


class InspectionError(FeddepError):
    """A message that an honest peer would not send; it says whose it is and what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the messages of a run may hold, as far as both sides know it beforehand.

    Attributes:
        phases: what the steps of each phase carry. A phase that is not listed does not belong to
            the run.
        largest_bytes: of the arrays of one message.
        largest_norm: of what a reply holds, see :class:`~feddep.federation.content.Seen`.
        nodes: how many nodes the client has, a limit for node numbers and counts; None checks
            neither.
        all_nodes: of the federation; the limit where a client's own number is not known.
    """

    phases: Mapping[str, Steps]
    largest_bytes: int = 2**31
    largest_norm: float | None = None
    nodes: int | None = None
    all_nodes: int | None = None

    def seen(self, asked: Arrays, *, norm: bool) -> Seen:
        """What is known besides a message that belongs to a request with these arrays."""
        largest = self.largest_norm if norm else None
        return Seen(nodes=self.nodes, all_nodes=self.all_nodes, asked=asked, largest_norm=largest)


def inspect_reply(reply: Reply, request: Request, expected: Expected) -> None:
    """Refuses a reply that no honest client could have sent to this request.

    Raises:
        InspectionError: it names the client, the phase and what is wrong.
    """
    for problem in _reply_problems(reply, request, expected):
        raise InspectionError(
            f"client {request.client}, phase {request.phase!r}, step {request.step!r}: {problem}"
        )


def inspect_request(request: Request, expected: Expected) -> None:
    """Refuses a request that no honest server could have sent.

    Raises:
        InspectionError: it names the client that was asked, the phase and what is wrong.
    """
    for problem in _request_problems(request, expected):
        raise InspectionError(
            f"the server's request to client {short(request.client)}, "
            f"phase {short(request.phase)}, step {short(request.step)}: {problem}"
        )


def inspect_result(arrays: Arrays, allowed: Mapping[str, Content], expected: Expected) -> None:
    """Refuses a final result that no honest server could have sent.

    Raises:
        InspectionError: it says what is wrong.
    """
    for problem in _content_problems(arrays, allowed, expected, expected.seen({}, norm=False)):
        raise InspectionError(f"the server's result: {problem}")


def without_long_gradients(reply: Reply, request: Request, expected: Expected) -> Reply:
    """An inspected reply without the gradients that have a row beyond the largest norm.

    The client is not to blame for these: a third client may have sent rows or weights that are
    far off. The server half can do without any gradient.
    """
    largest = expected.largest_norm
    allowed = expected.phases[request.phase][request.step].reply
    kept = {
        name: array
        for name, array in reply.arrays.items()
        if largest is None
        or not isinstance(allowed[group_of(name)], Gradients)
        or longest_row(array) <= largest
    }
    return reply if len(kept) == len(reply.arrays) else replace(reply, arrays=kept)


def _reply_problems(reply: Reply, request: Request, expected: Expected) -> Problems:
    if not _is_whole(reply.client) or reply.client != request.client:
        yield f"the reply is signed by client {short(reply.client)}"
    step = yield from _declared(request, expected)
    seen = expected.seen(request.arrays, norm=True)
    nodes = expected.all_nodes if expected.nodes is None else expected.nodes
    yield from _number_problems(reply.metrics, step.numbers, nodes)
    yield from _content_problems(reply.arrays, step.reply, expected, seen)


def _request_problems(request: Request, expected: Expected) -> Problems:
    step = yield from _declared(request, expected)
    for what, number in (("client", request.client), ("round", request.round)):
        if not _is_whole(number) or number < 0:
            yield f"the {what} is {short(number)}, not a whole number from 0 on"
    seen = replace(expected.seen(request.arrays, norm=False), largest_weight=LARGEST_WEIGHT)
    yield from _content_problems(request.arrays, step.request, expected, seen)


def _declared(request: Request, expected: Expected) -> Generator[str, None, Step]:
    """The declaration of the step that a message belongs to."""
    if not isinstance(request.phase, str) or request.phase not in expected.phases:
        yield "this phase is not part of the run"
    steps = expected.phases[request.phase]
    if not isinstance(request.step, str) or request.step not in steps:
        yield "the phase declares no such step"
    return steps[request.step]


def _content_problems(
    arrays: Arrays, allowed: Mapping[str, Content], expected: Expected, seen: Seen
) -> Problems:
    yield from _array_problems(arrays, expected.largest_bytes)
    yield from content_problems(arrays, allowed, seen)


def _array_problems(arrays: Arrays, largest_bytes: int) -> Problems:
    """What holds for every array: a name, a type that may be sent, and finite numbers."""
    if not isinstance(arrays, Mapping):
        yield f"expected named arrays (got {short(type(arrays).__name__)})"
    for name, array in arrays.items():
        if not isinstance(name, str):
            yield f"an array is named {short(name)}"
        if not isinstance(array, np.ndarray):
            yield f"{short(name)} is no array but {short(type(array).__name__)}"
        kind = array.dtype
        if not (kind.isnative and (kind.kind in "biu" or kind.type in _FLOATS)):
            yield f"{short(name)} has the type {short(str(kind))}, which may not travel"
    size = payload_bytes(arrays)
    if size > largest_bytes:
        yield f"{size} bytes where {largest_bytes} are allowed"
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not all(np.isfinite(part).all() for part in blocks(array)):
            yield f"{short(name)} holds a number that is not finite"


def _number_problems(
    metrics: Mapping[str, float], declared: Mapping[str, Number], nodes: int | None
) -> Problems:
    if not isinstance(metrics, Mapping):
        yield f"expected named numbers (got {short(type(metrics).__name__)})"
    for name, value in metrics.items():
        if name not in declared:
            yield f"the number {short(name)} is not declared"
        if not _is_whole(value) and not isinstance(value, float):
            yield f"{name} is no number but {short(value)}"
        if declared[name] in _LIMITS:
            yield from _limit_problems(name, value, _LIMITS[declared[name]])
        else:
            yield from _finite_problems(name, value, metrics)
        if declared[name] is Number.COUNT:
            yield from _count_problems(name, value, nodes)
    for name in declared.keys() - metrics.keys():
        yield f"{name} is missing"
    for name, total in metrics.items():
        correct = metrics.get(name.removesuffix("_total") + "_correct", 0)
        if name.endswith("_total") and correct > total:
            yield f"{short(correct)} of {short(total)} {name.removesuffix('_total')} are correct"


def _finite_problems(name: str, value: float, metrics: Mapping[str, float]) -> Problems:
    # Without training nodes there may be no loss; with weight 0 nobody uses it.
    excused = name == "loss" and metrics.get("training_nodes") == 0 and value != value
    if not excused and not abs(value) <= _LARGEST_NUMBER:
        yield f"{name} is {short(value)}, which is not finite, or as good as"


def _limit_problems(name: str, value: float, largest: float) -> Problems:
    if value == value and not 0 <= value <= largest:
        yield f"{name} is {short(value)}, where a number from 0 to {largest:g} belongs"


def _count_problems(name: str, value: float, nodes: int | None) -> Problems:
    if not (0 <= value <= _LARGEST_COUNT and value == int(value)):
        yield f"{name} is {short(value)}, which is no count"
    if nodes is not None and value > nodes:
        yield f"{name} is {short(value)}, but the client has {nodes} nodes"


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
