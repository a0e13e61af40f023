"""What a silo keeps of a finished run: the classifier, how it mended, and its own scores."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from feddep.deployment.protocol.agreement import Agreement
from feddep.errors import InputError
from feddep.federation.messages import State, group
from feddep.graph.fingerprint import fingerprint
from feddep.graph.graph import Graph
from feddep.learning.classifier import Classifier
from feddep.learning.silo import Silo
from feddep.runs.clients import ClientPart, Draws
from feddep.runs.files import SILO_RECORD, write_atomically, write_sums
from feddep.runs.measuring import Scored, accuracies, own_measures
from feddep.runs.prediction import mended_in
from feddep.runs.weight_files import write_model


def write_results(
    folder: Path,
    known: Mapping[str, Any],
    news: Mapping[str, Any],
    classifier: State,
    part: ClientPart,
    measures: Mapping[str, Any] | None,
    graph: Graph,
) -> None:
    """Writes what :func:`feddep.open_run` opens.

    Args:
        folder: where to.
        known: the agreement, as the silo remembers it, and what the owner reads of its promise.
        news: what the server said at the end; the pooled scores are among it.
        classifier: of the best round; empty if there is none.
        part: what the silo has besides.
        measures: its own scores; None if they cannot be known.
        graph: the silo's.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if classifier:
        write_model(folder / "model.safetensors", [classifier], graph.schema)
    part.write(folder)
    write_atomically(folder / "spec.toml", known["spec"])
    write_sums(folder, [*sorted(folder.glob("*.safetensors")), folder / "spec.toml"])
    report = {
        "run": known["run"],
        "client": known["client"],
        "data": {"features": known["features"], "classes": known["classes"]},
        "privacy": {"sound": known["sound"], "means": known["means"]},
        "scores": None if measures is None else accuracies(measures),
        "measures": measures,
        "pooled": news.get("scores"),
    }
    write_atomically(folder / SILO_RECORD, json.dumps(report, indent=2) + "\n")


def part_of(graph: Graph, kept: State | None, last: State, *, secret: bool) -> ClientPart:
    """What a silo has besides the classifier."""
    draws: Draws = "secret" if secret else "seed"
    return ClientPart.from_memory(fingerprint(graph), kept, last, draws)


def measures_at_silo(
    agreement: Agreement, silo: Silo, graph: Graph, weights: State, part: ClientPart
) -> dict[str, Any] | None:
    """A silo's scores on its own nodes, mended as in the best round; None if it cannot know them.

    Args:
        agreement: what was run.
        silo: as it took part, behind its mechanism.
        graph: the silo's own, with its labels and split.
        weights: of the best round's classifier.
        part: what it kept of that round.
    """
    if not weights:
        return None
    classifier = Classifier(agreement.learning, weights, graph.schema)
    try:
        mended = mended_in(silo, agreement.method, part, own_graph=True)
    except (InputError, LookupError):  # the best round's memory is lost
        return None
    scores = classifier.scores(mended)[: graph.nodes]
    return own_measures(Scored(graph, scores), agreement.spec.selection.metric)


def own_classifier(state: State, sent: State) -> State:
    """The classifier of the best round: the one for all, or the silo's own."""
    return group(sent, "classifier") or group(state, "classifier")
