"""How close a released prototype comes to a single node's embedding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from feddep.learning.local_gnn import local_embeddings
from feddep.learning.silo import Silo

Floats = npt.NDArray[Any]

_MOST_NODES = 1000


@dataclass(frozen=True, eq=False)
class Inversion:
    """The prototypes of one client compared with its nodes.

    Attributes:
        ratios: ``(C',)``, distance of each prototype to the nearest node's embedding, as a
            multiple of the typical (median) distance between two nodes; 0 is a node in the clear.
        sizes: ``(C',)``, nodes in each prototype's cluster.
    """

    ratios: Floats
    sizes: npt.NDArray[np.int64]


def invert(prototypes: Floats, cluster: npt.NDArray[np.int64], silo: Silo) -> Inversion:
    """Compares what a client released with embeddings that only the simulation can compute."""
    embeddings, _ = local_embeddings(silo)
    return Inversion(
        nearness(prototypes, embeddings), np.bincount(cluster, minlength=len(prototypes))
    )


def nearness(prototypes: Floats, embeddings: Floats) -> Floats:
    """Each prototype's distance to the nearest node over the median distance between nodes."""
    step = -(-len(embeddings) // _MOST_NODES)  # enough for the median of a large silo
    some = embeddings[::step]
    between = cdist(some, some)[np.triu_indices(len(some), k=1)]
    typical = float(np.median(between)) if len(between) else 0.0
    nearest: Floats = cdist(prototypes, embeddings).min(axis=1)
    return nearest / typical if typical else np.zeros(len(prototypes))


def summary(found: Sequence[Inversion]) -> Mapping[str, Any] | None:
    """All clients' prototypes as plain numbers; None where there are none."""
    if not found:
        return None
    ratios = np.concatenate([one.ratios for one in found])
    sizes = np.concatenate([one.sizes for one in found])
    closest = int(ratios.argmin())
    return {
        "released": len(ratios),
        "smallest_ratio": float(ratios[closest]),
        "size_of_closest": int(sizes[closest]),
        "median_ratio": float(np.median(ratios)),
        "smallest_cluster": int(sizes.min()),
        "median_cluster": float(np.median(sizes)),
    }
