"""The shapes of laundering: who pays whom among the members of a pattern.

After Suzumura and Kanezashi's AMLSim, AMLworld (Altman et al., 2023) and AMLGentex. Members are
numbered 0 to k - 1; a payment may only follow those that brought the money.
"""

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Pairs = list[tuple[int, int]]


def fan_in(members: int) -> Pairs:
    """Everybody pays the first."""
    return [(i, 0) for i in range(1, members)]


def fan_out(members: int) -> Pairs:
    """The first pays everybody."""
    return [(0, i) for i in range(1, members)]


def cycle(members: int) -> Pairs:
    """Money comes back to the first."""
    return [(i, (i + 1) % members) for i in range(members)]


def bipartite(members: int) -> Pairs:
    """Each of one half pays two of the other."""
    return _layer(range(members // 2), range(members // 2, members))


def stack(members: int) -> Pairs:
    """Two bipartite layers, one behind the other."""
    one, two = max(members // 3, 1), max(2 * members // 3, 2)
    upper = _layer(range(one), range(one, two))
    return upper + _layer(range(one, two), range(two, members))


def scatter_gather(members: int) -> Pairs:
    """The first pays all in between, and they pay the last."""
    between = range(1, members - 1)
    return [(0, i) for i in between] + [(i, members - 1) for i in between]


def gather_scatter(members: int) -> Pairs:
    """One half pays the first, and the first pays the other."""
    half = (members + 1) // 2
    return [(i, 0) for i in range(1, half)] + [(0, i) for i in range(half, members)]


TYPOLOGIES: MappingProxyType[str, Callable[[int], Pairs]] = MappingProxyType(
    {
        shape.__name__: shape
        for shape in (
            fan_in,
            fan_out,
            cycle,
            bipartite,
            stack,
            scatter_gather,
            gather_scatter,
        )
    }
)


def payments_of(typology: str, members: int) -> npt.NDArray[np.int64]:
    """``(payments, 2)`` senders and receivers, in the order in which the money moves."""
    return np.array(TYPOLOGIES[typology](members), np.int64)


def known_by(payments: npt.NDArray[np.int64], members: int) -> list[int]:
    """For each member one of those before it that it has a payment with; 0 if there is none."""
    found = [0] * members
    for one, other in payments.tolist():
        low, high = sorted((one, other))
        found[high] = found[high] or low
    return found


def _layer(senders: range, receivers: range) -> Pairs:
    """Each sender pays two receivers, so that each receiver is paid."""
    pairs = {
        (sender, receivers[(2 * i + step) % len(receivers)])
        for i, sender in enumerate(senders)
        for step in range(2)
    }
    pairs |= {(senders[i % len(senders)], receiver) for i, receiver in enumerate(receivers)}
    return sorted(pairs)
