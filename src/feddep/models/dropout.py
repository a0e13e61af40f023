"""Dropout with a random stream of its own, so that a result does not depend on what else ran.

The bits come from SplitMix64 (Steele, Lea and Flood 2014), which a compiled loop can draw from as
it goes; a mini-batch needs more dropout bits than all other random numbers together.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


class DropoutStream:
    """Random bits for dropout; the state advances with every draw.

    Args:
        share: share of the units that are dropped.
        seed: names the stream.
    """

    def __init__(self, share: float, seed: int) -> None:
        self.share = share
        self.state = np.array([seed % 2**64], np.uint64)

    @property
    def least(self) -> int:
        """A unit with 16 random bits of at least this much is kept: exact to 1/65536."""
        return round(self.share * 65536)

    @property
    def scale(self) -> float:
        """What a kept unit is multiplied by."""
        return 1 / (1 - self.share)

    def mask(self, rows: int, columns: int) -> Floats:
        """``scale`` for each unit that is kept, 0 for the others."""
        mask = np.ones((rows, columns), np.float32)
        relu_dropout(mask, self.state, self.least, self.scale)
        return mask


@njit(cache=True, nogil=True, boundscheck=False)
def relu_dropout(x: Floats, state: Words, least: int, scale: float) -> None:
    """ReLU and dropout of ``(n, h)``, in place; ``least`` 0 drops nothing and draws nothing."""
    zero = np.float32(0)
    if least == 0:
        for i in range(len(x)):
            row = x[i]
            for j in range(len(row)):
                row[j] = row[j] if row[j] > zero else zero
        return
    width = x.shape[1]
    words = np.empty(-(-width // 4), np.uint64)
    bits = words.view(np.uint16)
    factor, bound = np.float32(scale), np.int32(least)
    word = state[0]
    for i in range(len(x)):
        for k in range(len(words)):
            word += _STEP
            mixed = (word ^ (word >> np.uint64(30))) * _FIRST
            mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
            words[k] = mixed ^ (mixed >> np.uint64(31))
        row = x[i]
        # Written so that it compiles to selections: branches on random bits are mispredicted.
        for j in range(width):
            unit = row[j]
            positive = unit if unit > zero else zero
            row[j] = positive * (factor if np.int32(bits[j]) >= bound else zero)
    state[0] = word


@njit(cache=True, nogil=True, boundscheck=False)
def relu_dropout_gradient(kept: Floats, scale: float, gradient: Floats) -> None:
    """The gradient before ReLU and dropout from the one after, in place."""
    factor, zero = np.float32(scale), np.float32(0)
    for i in range(len(kept)):
        unit, target = kept[i], gradient[i]
        for j in range(len(unit)):
            target[j] *= factor if unit[j] > zero else zero
