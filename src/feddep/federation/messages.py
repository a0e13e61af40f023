"""What goes over the wire, and what a client or the server keeps between messages."""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from feddep.errors import DataError

Arrays = Mapping[str, npt.NDArray[Any]]
"""Named arrays. A name is ``group/part`` (``classifier/bias``) or a group alone."""

State = Arrays
"""What a client or the server remembers: a value that is handed over, never changed in place."""


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
        arrays: what the method needs; every group must be declared in ``Method.discloses``.
        metrics: plain numbers (scores, counts, losses), declared in the phase's ``reports``.
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


def payload_bytes(arrays: Arrays) -> int:
    """Bytes of the arrays themselves; a control message without arrays counts 0."""
    return sum(array.nbytes for array in arrays.values())


def pack(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Header (as JSON) and arrays (as safetensors) in one piece; no pickle."""
    text = json.dumps(header).encode()
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return struct.pack("<Q", len(text)) + text + save(contiguous)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The inverse of :func:`pack`; anything else is refused."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        arrays = load(data[8 + length :])
    except (struct.error, ValueError, SafetensorError) as error:
        raise DataError(f"expected a packed message, got something else ({error})") from None
    return header, arrays
