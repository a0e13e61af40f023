"""Standard normal numbers from random bits, fast and the same on every processor.

DP-SGD needs one for every weight at every step. numpy's own take longer than the gradients; these
take a fifth of that. Only operations that IEEE 754 rounds exactly are used (no fused ones, nothing
from a vendor's library), so the bits decide the numbers. Where the bits come from is the caller's
business: a simulation takes those of a named stream.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint64]

_AT_ONCE = 256  # pairs
_F = np.float32
_SINE = tuple(
    _F((-1) ** k * (2 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1)) for k in range(6)
)
_COSINE = tuple(_F((-1) ** k * (2 * math.pi) ** (2 * k) / math.factorial(2 * k)) for k in range(7))
_ROOT_HALF = np.int32(np.float32(math.sqrt(0.5)).view(np.int32))
_LN_2 = _F(math.log(2))


def gaussian(rng: np.random.Generator, out: npt.NDArray[Any]) -> None:
    """Fills a float32 array in C order with independent N(0, 1), from the bits of a stream."""
    normals(rng.integers(0, 2**64, (out.size + 1) // 2, np.uint64), out.reshape(-1))


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def normals(words: Words, out: Floats) -> None:
    """Fills ``out``, ``(n,)``, from ⌈n/2⌉ uniform words: √(-2 ln u) (±cos 2πt, sin 2πt).

    Source: Box and Muller 1958. A word is 31 bits of u in (0, 1], the sign, and 32 bits of t in
    [-1/4, 1/4). No number is beyond 6.7.
    """
    half = len(words)
    radius, angle = np.empty(_AT_ONCE, np.float32), np.empty(_AT_ONCE, np.float32)
    for start in range(0, half, _AT_ONCE):
        part = words[start : start + _AT_ONCE]
        _radii(part, radius)
        first, second = out[start : start + len(part)], out[half + start : half + start + len(part)]
        # Each loop holds nothing but arithmetic, so that it compiles to vector instructions.
        for i in range(len(part)):
            angle[i] = np.float32(np.int32(np.uint32(part[i]))) * np.float32(2.0**-33)
        for i in range(len(first)):
            sign = np.float32(1 - 2 * np.int32((part[i] >> np.uint64(32)) & np.uint64(1)))
            first[i] = sign * radius[i] * _cosine(angle[i])
        for i in range(len(second)):
            second[i] = radius[i] * _sine(angle[i])


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def _radii(words: Words, radius: Floats) -> None:
    """√(-2 ln u). With u = m 2^e and m from √½ to √2, ln m is 2 artanh((m - 1) / (m + 1))."""
    u = np.empty(_AT_ONCE, np.float32)
    bits = u.view(np.int32)
    for i in range(len(words)):
        high = np.float32(np.int32(words[i] >> np.uint64(33)))
        u[i] = (high + np.float32(0.5)) * np.float32(2.0**-31)
    for i in range(len(words)):
        exponent = np.int32((bits[i] - _ROOT_HALF) >> np.int32(23))
        bits[i] -= exponent << np.int32(23)
        radius[i] = np.float32(exponent) * _LN_2
    for i in range(len(words)):
        s = (u[i] - np.float32(1)) / (u[i] + np.float32(1))
        q = s * s
        series = np.float32(1 / 7) + q * np.float32(1 / 9)
        series = np.float32(1 / 3) + q * (np.float32(1 / 5) + q * series)
        log = radius[i] + np.float32(2) * (s + s * (q * series))
        # At u = 1 rounding may leave a tiny positive logarithm.
        radius[i] = np.sqrt(np.float32(-2) * log if log < np.float32(0) else np.float32(0))


@njit(inline="always")
def _cosine(t: np.float32) -> np.float32:
    """cos 2πt for |t| ≤ 1/4."""
    q = t * t
    high = _COSINE[4] + q * (_COSINE[5] + q * _COSINE[6])
    return _COSINE[0] + q * (_COSINE[1] + q * (_COSINE[2] + q * (_COSINE[3] + q * high)))


@njit(inline="always")
def _sine(t: np.float32) -> np.float32:
    """sin 2πt for |t| ≤ 1/4."""
    q = t * t
    high = _SINE[3] + q * (_SINE[4] + q * _SINE[5])
    return t * (_SINE[0] + q * (_SINE[1] + q * (_SINE[2] + q * high)))
