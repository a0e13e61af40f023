"""k-ary randomised response that gives the same answer to the same question every time.

A value of k possible ones is kept with probability p = e^ε / (e^ε + k - 1), and otherwise becomes
one of the others, each with the same probability. Whoever sees the answer can tell two values apart
with odds of at most e^ε (Kairouz et al. 2016, "Discrete distribution estimation under local
privacy"). If noise were drawn anew, a hundred answers about one node would average out; so it
follows from a key, the node's id and its value alone (Erlingsson et al. 2014, RAPPOR's permanent
response), in whatever run, round and company the node is asked about.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

Array = npt.NDArray[Any]
Longs = npt.NDArray[np.int64]

_BLOCK = 16


def keep_probability(epsilon: float, values: int) -> float:
    """p, the probability that a value is answered as it is."""
    return 1 / (1 + (values - 1) * math.exp(-epsilon))


def response_matrix(epsilon: float | None, values: int) -> npt.NDArray[np.float64]:
    """``(k, k)`` the probability of each answer (column) to each value (row); None: no noise."""
    if epsilon is None or values == 1:
        return np.eye(values)
    keep = keep_probability(epsilon, values)
    matrix = np.full((values, values), (1 - keep) / (values - 1))
    np.fill_diagonal(matrix, keep)
    return matrix


def permanent_response(
    codes: Longs, node_ids: Array, values: int, epsilon: float, key: bytes
) -> Longs:
    """The answers for some nodes, ``(n,)`` in 0 … k - 1.

    Args:
        codes: ``(n,)`` the true values.
        node_ids: ``(n,)`` the owner's names for the nodes.
        values: k.
        epsilon: ε of one answer.
        key: 32 bytes that belong to this question; nobody else has them.
    """
    if values == 1 or not len(codes):
        return codes
    drawn = _hashes(node_ids, codes, key)
    uniform = (drawn[:, 0] >> np.uint64(11)) * 2.0**-53
    shift = 1 + (drawn[:, 1] % np.uint64(values - 1)).astype(np.int64)
    kept = uniform < keep_probability(epsilon, values)
    return np.where(kept, codes, (codes + shift) % values)


def _hashes(node_ids: Array, codes: Longs, key: bytes) -> npt.NDArray[np.uint64]:
    """``(n, 2)`` a keyed hash of each id and value.

    An encrypted CBC-MAC with AES: the ids' blocks under one half of the key, then the value under
    the other. All ids go through the cipher at once, block by block; one that is shorter than
    others stops earlier, so a hash does not depend on what else is in the array.
    """
    texts = node_ids.astype(np.str_)
    width = max(1, -(-texts.dtype.itemsize // _BLOCK))
    padded = texts.astype(f"<U{width * _BLOCK // 4}")
    blocks = padded.view(np.uint64).reshape(len(texts), width, 2)
    inner, outer = _cipher(key[:16]), _cipher(key[16:32])
    state = np.zeros((len(texts), 2), np.uint64)
    for place in range(width):
        block = blocks[:, place]
        goes_on = block.any(axis=1)
        state[goes_on] = _encrypted(inner, state[goes_on] ^ block[goes_on])
    state[:, 0] ^= codes.astype(np.uint64)
    return _encrypted(outer, state)


def _cipher(key: bytes) -> Cipher[modes.ECB]:
    return Cipher(algorithms.AES(key), modes.ECB())


def _encrypted(cipher: Cipher[modes.ECB], blocks: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each row of 16 bytes through the block cipher, a pseudo-random permutation."""
    encryptor = cipher.encryptor()
    done = encryptor.update(np.ascontiguousarray(blocks).tobytes()) + encryptor.finalize()
    return np.frombuffer(done, np.uint64).reshape(-1, 2).copy()
