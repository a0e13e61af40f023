"""Predictions of a stored run for one of its clients, whose subgraph is mended as in the run."""

import torch

from feddep.algorithms.method import Method
from feddep.errors import InputError
from feddep.graph.fingerprint import fingerprint
from feddep.graph.graph import Graph
from feddep.learning.classifier import Classifier
from feddep.learning.mending import Mended
from feddep.learning.silo import Silo, open_silo
from feddep.phases.averaging import Averaging
from feddep.privacy.perturb import perturbs
from feddep.runs.clients import ClientPart


def mended_for(
    classifier: Classifier, graph: Graph, method: Method, client: int, part: ClientPart
) -> Mended:
    """What a client's classifier is applied to, for a graph.

    Raises:
        InputError: the run did not keep what is needed, or it does not fit the graph.
    """
    hidden = perturbs(classifier.spec.privacy)
    own_graph = part.graph == fingerprint(graph)
    if part.graph is None and hidden:
        raise _not_kept(client, "which graph it had, so whether to perturb this one is unknown")
    if own_graph and hidden and part.draws == "seed":
        silo = open_silo(client, graph, classifier.spec, torch.device("cpu"))
    else:
        silo = classifier.silo(graph, client)
    return mended_in(silo, method, part, own_graph=own_graph)


def mended_in(silo: Silo, method: Method, part: ClientPart, *, own_graph: bool) -> Mended:
    """What a client's classifier is applied to, for an opened silo.

    Raises:
        InputError: the run did not keep what is needed, or it does not fit the graph.
    """
    phase = averaging_of(method)
    if phase is None:
        return Mended(silo)
    if phase.mender is not None:
        _check_kept(silo.client, part, silo.graph, own_graph=own_graph)
    return phase.mended_again(silo, part.memory, own_graph=own_graph)


def averaging_of(method: Method) -> Averaging | None:
    """The phase in which classifiers are scored on mended graphs, if there is one."""
    found = [phase for phase in method.phases if isinstance(phase, Averaging)]
    return found[-1] if found else None


def _check_kept(client: int, part: ClientPart, graph: Graph, *, own_graph: bool) -> None:
    if part.mending is None:
        raise _not_kept(client, "how its subgraph was mended in the best round")
    rows = part.mending.get("missing_embeddings")
    if own_graph and rows is not None and len(rows) != graph.nodes:
        raise InputError(
            f"client {client} kept embeddings for {len(rows)} nodes, but its graph has "
            f"{graph.nodes}; its mending.safetensors is from another run"
        )


def _not_kept(client: int, what: str) -> InputError:
    return InputError(
        f"this run did not keep for client {client} {what}; leave out the client to predict "
        "without missing neighbours, or run it again"
    )
