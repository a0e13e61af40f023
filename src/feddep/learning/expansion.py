"""Adding nodes to a silo's graph: neighbours that were generated or received from others."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from feddep.graph.csr import checked_csr
from feddep.graph.graph import Features, Graph, Part


def expand(graph: Graph, links: npt.NDArray[np.int64], features: Features) -> Graph:
    """The graph with additional nodes, which have no label and are in no part of the split.

    Args:
        graph: n nodes.
        links: ``(L, 2)`` a node of the graph and one of the new nodes, numbered from 0. Messages
            flow both ways, so a new node does affect what is computed for an old one.
        features: of the new nodes, ``(k, d)``.
    """
    count = features.shape[0]
    new_edges = np.stack([links[:, 0], links[:, 1] + graph.nodes], axis=1)
    return Graph.from_edges(
        np.concatenate([graph.edge_list().astype(np.int64), new_edges]),
        stacked([graph.features, features]),
        np.concatenate([graph.labels, np.full(count, -1)]),
        classes=graph.classes,
        split=np.concatenate([graph.split, np.full(count, Part.NONE)]),
        name=graph.name,
    )


def stacked(parts: list[Features]) -> Features:
    """Features of several sets of nodes, one after the other."""
    dense = [part for part in parts if isinstance(part, np.ndarray)]
    if len(dense) == len(parts):
        return np.concatenate(dense)
    return sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts]))


def features_to(features: Features) -> dict[str, npt.NDArray[Any]]:
    """Features as arrays for messages and memories; sparse ones stay sparse."""
    if isinstance(features, np.ndarray):
        return {"rows": features}
    return {name: getattr(features, name) for name in ("indptr", "indices", "data")}


def features_from(arrays: dict[str, npt.NDArray[Any]], columns: int) -> Features:
    """The inverse of :func:`features_to`."""
    if "rows" in arrays:
        return arrays["rows"]
    indptr = arrays["indptr"]
    return checked_csr(arrays["data"], arrays["indices"], indptr, (len(indptr) - 1, columns))
