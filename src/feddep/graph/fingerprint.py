"""Recognising a graph by its edges and features, whatever its labels, split and name."""

import hashlib
import hmac
from functools import lru_cache

import numpy as np

from feddep.graph.graph import Array, Graph

_ROWS_AT_ONCE = 1 << 16


def fingerprint(graph: Graph) -> str:
    """64 digits that are the same for the same links and features in the same order of nodes.

    Labels, split, node ids and name do not count: they do not change what a model computes.
    """
    digest = hashlib.blake2b(digest_size=32)
    features = graph.features
    _add(digest, np.array([graph.nodes, graph.feature_count]))
    _add(digest, graph.indptr, np.int64)
    _add(digest, graph.indices, np.int64)
    if isinstance(features, np.ndarray):
        _add(digest, features, np.float32)
    else:
        _add(digest, features.indptr, np.int64)
        _add(digest, features.indices, np.int64)
        _add(digest, features.data, np.float32)
    if graph.flows is not None:
        _add(digest, graph.flows)
    if graph.outside is not None:
        outside = graph.outside
        texts = (outside.ids.astype(np.str_), np.array(outside.names, np.str_))
        for part in (outside.nodes, outside.silos):
            _add(digest, part)
        for text in texts:
            digest.update(text.tobytes())
    return digest.hexdigest()


def _add(digest: "hashlib.blake2b", array: Array, dtype: type[np.generic] | None = None) -> None:
    """Takes in an array, a part at a time: a large one in another type would be a second copy."""
    for start in range(0, len(array), _ROWS_AT_ONCE):
        part = array[start : start + _ROWS_AT_ONCE]
        digest.update(np.ascontiguousarray(part, dtype).data)


@lru_cache(maxsize=4)
def sealed_fingerprint(graph: Graph, secret: int) -> str:
    """:func:`fingerprint` under a secret: it tells nobody else whether a guess at the graph fits.

    Cached, since a silo looks at its only graph before every answer.
    """
    return seal(fingerprint(graph), secret)


def seal(text: str, secret: int) -> str:
    """64 digits by which only somebody with the secret recognises the text."""
    return hmac.new(str(secret).encode(), text.encode(), "sha256").hexdigest()
