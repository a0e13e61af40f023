"""Averaging what the clients send."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.errors import InputError
from feddep.federation.messages import Arrays


def weighted_mean(
    clients: Sequence[Arrays], weights: Sequence[float]
) -> dict[str, npt.NDArray[Any]]:
    """Σᵢ wᵢ Wᵢ / Σᵢ wᵢ, array by array (McMahan et al. 2017).

    The paper's Eq. 1 weights clients 1/M; weighting by training nodes is the usual FedAvg and
    what we do. Sums are in double precision and in the clients' order, so they do not depend on
    who answered first, and what all clients agree on stays as it is to the last bit. A client of
    weight 0 (without training nodes) does not count.
    """
    total = float(sum(weights))
    if total <= 0:
        raise InputError("no client has a training node, so there is nothing to average")
    shapes = [{name: array.shape for name, array in arrays.items()} for arrays in clients]
    for number, own in enumerate(shapes):
        if own != shapes[0]:  # numpy would stretch an array that happens to fit
            raise InputError(f"client {number} sent other names or shapes than client 0")
    mean = {}
    for name, first in clients[0].items():
        sums = np.zeros(first.shape, np.float64)
        for arrays, weight in zip(clients, weights, strict=True):
            sums += weight * arrays[name].astype(np.float64)
        mean[name] = (sums / total).astype(first.dtype)
    return mean
