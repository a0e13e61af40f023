"""Gaussian noise on what a silo sends: repeatable in a simulation, secret in a deployment.

In a simulation the noise has single precision and is fast; the same seed gives the same bits. It
protects nothing, because everybody knows the seed. With a :class:`SecretStream` it has double
precision, and the noised numbers are rounded to a grid of about a twentieth of its spread.

Why a grid. A number plus floating-point noise can only take some values, and which ones depends on
the number (Mironov 2012), so the last digits of an answer can give away what the noise hides. On a
grid that is fixed beforehand every answer takes the same values. Rounding what is already noised
costs no privacy, and adds less than 0.04% to the variance. ``docs/privacy.md`` has what remains.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.privacy.gaussian import gaussian
from feddep.privacy.secret_stream import SecretStream

Floats = npt.NDArray[np.float32]
NoiseStream = np.random.Generator | SecretStream
"""Where a mechanism's draws come from: a simulation's named stream, or a silo's secret."""

_AT_ONCE = 1 << 16
_FOR_ROUNDING = 1e-5


def sum_type(rng: NoiseStream) -> npt.DTypeLike:
    """What terms are added up in before noise hides the sum.

    In float32 the sum of m terms of norm C may change by more than C where one of them changes:
    the rounding of all later additions moves with it. In float64 that is below C m² 2⁻⁵³.
    """
    return np.float64 if isinstance(rng, SecretStream) else np.float32


def below(rng: NoiseStream, clip: float) -> float:
    """The norm to clip to so that no term changes the sum by more than C, rounding included.

    A hundred-thousandth less than C, which is enough for 300,000 terms. A simulation's sums, which
    promise nothing, stay as they were.
    """
    return clip * (1 - _FOR_ROUNDING) if isinstance(rng, SecretStream) else clip


@contextmanager
def noised_sum(
    rng: NoiseStream, arrays: Sequence[npt.NDArray[Any]], spread: float
) -> Iterator[None]:
    """Makes the arrays hold what the body adds to them, plus N(0, spread²) on every number.

    Args:
        rng: for the noise.
        arrays: of the type of :func:`sum_type`, in C order. What they held before is forgotten.
        spread: the noise's standard deviation, σC.
    """
    if not isinstance(rng, SecretStream):
        # The sum begins with the noise, which saves a pass over all weights.
        for array in arrays:
            gaussian(rng, array)
            array *= np.float32(spread)
        yield
        return
    for array in arrays:
        array[...] = 0
    yield
    for array in arrays:
        _hide(rng, array, spread)


def with_noise(
    rng: NoiseStream, content: Floats, spread: float, base: Floats | None = None
) -> Floats:
    """``content`` with N(0, spread²) on every number, added to ``base``.

    Args:
        rng: for the noise.
        content: what the noise hides.
        spread: the noise's standard deviation.
        base: what everybody knows; None for nothing. Secret noise is added to the content alone:
            where the base is large, the sum of the two is rounded coarsely, and one example could
            change it by more than the noise is made for.
    """
    if not isinstance(rng, SecretStream):
        drawn = rng.standard_normal(content.shape, dtype=np.float32)
        noised: Floats = content if base is None else base + content
        return noised + np.float32(spread) * drawn
    hidden = np.array(content, np.float32, order="C")
    _hide(rng, hidden, spread)
    return hidden if base is None else base + hidden


def _hide(rng: SecretStream, array: npt.NDArray[Any], spread: float) -> None:
    """Adds N(0, spread²) to an array in C order, and rounds to multiples of :func:`_grid`."""
    if not spread:
        return
    flat, grid = array.reshape(-1), _grid(spread)
    for start in range(0, len(flat), _AT_ONCE):
        part = flat[start : start + _AT_ONCE]
        noised = part.astype(np.float64) + spread * rng.normals(len(part))
        part[...] = np.rint(noised / grid) * grid


def _grid(spread: float) -> float:
    """A power of two, by which a division is exact: from 1/32 to 1/16 of the spread."""
    return math.ldexp(1.0, math.frexp(spread)[1] - 5)
