"""Modules as named arrays and back: how weights get into messages, states and files."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from feddep.errors import InputError

Weights = Mapping[str, npt.NDArray[Any]]
"""Parameters by name."""


def to_arrays(module: nn.Module) -> dict[str, npt.NDArray[Any]]:
    """A copy of every parameter, by name."""
    return {name: p.detach().cpu().numpy().copy() for name, p in module.named_parameters()}


def shapes_of(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter, by name."""
    return {name: tuple(p.shape) for name, p in module.named_parameters()}


def from_arrays(module: nn.Module, arrays: Weights) -> None:
    """Copies named arrays into the module's parameters; names and shapes must match exactly."""
    parameters = dict(module.named_parameters())
    if parameters.keys() != arrays.keys():
        raise InputError(
            f"expected weights {', '.join(sorted(parameters))} (got {', '.join(sorted(arrays))})"
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            array = arrays[name]
            if array.shape != tuple(parameter.shape):
                raise InputError(
                    f"expected {name} of shape {tuple(parameter.shape)} (got {array.shape})"
                )
            parameter.copy_(torch.from_numpy(np.array(array, dtype=np.float32)))
