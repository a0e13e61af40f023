"""DP-SGD at a silo: how much noise, on which lists, and how F is trained so that it covers all.

Only with a cap on occurrences (``privacy.occurrences``) does the noise cover an edge; the proof is
in :mod:`feddep.privacy.occurrences`. Besides F's weights a client sends scores and a loss. Where
the noise is to cover all, these are computed without any edges, from weights that were sent anyway
and nodes that count as public. FedGNN trains in the same way, but is scored on its edges.
"""

import hashlib
import math

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from feddep.errors import DivergedError, InputError
from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import Lists
from feddep.learning.dp_sgd import dp_sgd
from feddep.learning.evaluation import predict
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.dropout import DropoutStream
from feddep.models.sage import FusedSage
from feddep.models.sgd import SageSgd
from feddep.models.weights import Weights, from_arrays, to_arrays
from feddep.privacy.accountant import capped_event, dp_sgd_event
from feddep.privacy.events import NoisedGradients
from feddep.privacy.occurrences import capped_lists
from feddep.seeding import Seeds


def embedding_gradients(
    spec: LearningSpec, graph: Graph, phase: str = "local_gnn"
) -> NoisedGradients:
    """The event of DP-SGD on a silo's local GNN, as the spec asks for it."""
    examples, batch = len(graph.members(Part.TRAIN)), spec.training.batch_size
    if not spec.privacy.edges_capped:
        return dp_sgd_event(spec.privacy, "embeddings", examples, batch, spec.embedding.epochs)
    return capped_event(
        spec.privacy,
        purpose="embeddings",
        phase=phase,
        examples=examples,
        batch=batch,
        epochs=spec.embedding.epochs,
        trainings=1,
        hops=spec.embedding.depth,
        edges=graph.edges,
    )


def classifier_gradients(
    spec: LearningSpec, graph: Graph, phase: str = "averaging"
) -> NoisedGradients:
    """The event of DP-SGD on F in all rounds of averaging, as the spec asks for it."""
    training, examples = spec.training, len(graph.members(Part.TRAIN))
    epochs = training.rounds * training.local_epochs
    if not spec.privacy.edges_capped:
        return dp_sgd_event(spec.privacy, "classifier", examples, training.batch_size, epochs)
    return capped_event(
        spec.privacy,
        purpose="classifier",
        phase=phase,
        examples=examples,
        batch=training.batch_size,
        epochs=epochs,
        trainings=training.rounds,
        hops=spec.model.layers,
        edges=graph.edges,
    )


def inner_lists(silo: Silo) -> Lists | None:
    """The lists of all but the outermost hop, the same in every round; None without a cap."""
    spec = silo.spec.privacy
    if not spec.edges_capped:
        return None
    priority = silo.mechanism(silo.seeds, "occurrences").random(len(silo.graph.indices))
    return capped_lists(silo.graph, spec.occurrences, priority)


def without_edges(graph: Graph) -> Graph:
    """The nodes alone, which count as public."""
    return graph.with_edges([])


def train_privately(
    model: FusedSage, silo: Silo, seeds: Seeds, missing_embeddings: Tensor | None = None
) -> float:
    """Trains ``model`` in place for one round of DP-SGD; see :class:`~.trainer.Trainer`.

    Returns:
        The loss before the round, over the training nodes without any edges.
    """
    spec, graph = silo.spec, silo.graph
    training, nodes = spec.training, graph.members(Part.TRAIN)
    if missing_embeddings is not None:
        raise InputError("DP-SGD does not cover embeddings of missing neighbours")
    if not len(nodes):
        return 0.0
    logits = predict(model, without_edges(graph), silo.table)[nodes]
    loss = cross_entropy(logits, silo.labels[nodes]).item()
    if not math.isfinite(loss):
        raise DivergedError(
            f"training diverged at client {silo.client}: its loss is no longer a number; lower "
            f"training.learning_rate (it is {training.learning_rate}) or privacy.noise"
        )
    weights = to_arrays(model)
    local = spec.classifier(weights)  # gradients by hand need the CPU
    event = classifier_gradients(spec, graph)
    dp_sgd(
        SageSgd(
            local,
            graph.features,
            graph.labels,
            rate=training.learning_rate,
            decay=0.0,
            dropout=DropoutStream(0.0, 0),
        ),
        graph,
        layers=spec.model.layers,
        batch_size=min(training.batch_size, len(nodes)),
        epochs=training.local_epochs,
        rate=training.learning_rate,
        noise=event.noise,
        clip=event.clip,
        rng=silo.mechanism(seeds, "dp-sgd", _question(silo, weights)),
        inner=inner_lists(silo),
        decay=training.weight_decay,
    )
    from_arrays(model, to_arrays(local))
    return loss


def _question(silo: Silo, weights: Weights) -> str:
    """A name for the noise, made from settings, weights and edges.

    A different question gets different noise: noise that two answers share could be subtracted,
    and a silo's secret is the same in every run.
    """
    digest = hashlib.sha256(repr(silo.spec).encode())
    for array in (*weights.values(), silo.graph.indptr, silo.graph.indices):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
