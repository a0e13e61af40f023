"""The record's entry on generation: what the clients' generators did in the best round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from feddep.algorithms.method import Method
from feddep.errors import InputError
from feddep.federation.messages import State
from feddep.graph.graph import Features, Graph
from feddep.graph.shard import Shards
from feddep.graph.silos import ClientData
from feddep.learning.classifier import Classifier
from feddep.learning.expansion import features_from
from feddep.learning.generation_quality import SiloQuality, measure_generation
from feddep.learning.mending import Mended, Recalling
from feddep.learning.silo import Silo, open_silo
from feddep.learning.threads import one_thread
from feddep.runs.clients import ClientPart
from feddep.runs.prediction import averaging_of


def generation_record(
    method: Method,
    classifier: Classifier | None,
    shards: ClientData,
    clients: Mapping[int, ClientPart],
    states: Sequence[State],
) -> dict[str, Any] | None:
    """What was generated, and what the classifier makes of it; None if nothing can be known.

    Every silo is opened again, so what is measured is what it worked with: the same draws flip the
    same edges.

    Args:
        method: what was run.
        classifier: that of the best round, if all clients have the same one.
        shards: the clients' data, with the edges between them where these are known.
        clients: what each kept in the best round.
        states: each client's memory after the last round, for its nodes' own embeddings; nothing
            if they keep it to themselves.
    """
    if classifier is None or not states or method.whole_graph:
        return None
    with one_thread():  # as clients compute; and runs that share a machine would wait for threads
        opened = {
            client: _mended_again(method, classifier, shards, client, part)
            for client, part in clients.items()
        }
        silos = {
            client: _quality(classifier, own, clients[client], states[client])
            for client, own in opened.items()
            if own is not None
        }
        if len(silos) < len(clients):
            return None
        found = measure_generation(list(silos.values()), classifier.weight_ratio())
    dead = [client for client, silo in silos.items() if _is_dead(silo, clients[client])]
    return {**found, "dead": dead}


@dataclass(frozen=True, eq=False)
class _Opened:
    """A silo after the run.

    Attributes:
        silo: with the graph that it worked with.
        mended: as in the best round.
        lost: ``(n,)`` how many edges each node has to other silos; None if nobody knows.
    """

    silo: Silo
    mended: Mended
    lost: npt.NDArray[np.int64] | None


def _mended_again(
    method: Method, classifier: Classifier, shards: ClientData, client: int, part: ClientPart
) -> _Opened | None:
    """A silo opened again; None if nothing is mended, or nobody can say how it was."""
    phase = averaging_of(method)
    if phase is None or not isinstance(phase.mender, Recalling) or part.mending is None:
        return None
    graph = shards[client]
    silo = open_silo(client, graph, classifier.spec, torch.device("cpu"))
    try:
        mended = phase.mended_again(silo, part.memory, own_graph=True)
    except (InputError, LookupError):  # a mender of somebody's own, with memories of its own
        return None
    lost = None
    if isinstance(shards, Shards):
        lost = shards.graph.degrees[shards.members(client)] - graph.degrees
    return _Opened(silo, mended, lost)


def _is_dead(silo: SiloQuality, part: ClientPart) -> bool:
    """Whether there is a generator and nothing comes out of it."""
    finite = all(np.isfinite(array).all() for array in part.generator.values())
    return bool(part.generator) and not (finite and silo.mended.any())


def _quality(
    classifier: Classifier, opened: _Opened, part: ClientPart, state: State
) -> SiloQuality:
    silo, mended, kept = opened.silo, opened.mended, part.mending or {}
    rows, counts = _rows_and_counts(kept, mended, silo.graph)
    return SiloQuality(
        silo.graph,
        rows,
        kept.get("counts", counts),
        opened.lost,
        _own(classifier, silo, state),
        _predictions(classifier, mended, silo.graph),
        _predictions(classifier, Mended(silo), silo.graph),
    )


def _rows_and_counts(
    kept: Mapping[str, npt.NDArray[Any]], mended: Mended, graph: Graph
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]:
    """z̄, or the mean features of added nodes; and how many were added."""
    if mended.missing_embeddings is not None:
        return mended.missing_embeddings.numpy(), None
    if "added/links" not in kept:
        return np.zeros((graph.nodes, 1), np.float32), None
    added = {name.removeprefix("added/"): array for name, array in kept.items()}
    owners, numbers = added["links"].T
    counts = np.bincount(owners, minlength=graph.nodes).astype(np.float32)
    features = features_from(added, graph.feature_count)[numbers]
    order = np.argsort(owners, kind="stable")
    rows = features[order]
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    total = np.zeros((graph.nodes, graph.feature_count), np.float32)
    np.add.at(total, owners[order], dense)
    return (total / np.maximum(counts, 1)[:, None]).astype(np.float32), counts


def _own(classifier: Classifier, silo: Silo, state: State) -> Features | None:
    """The nodes' own embeddings, of the kind that their missing neighbours have."""
    spec = classifier.spec
    if spec.fusion == "last":  # hidden states
        model = spec.classifier(classifier.weights)
        with torch.no_grad():
            nodes = np.arange(silo.graph.nodes)
            return np.asarray(model.hidden_states(silo.table, silo.graph, nodes).numpy())
    if spec.fusion in ("none", "codes") or not spec.embedding.depth:
        return silo.graph.features
    for name in ("embeddings", "prototypes"):  # each node a prototype: of methods without Proto
        if name in state and len(state[name]) == silo.graph.nodes:
            return np.asarray(state[name])
    return None


def _predictions(classifier: Classifier, mended: Mended, graph: Graph) -> npt.NDArray[np.int64]:
    """The most probable class of each of the silo's own nodes, which come first."""
    found: npt.NDArray[np.int64] = classifier.scores(mended)[: graph.nodes].argmax(dim=1).numpy()
    return found
