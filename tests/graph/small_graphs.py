"""A small graph for the tests of folders, shards and tables, and what compares and damages them."""

import hashlib
import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from feddep.graph.graph import Graph, Part
from feddep.graph.shard import Shards

DENSE = np.array([[0.1, 0], [0, 1], [1, 1], [0, 0], [2, 1e-8]], np.float32)


def kite(**changes: object) -> Graph:
    """A triangle 0-1-2 with a tail 2-3 and a lonely node 4 without label."""
    given = {
        "edges": [(0, 1), (1, 2), (0, 2), (2, 3)],
        "features": sp.csr_array(DENSE),
        "labels": [0, 0, 1, 1, -1],
        "classes": 3,
        "node_ids": [10, -7, 30, 20, 2**40],
        "split": [Part.TRAIN, Part.VAL, Part.TEST, Part.TRAIN, Part.NONE],
        "name": "kite",
    }
    return Graph.from_edges(**(given | changes))  # type: ignore[arg-type]


def halves() -> Shards:
    """The kite with 0, 2 and 4 at client 0: the edges 0-1, 1-2 and 2-3 are lost."""
    return Shards(kite(), np.array([0, 1, 0, 1, 0]), kind="random", seed=3)


def assert_same(found: Graph, expected: Graph) -> None:
    for array in ("indptr", "indices", "labels", "node_ids", "split"):
        left, right = getattr(found, array), getattr(expected, array)
        assert np.array_equal(left, right), array
        assert left.dtype.kind == right.dtype.kind, array
    assert (found.classes, found.name) == (expected.classes, expected.name)
    assert type(found.features) is type(expected.features)
    if isinstance(expected.features, np.ndarray):
        assert np.array_equal(found.features, expected.features)
        return
    assert found.features.shape == expected.features.shape
    for array in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(found.features, array), getattr(expected.features, array))


def rewrite(folder: Path, name: str, content: str | bytes) -> None:
    """Changes a file and its hash: a folder made by hand rather than a damaged one."""
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = hashlib.sha256(data).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
