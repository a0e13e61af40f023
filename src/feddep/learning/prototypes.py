"""Local embeddings and their prototypes, the only thing about them that a silo shares.

Source: the paper's section 3.2, "Deep Neighbor Prototype Generation". A silo trains a GNN on its
subgraph, takes the node embeddings z_v, and groups them into C clusters; a prototype is a
cluster's mean.
"""

import hashlib
import warnings
from dataclasses import dataclass
from typing import Annotated
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import torch
from annotated_types import Ge, Gt
from scipy.cluster.vq import kmeans2
from torch import Tensor, nn

from feddep.errors import DisclosureError
from feddep.graph.sampling import EgoGraphs
from feddep.models.dropout import DropoutStream
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_HELD: WeakValueDictionary[tuple[tuple[int, ...], bytes], Floats] = WeakValueDictionary()

_STARTS = 4
_ITERATIONS = 30


@dataclass(frozen=True, kw_only=True)
class EmbeddingSpec:
    """The local GNN and the prototypes of its embeddings.

    Attributes:
        depth: L, hops that an embedding sees; 0 takes the features themselves.
        width: d_z, of the embeddings.
        epochs: N, epochs of training of the local GNN (paper: 50).
        learning_rate: of SGD on the local GNN.
        shared_start: every silo starts from the same weights; otherwise each starts from its own,
            and the silos' embeddings live in different spaces.
        warm_start: F starts from the average of the local GNNs, as far as shapes agree (all but
            the last convolution if L = K). It takes one more message up; not in the paper.
        code_noise: standard deviation of the noise on node codes that are sent to the server
            (FedGSL).
        code_neighbours: neighbours that the server finds for each code (FedGSL).
        clusters: C, the most prototypes that a silo releases.
        smallest: a cluster of fewer nodes is merged into the nearest other; a cluster of one
            would be a node's embedding.
        norm_bound: largest norm of a released prototype; 0 means √d_z, which tanh guarantees
            anyway, and for features (L = 0) no bound.
    """

    depth: Annotated[int, Ge(0)] = 2
    width: Annotated[int, Ge(1)] = 128
    epochs: Annotated[int, Ge(1)] = 50
    learning_rate: Annotated[float, Gt(0)] = 0.1
    shared_start: bool = True
    warm_start: bool = False
    code_noise: Annotated[float, Ge(0)] = 0.1
    code_neighbours: Annotated[int, Ge(1)] = 5
    clusters: Annotated[int, Ge(1)] = 10
    smallest: Annotated[int, Ge(1)] = 5
    norm_bound: Annotated[float, Ge(0)] = 0.0


class LocalGnn(nn.Module):
    """L convolutions, the last d_z wide, tanh after it, and a linear head for training.

    Args:
        model: the convolutions' form, as F's.
        spec: depth and width.
        features: d, feature columns.
        classes: outputs of the head.
    """

    def __init__(self, model: ModelSpec, spec: EmbeddingSpec, features: int, classes: int) -> None:
        super().__init__()
        shape = ModelSpec(
            form=model.form, layers=spec.depth, hidden=model.hidden, dropout=model.dropout
        )
        self.trunk = FusedSage(shape, features, spec.width)
        self.head = nn.Parameter(torch.empty(spec.width, classes))
        self.head_bias = nn.Parameter(torch.empty(classes))

    def embed(
        self, table: FeatureTable, ego: EgoGraphs, dropout: DropoutStream | None = None
    ) -> Tensor:
        """z of the targets, ``(t, d_z)`` in (-1, 1)."""
        return torch.tanh(self.trunk(table, ego, dropout=dropout))

    def forward(self, table: FeatureTable, ego: EgoGraphs, dropout: DropoutStream) -> Tensor:
        """Class scores of the targets."""
        return torch.addmm(self.head_bias, self.embed(table, ego, dropout), self.head)


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Clusters of a silo's embeddings.

    Attributes:
        centres: ``(C', d_z)`` cluster means, C' ≤ C; what the silo releases.
        cluster: ``(n,)`` every node's cluster; it stays in the silo.
    """

    centres: Floats
    cluster: Ints


def find_prototypes(embeddings: Floats, spec: EmbeddingSpec, seed: int) -> Prototypes:
    """k-means, then clusters below the smallest size allowed are merged into the nearest.

    Args:
        embeddings: ``(n, d_z)``.
        spec: number and smallest size of the clusters.
        seed: for the starting points of k-means.
    """
    count = max(1, min(spec.clusters, len(embeddings) // spec.smallest))
    starts = np.random.default_rng(seed)
    found = [_k_means(embeddings, count, starts) for _ in range(_STARTS)]
    _, cluster = min(found, key=lambda pair: pair[0])
    return merge_small(embeddings, cluster, spec.smallest)


def released(found: Prototypes, spec: EmbeddingSpec) -> Floats:
    """What may leave the silo; the last check, however the clusters were made.

    A longer prototype is shortened to the norm bound.

    Raises:
        DisclosureError: a cluster has fewer nodes than allowed, though it is not the only one.
    """
    sizes = np.bincount(found.cluster, minlength=len(found.centres))
    if len(found.centres) > 1 and sizes.min() < spec.smallest:
        raise DisclosureError(
            f"a prototype of {sizes.min()} nodes was to be released; "
            f"the smallest allowed is {spec.smallest} (embedding.smallest)"
        )
    bound = spec.norm_bound or (np.sqrt(spec.width) if spec.depth else np.inf)
    norms = np.linalg.norm(found.centres, axis=1, keepdims=True)
    shortened: Floats = found.centres * np.minimum(1, bound / np.maximum(norms, 1e-12))
    return np.where(norms > bound, shortened, found.centres).astype(np.float32)


def _k_means(embeddings: Floats, count: int, rng: np.random.Generator) -> tuple[float, Ints]:
    """The sum of squared distances to the nearest centres, and each node's cluster."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster is simply left out
        centres, cluster = kmeans2(embeddings, count, iter=_ITERATIONS, minit="++", rng=rng)
    return float(((embeddings - centres[cluster]) ** 2).sum()), cluster.astype(np.int64)


def merge_small(embeddings: Floats, cluster: Ints, smallest: int) -> Prototypes:
    """Merges the smallest cluster into the nearest one until all are large enough.

    If all nodes together are fewer than ``smallest``, one cluster remains.
    """
    while True:
        names, cluster, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
        sums = np.zeros((len(names), embeddings.shape[1]))
        np.add.at(sums, cluster, embeddings)
        centres = sums / sizes[:, None]
        small = int(sizes.argmin())
        if sizes[small] >= smallest or len(names) == 1:
            return Prototypes(centres.astype(np.float32), cluster)
        distance = ((centres - centres[small]) ** 2).sum(axis=1)
        distance[small] = np.inf
        cluster[cluster == small] = int(distance.argmin())


def held_once(centres: Floats) -> Floats:
    """The same prototypes, in memory once however many silos of this process were sent them.

    Each of M silos is sent those of M - 1 others. Nobody changes them.
    """
    whole = np.ascontiguousarray(centres)
    key = whole.shape, hashlib.blake2b(whole.data).digest()
    found = _HELD.get(key)
    if found is None:
        found = _HELD[key] = np.array(whole)
    return found
