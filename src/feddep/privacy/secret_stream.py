"""Random draws from a key: the noise of a silo that has a secret.

numpy's generators are made for simulations: from some of PCG64's outputs the others can be
computed. A mechanism's noise must look random to an adversary, so a real silo draws it from
AES-256 in counter mode, whose outputs tell nothing about one another to whoever lacks the key.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

Words = npt.NDArray[np.uint64]
Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

_BLOCK = 16  # bytes
_DIGITS = 62  # of a gap, so that it fits into 64 bits
_PRECISION = 1280  # bits of a power of 1 - p after the point; enough for the smallest double


@dataclass
class SecretStream:
    """The key stream of AES-256-CTR as random numbers.

    A copy draws the same numbers again. That is for reading one draw twice; two questions that
    were answered from the same numbers would show what differs between the answers.

    Attributes:
        key: 32 bytes; see :meth:`feddep.seeding.Seeds.key`.
        block: the number of the next block, which is the counter, big-endian. A call begins with
            a block of its own.
    """

    key: bytes
    block: int = 0

    def words(self, size: int) -> Words:
        """``(size,)`` uniform words of 64 bits: the key stream, read as little-endian numbers."""
        blocks = -(-8 * size // _BLOCK)
        cipher = Cipher(AES(self.key), CTR(self.block.to_bytes(_BLOCK, "big"))).encryptor()
        stream = cipher.update(bytes(_BLOCK * blocks))
        self.block += blocks
        return np.frombuffer(stream, "<u8")[:size].astype(np.uint64, copy=False)

    def random(self, size: int) -> Doubles:
        """``(size,)`` uniform multiples of 2⁻⁵³ in [0, 1), as numpy draws them."""
        return (self.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def geometric(self, p: float, size: int) -> Longs:
        """``(size,)`` numbers of coins of probability p up to the first head, 1 or more.

        The binary digits of a geometric number less 1 are independent, and digit i is 1 with
        probability r/(1 + r), where r = (1 - p)^(2^i). Each is decided by comparing whole numbers
        of 128 bits. So there are no logarithms, whose last digit depends on the processor: one
        gap that came out differently on another machine would move all later flips, and a silo
        that moved would give a second, independent answer. A number beyond 2⁶² is given as 2⁶².

        Raises:
            ValueError: p is not a probability above 0.
        """
        if not 0 < p <= 1:
            raise ValueError(f"expected a probability above 0 (got {p})")
        found = np.ones(size, np.int64)
        for digit, threshold in enumerate(digit_thresholds(p)):
            high, low = (np.uint64(part) for part in divmod(threshold, 2**64))
            words = self.words(size)
            ones = words < high
            ties = np.flatnonzero(words == high)
            if len(ties):
                ones[ties] = self.words(len(ties)) < low
            if digit < _DIGITS:
                found += ones.astype(np.int64) << digit
            else:
                found[ones] = 1 << _DIGITS
        return found

    def normals(self, size: int) -> Doubles:
        """``(size,)`` independent N(0, 1) in double precision, by Box and Muller 1958.

        The radius is √(-2 ln u). u has 53 significant bits however small it is, down to 2⁻⁶⁵: a
        count of coin tosses is its exponent. So far numbers (up to 9.4) are as fine as near ones.
        """
        half = -(-size // 2)
        exponent, mantissa, angle = self.words(3 * half).reshape(3, half)
        # The number of zeros below the lowest one: 64 if there is none.
        zeros = np.bitwise_count(~exponent & (exponent - np.uint64(1)))
        u = np.ldexp(0.5 + (mantissa >> np.uint64(12)) * 2.0**-53, -zeros.astype(np.int32))
        radius = np.sqrt(-2 * np.log(u))
        turn = angle * (2 * np.pi * 2.0**-64)
        return np.concatenate([radius * np.cos(turn), radius * np.sin(turn)])[:size]


def digit_thresholds(p: float) -> list[int]:
    """For each binary digit of a geometric number less 1: the probability of a 1, times 2¹²⁸."""
    over, under = p.as_integer_ratio()
    one = 1 << _PRECISION
    power = one - over * one // under
    found = []
    while threshold := (power << 128) // (one + power):
        found.append(threshold)
        power = power * power >> _PRECISION
    return found
