"""A silo's graph under aggregation perturbation: no edges, and noised sums beside the features.

The rows that are summed are class probabilities of an encoder that knows no edges. Each silo trains
its own, on its own training nodes; since a column is a class, sums of different silos mean the same
to one classifier. The encoder depends on nothing that a server could choose, neither seed nor
settings nor the number of classes: another encoder would be another release, with noise of its own.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from feddep.graph.graph import Features, Graph, Part
from feddep.graph.sampling import NeighbourSampler
from feddep.learning.spec import LearningSpec
from feddep.learning.threads import one_thread
from feddep.models.dropout import DropoutStream
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.models.sgd import SageSgd
from feddep.privacy.aggregation import Draw, noised_sums, sums_event, unit_rows
from feddep.seeding import Seeds

Floats = npt.NDArray[np.float64]

# Chosen on validation nodes of Cora and of generated data; see the study.
_MODEL = ModelSpec(layers=1, hidden=64, dropout=0.5)
_EPOCHS, _BATCH, _RATE = 50, 32, 0.1
_INPUT_NORM = 4.0  # about that of a bag of words of sixteen
_LARGEST_SCALE = 1e6


def aggregated(graph: Graph, spec: LearningSpec, draw: Draw | None) -> Graph:
    """The nodes without edges; x¹ … xᴷ are columns beside the features.

    They are as long as the features are in the root mean square, so that a classifier reads both.

    Args:
        graph: the true graph.
        spec: classes, ε, δ, K and D.
        draw: the noise, see :func:`~feddep.privacy.aggregation.noised_sums`; None adds none.
    """
    event = sums_event(spec.privacy)
    sums = noised_sums(graph, encodings(graph), event.hops, event.noise, draw)
    absent = [(0, 0), (0, spec.classes - graph.classes)]  # classes that other silos have
    length = float(np.sqrt(np.mean(_norms(graph.features) ** 2)))
    scale = min(length, _LARGEST_SCALE) or 1.0
    columns = np.hstack([np.pad(scale * rows, absent) for rows in sums]).astype(np.float32)
    return replace(graph.with_edges([]), features=_beside(graph.features, columns), schema=None)


def encodings(graph: Graph) -> Floats:
    """x⁰, ``(n, classes)``: class probabilities minus their mean, with rows of norm 1.

    They depend on features, labels and split alone. Without training nodes they are 0.
    """
    nodes, classes = graph.members(Part.TRAIN), graph.classes
    if not len(nodes):
        return np.zeros((graph.nodes, classes))
    alone = replace(graph.with_edges([]), features=_of_norm(graph.features, _INPUT_NORM))
    model, seeds = FusedSage(_MODEL, graph.feature_count, classes), Seeds(0).child("encoder")
    initialise(model, seeds)
    sgd = SageSgd(
        model,
        alone.features,
        alone.labels,
        rate=_RATE,
        decay=0.0,
        dropout=DropoutStream(_MODEL.dropout, seeds.integer("dropout")),
    )
    sampler = NeighbourSampler(alone, 1, _MODEL.layers)
    with one_thread():  # the noise is named after the encodings: they must be the same every time
        for batch in sampler.batches(nodes, _BATCH, seeds.stream("sampling"), _EPOCHS):
            sgd.step(batch)
        with torch.no_grad():
            scores = model.score_all(FeatureTable(alone.features, torch.device("cpu")), alone)
        probabilities = torch.softmax(scores.double(), dim=1).numpy()
    return unit_rows(probabilities - 1 / classes)


def _norms(features: Features) -> Floats:
    """``(n,)``; in double precision no square overflows."""
    if isinstance(features, np.ndarray):
        return np.asarray(np.sqrt((features.astype(np.float64) ** 2).sum(axis=1)))
    squares = features.astype(np.float64).power(2)
    return np.asarray(np.sqrt(squares.sum(axis=1)))


def _of_norm(features: Features, norm: float) -> Features:
    """The features with every row brought to one norm; rows of zeros stay."""
    norms = _norms(features)
    factors = norm / np.where(norms > 0, norms, 1.0)
    if isinstance(features, np.ndarray):
        return np.asarray((features * factors[:, None]).astype(np.float32))
    data = features.data * np.repeat(factors, np.diff(features.indptr))
    parts = (data.astype(np.float32), features.indices, features.indptr)
    return sp.csr_array(parts, features.shape)


def _beside(features: Features, columns: npt.NDArray[np.float32]) -> Features:
    if isinstance(features, np.ndarray):
        return np.hstack([features, columns])
    return sp.csr_array(sp.hstack([features, sp.csr_array(columns)], format="csr"))
