"""Weights and other arrays on disk, as safetensors; what is read back is checked first."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import nn

from feddep.errors import DataError, InputError
from feddep.federation.messages import Arrays, group, grouped
from feddep.graph.schema import Schema
from feddep.reading import is_plain
from feddep.runs.files import write_atomically

Shapes = Mapping[str, tuple[int, ...]]
"""What a file should hold: every name with its shape."""

_SCHEMA = "schema"
_BROKEN = (SafetensorError, OSError, LookupError, TypeError, ValueError)


def write_arrays(path: Path, arrays: Arrays, about: Mapping[str, str] | None = None) -> None:
    """Writes named arrays, with metadata."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_atomically(path, save(whole, dict(about) if about else None))


def read_arrays(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The inverse of :func:`write_arrays`; names and shapes are not checked here.

    Raises:
        DataError: the file is missing or damaged.
    """
    if path.exists() and not is_plain(path):
        raise DataError(f"{path} is not a plain file")
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return arrays, dict(file.metadata() or {})
    except FileNotFoundError:
        raise DataError(f"{path} is missing") from None
    except _BROKEN as error:
        raise DataError(f"{path} is damaged or not a safetensors file ({error})") from None


def write_model(path: Path, classifiers: Sequence[Arrays], schema: Schema | None = None) -> None:
    """Writes one classifier under its own names; several, each under ``client-i/``."""
    arrays = dict(classifiers[0])
    if len(classifiers) > 1:
        arrays = {}
        for client, classifier in enumerate(classifiers):
            arrays |= grouped(_client(client), classifier)
    write_arrays(path, arrays, None if schema is None else {_SCHEMA: json.dumps(schema.to_plain())})


def schema_in(path: Path, about: Mapping[str, str]) -> Schema | None:
    """The schema that :func:`write_model` stored with the weights, if there was one.

    Raises:
        DataError: it is damaged.
    """
    if _SCHEMA not in about:
        return None
    try:
        return Schema.from_plain(json.loads(about[_SCHEMA]))
    except (InputError, TypeError, ValueError) as error:
        raise DataError(f"{path}: {error}") from None


def split_model(arrays: Arrays, count: int) -> list[Arrays]:
    """The classifiers in what :func:`write_model` wrote: one, or one for each of ``count`` clients.

    Nothing is left out: a name that belongs to none of them is in the first.
    """
    if _client(0) not in {name.partition("/")[0] for name in arrays}:
        return [arrays]
    parts: list[Arrays] = [group(arrays, _client(client)) for client in range(count)]
    known = tuple(f"{_client(client)}/" for client in range(count))
    strange = {name: array for name, array in arrays.items() if not name.startswith(known)}
    return [{**parts[0], **strange}, *parts[1:]]


def shapes_of(module: nn.Module) -> Shapes:
    """The names and shapes of a module's parameters."""
    return {name: tuple(weight.shape) for name, weight in module.named_parameters()}


def check_weights(path: Path, arrays: Arrays, expected: Shapes) -> None:
    """Refuses weights that are not exactly those of the model that the run trained.

    Raises:
        DataError: a name is missing or unknown, or a shape or type differs; it says which.
    """
    missing, extra = expected.keys() - arrays.keys(), arrays.keys() - expected.keys()
    if missing:
        raise DataError(f"{path} lacks {_some(missing)}, which the run's spec asks for")
    if extra:
        raise DataError(f"{path} holds {_some(extra)}, which the run's spec does not know")
    for name, shape in expected.items():
        found = arrays[name]
        if found.shape != shape or found.dtype != np.float32:
            raise DataError(
                f"{path}: expected {name} as float32 {shape} (got {found.dtype} {found.shape})"
            )


def _client(number: int) -> str:
    return f"client-{number}"


def _some(names: set[str]) -> str:
    first = sorted(names)[:3]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
