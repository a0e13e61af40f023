"""Gradient-boosted trees on the same columns: what a silo could do without any graph network."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingClassifier

from feddep.graph.graph import Graph, Part

Floats = npt.NDArray[np.float64]

MOST_COLUMNS = 2000
"""Beyond that, trees take longer than everything else, and are left out."""


def columns(graph: Graph) -> Floats:
    """``(n, d)`` a graph's own columns."""
    features = graph.features
    return np.asarray(features.toarray() if sp.issparse(features) else features, np.float64)


def with_neighbours(graph: Graph) -> Floats:
    """``(n, 2d + 1)`` own columns, their means over neighbours, and the number of neighbours."""
    own = columns(graph)
    edges = graph.edge_list()
    both = np.concatenate([edges, edges[:, ::-1]])
    adjacent = sp.csr_array(
        (np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(graph.nodes, graph.nodes)
    )
    degree = np.bincount(both[:, 0], minlength=graph.nodes)[:, None]
    return np.hstack([own, (adjacent @ own) / np.maximum(degree, 1), degree])


def probabilities(
    tables: Sequence[Floats], graphs: Sequence[Graph], where: int, seed: int
) -> Floats | None:
    """``(n, classes)`` for the nodes of one silo.

    Args:
        tables: of the silos that are trained on together, in most cases of one.
        graphs: their graphs.
        where: which of them is asked about.
        seed: of the trees.

    Returns:
        None if there is only one class to learn from.
    """
    masks = [graph.mask(Part.TRAIN) for graph in graphs]
    rows = np.concatenate([table[mask] for table, mask in zip(tables, masks, strict=True)])
    labels = np.concatenate([graph.labels[mask] for graph, mask in zip(graphs, masks, strict=True)])
    if len(np.unique(labels)) < 2:
        return None
    model = HistGradientBoostingClassifier(early_stopping=False, random_state=seed % 2**32)
    model.fit(rows, labels)
    found = np.zeros((graphs[where].nodes, graphs[where].classes))
    found[:, model.classes_] = model.predict_proba(tables[where])
    return found
