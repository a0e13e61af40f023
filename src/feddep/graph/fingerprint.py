"""Recognising a graph by its edges and features, whatever its labels, split and name."""

import hashlib
import hmac
from functools import lru_cache

import numpy as np

from feddep.graph.graph import Array, Graph


def fingerprint(graph: Graph) -> str:
    """64 digits that are the same for the same links and features in the same order of nodes.

    Labels, split, node ids and name do not count: they do not change what a model computes.
    """
    digest = hashlib.blake2b(digest_size=32)
    features = graph.features
    parts: list[Array] = [graph.indptr.astype(np.int64), graph.indices.astype(np.int64)]
    if isinstance(features, np.ndarray):
        parts.append(features.astype(np.float32))
    else:
        parts += [features.indptr.astype(np.int64), features.indices.astype(np.int64)]
        parts.append(features.data.astype(np.float32))
    if graph.outside is not None:
        outside = graph.outside
        texts = (outside.ids.astype(np.str_), np.array(outside.names, np.str_))
        parts += [outside.nodes, outside.silos]
        parts += [np.frombuffer(text.tobytes(), np.uint8) for text in texts]
    for part in [np.array([graph.nodes, graph.feature_count]), *parts]:
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


@lru_cache(maxsize=4)
def sealed_fingerprint(graph: Graph, secret: int) -> str:
    """:func:`fingerprint` under a secret: it tells nobody else whether a guess at the graph fits.

    Cached, since a silo looks at its only graph before every answer.
    """
    return seal(fingerprint(graph), secret)


def seal(text: str, secret: int) -> str:
    """64 digits by which only somebody with the secret recognises the text."""
    return hmac.new(str(secret).encode(), text.encode(), "sha256").hexdigest()
