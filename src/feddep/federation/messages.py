"""What goes over the wire, and what a client or the server keeps between messages."""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.errors import DataError
from feddep.reading import json_of

Arrays = Mapping[str, npt.NDArray[Any]]
"""Named arrays. A name is ``group/part`` (``classifier/bias``) or a group alone."""

State = Arrays
"""The memory of a client or the server: a value that is passed on, never changed in place."""


_ALIGNMENT = 8
_DTYPES = frozenset(
    np.dtype(kind).newbyteorder("<").str
    for kind in (bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.float32, np.float64)
)
_BROKEN = (struct.error, LookupError, TypeError, ValueError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Request:
    """The server asks one client for one step of a phase.

    Attributes:
        client: who is asked.
        phase: which conversation this belongs to.
        step: what is asked for within the phase.
        round: 0, 1, … within the phase.
        arrays: what the client needs for it.
    """

    client: int
    phase: str
    step: str
    round: int
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """A client's answer: everything in it leaves the client.

    Attributes:
        client: who answers.
        arrays: what the method needs; every group must be declared for the step.
        metrics: plain numbers (scores, counts, losses), declared likewise.
    """

    client: int
    arrays: Arrays = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


def group(arrays: Arrays, name: str) -> dict[str, npt.NDArray[Any]]:
    """The parts of one group, without the group's name."""
    prefix = name + "/"
    return {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}


def grouped(name: str, parts: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The inverse of :func:`group`."""
    return {f"{name}/{key}": array for key, array in parts.items()}


def group_of(key: str) -> str:
    """The group that an array's name belongs to."""
    return key.split("/", 1)[0]


def settled(arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The arrays as they are after any journey: in C order, and nobody can change them.

    Whoever gets them by a function call has what it would have had over a network. Otherwise sums
    would be taken in another order, and one client could change what the next one is sent.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    for name, array in arrays.items():
        view = np.asarray(array, order="C").view()
        view.flags.writeable = False
        found[name] = view
    return found


ROOM = 120 << 20
"""Bytes of what several clients sent that the server passes on in one request. A client refuses a
request that is too large, so one client's large message must not add to those of all others."""


def in_batches(sent: Mapping[int, Arrays], room: int = ROOM) -> Iterator[dict[int, Arrays]]:
    """What clients sent, as many at a time as there is room for; at least one."""
    some: dict[int, Arrays] = {}
    left = room
    for client, arrays in sent.items():
        size = payload_bytes(arrays)
        if some and size > left:
            yield some
            some, left = {}, room
        some[client] = arrays
        left -= size
    yield some


def payload_bytes(arrays: Arrays) -> int:
    """Bytes of the arrays themselves; a message without arrays counts 0."""
    return sum(array.nbytes for array in arrays.values())


def pack(header: Mapping[str, Any], arrays: Arrays, *, once: bool = False) -> bytes:
    """Header and arrays in one piece: a length, JSON, then the arrays' bytes. No pickle.

    The arrays are not stored as safetensors, because reading those back copies them: with a model
    of a few megabytes and several clients, the copies would be most of a server's memory.

    Args:
        header: plain data.
        arrays: by name.
        once: an array that stands under several names is stored once, and read back as one. Not
            for what comes from others: a small message could then hold any number of arrays.
    """
    return b"".join(packed_parts(header, arrays, once=once))


def packed_parts(
    header: Mapping[str, Any], arrays: Arrays, *, once: bool = False
) -> Iterator[bytes | memoryview]:
    """What :func:`pack` puts together, one after the other; the arrays are not copied."""
    for name, array in arrays.items():
        if array.dtype.str not in _DTYPES:  # it could be stored but not read back
            raise DataError(f"a message cannot hold {name!r}, which is of type {array.dtype}")
    table, stored = _table_of(arrays, once=once)
    text = json.dumps({"header": header, "arrays": table}).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    yield struct.pack("<Q", len(text)) + text
    for array in stored:
        if array.size:
            yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        yield bytes(-array.nbytes % _ALIGNMENT)


def _table_of(arrays: Arrays, *, once: bool) -> tuple[list[list[Any]], list[npt.NDArray[Any]]]:
    """A row for each name, with the place of an array that was stored before, and what to store."""
    rows: list[list[Any]] = []
    stored: list[npt.NDArray[Any]] = []
    places: dict[int, int] = {}
    for name, array in arrays.items():
        if once and id(array) in places:
            rows.append([name, places[id(array)]])
            continue
        places[id(array)] = len(stored)
        stored.append(array)
        rows.append([name, array.dtype.str, array.shape])
    return rows, stored


def unpack(
    data: bytes | memoryview, *, once: bool = False
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The inverse of :func:`pack`; the arrays are read-only views. Anything else is refused."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        content = json_of(bytes(data[8 : 8 + length]))
        header, table = dict(content["header"]), content["arrays"]
        arrays, start = {}, 8 + length
        stored: list[npt.NDArray[Any]] = []
        for name, *about in table:
            if once and len(about) == 1:
                arrays[name] = stored[about[0]]
                continue
            dtype, shape = about
            if dtype not in _DTYPES:
                raise ValueError(f"array {name!r} has the type {dtype!r}")
            if min(shape, default=0) < 0:
                raise ValueError(f"array {name!r} has the shape {shape}")
            count = math.prod(shape)
            arrays[name] = np.frombuffer(data, dtype, count, start).reshape(shape)
            start += arrays[name].nbytes
            start += -start % _ALIGNMENT
            stored.append(arrays[name])
        if start != len(data):
            raise ValueError(f"{len(data)} bytes where {start} belong")
    except _BROKEN as error:
        raise DataError(f"expected a packed message, got something else ({error})") from None
    return header, arrays
