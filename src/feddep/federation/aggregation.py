"""One set of weights from many clients': their mean, or a rule that a few clients cannot spoil."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.errors import InputError
from feddep.federation.messages import Arrays
from feddep.privacy.robustness import AggregationSpec as AggregationSpec

Floats = npt.NDArray[np.float64]


def aggregate(
    clients: Sequence[Arrays],
    weights: Sequence[float],
    spec: AggregationSpec,
    sent: Arrays | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Combines the clients' weights by the rule of the spec; by default :func:`weighted_mean`.

    Median and trimmed mean (Yin et al. 2018) are taken coordinate by coordinate, and every client
    counts once: how many training nodes a client has is its own claim, and a client that lies
    about its weights may lie about that too. A client of weight 0 (without training nodes) does
    not count.

    Args:
        clients: the weights of the clients that answered, in the clients' order.
        weights: their training nodes.
        spec: the rule, and how far a client may move from what it was sent.
        sent: the weights that the clients started from; None if each had its own, in which case
            nothing is clipped.
    """
    if spec.clip and sent is not None:
        clients = [clipped(sent, arrays, spec.clip) for arrays in clients]
    if spec.rule == "mean":
        return weighted_mean(clients, weights)
    _check_alike(clients, weights)
    counted = [arrays for arrays, weight in zip(clients, weights, strict=True) if weight > 0]
    centre = _median if spec.rule == "median" else _trimmed_mean(spec.trim)
    return {
        name: centre(np.stack([arrays[name].astype(np.float64) for arrays in counted])).astype(
            first.dtype
        )
        for name, first in counted[0].items()
    }


def weighted_mean(
    clients: Sequence[Arrays], weights: Sequence[float]
) -> dict[str, npt.NDArray[Any]]:
    """Σᵢ wᵢ Wᵢ / Σᵢ wᵢ, array by array (McMahan et al. 2017).

    The paper's Eq. 1 weights clients by 1/M; weighting by training nodes is the usual FedAvg, and
    what we do. Sums are in double precision and in the clients' order, so they do not depend on
    who answered first, and what all clients agree on is kept to the last bit. A client of weight 0
    (without training nodes) does not count.
    """
    _check_alike(clients, weights)
    total = float(sum(weights))
    mean = {}
    for name, first in clients[0].items():
        sums = np.zeros(first.shape, np.float64)
        for arrays, weight in zip(clients, weights, strict=True):
            sums += weight * arrays[name].astype(np.float64)
        mean[name] = (sums / total).astype(first.dtype)
    return mean


def clipped(sent: Arrays, arrays: Arrays, clip: float) -> Arrays:
    """The weights with their change against ``sent`` shortened to norm ``clip``.

    A shorter change is kept to the last bit. One whose norm is not finite is dropped.
    """
    if mismatch := _mismatch(arrays, sent):
        raise InputError(f"a client's update does not match the global model: {mismatch}")
    with np.errstate(over="ignore", invalid="ignore"):
        change = {name: arrays[name].astype(np.float64) - sent[name] for name in arrays}
        norm = math.sqrt(sum(float(np.vdot(array, array)) for array in change.values()))
    if norm <= clip:
        return arrays
    if not math.isfinite(norm):
        return sent
    return {
        name: (sent[name] + clip / norm * array).astype(arrays[name].dtype)
        for name, array in change.items()
    }


def _median(values: Floats) -> Floats:
    middle: Floats = np.median(values, axis=0)
    return middle


def _trimmed_mean(trim: float) -> Callable[[Floats], Floats]:
    """The share is rounded up, so that it cuts off somebody even with few clients; one stays."""

    def centre(values: Floats) -> Floats:
        count = len(values)
        cut = min(math.ceil(trim * count - 1e-9), (count - 1) // 2)
        kept: Floats = np.sort(values, axis=0)[cut : count - cut]
        mean: Floats = np.clip(kept.mean(axis=0), kept[0], kept[-1])  # whatever rounding does
        return mean

    return centre


def _check_alike(clients: Sequence[Arrays], weights: Sequence[float]) -> None:
    if float(sum(weights)) <= 0:
        raise InputError("no client has a training node, so there is nothing to average")
    for number, arrays in enumerate(clients):
        if mismatch := _mismatch(arrays, clients[0]):  # numpy would broadcast
            raise InputError(
                f"update {number + 1} of {len(clients)} does not match the first one: {mismatch}"
            )


def _mismatch(arrays: Arrays, expected: Arrays) -> str | None:
    """The first name or shape that differs, if any."""
    for name in sorted(arrays.keys() | expected.keys()):
        found, right = (
            str(parts[name].shape) if name in parts else "absent" for parts in (arrays, expected)
        )
        if found != right:
            return f"{name} is {found}, expected {right}"
    return None
