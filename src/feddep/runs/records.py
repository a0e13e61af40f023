"""The record of a run: what was run, what came out, what it cost. Plain data, stored as JSON."""

import platform
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from threadpoolctl import threadpool_info

from feddep.algorithms import find_method, fingerprint
from feddep.graph.graph import Part
from feddep.graph.silos import ClientData
from feddep.learning.selection import Selection
from feddep.runs.files import Record
from feddep.scenario import presets
from feddep.scenario.spec import RunSpec


def make_record(
    spec: RunSpec,
    *,
    split: str,
    data: Mapping[str, float | None],
    history: list[dict[str, Any]],
    best: int,
    seconds: Mapping[str, Any],
    traffic: Mapping[str, Mapping[str, int]],
    privacy: Mapping[str, Any],
    generation: Mapping[str, Any] | None = None,
    selection: Selection | None = None,
) -> Record:
    """Puts a record together.

    Args:
        spec: the run's spec.
        split: the split that was used; data may bring their own.
        data: sizes of the whole graph and what its clients lose, see :func:`sizes_of`.
        history: one entry for each round.
        best: the round whose classifier is returned.
        seconds: times in all and by phase.
        traffic: bytes by phase.
        privacy: what is promised about the clients' edges.
        generation: what the clients' generators did, see :mod:`feddep.runs.generation`.
        selection: by what the best round was chosen; None by accuracy.
    """
    chosen, last, by = entry_of(history, best), history[-1], selection or Selection()
    return {
        "method": spec.method,
        "dataset": spec.dataset,
        "clients": spec.partition.clients,
        "rounds": spec.training.rounds,
        "seed": spec.seed,
        "split": split,
        "partition": spec.partition.kind,
        "preset": spec.preset,
        "data": dict(data),
        "settings": _settings(spec),
        "best_round": best,
        "selection": {
            "metric": by.metric,
            "ties": by.spec.ties,
            "value": by.value(chosen["silo"]),
            "positive": by.positive,
        },
        "scores": {
            "global": {**_accuracies(chosen["global"]), "test_last": last["global"]["test"]},
            "silo": _accuracies(chosen["silo"]),
        },
        "seconds": dict(seconds),
        "traffic": {
            "up_bytes": sum(phase["up_bytes"] for phase in traffic.values()),
            "down_bytes": sum(phase["down_bytes"] for phase in traffic.values()),
            "phases": {name: dict(counts) for name, counts in traffic.items()},
        },
        "privacy": dict(privacy),
        "generation": None if generation is None else dict(generation),
        "versions": versions() | _own_version(spec.method),
    }


def _accuracies(scores: Mapping[str, Any]) -> dict[str, Any]:
    return {part: scores[part] for part in ("test", "val")}


def _settings(spec: RunSpec) -> dict[str, Any]:
    """What was used to learn; of links only where the method uses any."""
    used = spec.settings_of(presets.SECTIONS)
    if not find_method(spec.method).linked:
        return used
    return used | spec.settings_of(["links"]) | {"partition.links": spec.partition.links}


def sizes_of(shards: ClientData) -> dict[str, float | None]:
    """How large the data are and, if it is known, what share of the edges is lost between clients.

    Needed to compute what a run should have cost, and when it pays to mend the graph.
    """
    graphs = shards if shards.whole is None else [shards.whole]
    return {
        "nodes": shards.nodes,
        "edges": shards.edges,
        "features": shards.feature_count,
        "classes": shards.classes,
        "validation_nodes": sum(len(graph.members(Part.VAL)) for graph in graphs),
        "lost_share": shards.lost_share,
    }


def entry_of(history: Sequence[Mapping[str, Any]], round: int) -> Mapping[str, Any]:
    """The history's entry about one round."""
    return next(entry for entry in history if entry["round"] == round)


def thin_history(history: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """A history as columns with few digits: small enough to be stored with a record, for curves."""

    def column(digits: int, *path: str) -> list[float | None]:
        values = (_at(entry, path) for entry in history)
        return [None if value is None else round(value, digits) for value in values]

    return {
        "round": column(0, "round"),
        "loss": column(5, "loss"),
        "global_test": column(5, "global", "test"),
        "silo_test": column(5, "silo", "test"),
        "silo_val": column(5, "silo", "val"),
        "seconds": column(3, "seconds"),
    }


def _at(entry: Any, path: Sequence[str]) -> Any:
    for key in path:
        entry = entry[key]
    return entry


def versions() -> dict[str, str]:
    """What a result may depend on besides the spec."""
    found = {"python": platform.python_version()}
    for package in ("feddep", "torch", "numpy", "scipy", "numba", "igraph"):
        found[package] = _version_of(package)
    return {**found, "processor": _processor()}


@lru_cache
def _version_of(package: str) -> str:
    """Cached: a silo says its version in many messages, and looking it up reads files."""
    try:
        return version(package)
    except PackageNotFoundError:  # pragma: no cover - run from a source tree
        return "unknown"


def _own_version(method: str) -> dict[str, str]:
    """The fingerprint of a user's own method, whose file may change from run to run."""
    own = fingerprint(method)
    return {} if own is None else {"method": own}


def is_of_today(record: Record) -> bool:
    """Whether the method is still the one that was run, judged by its file."""
    return bool(record.get("versions", {}).get("method") == fingerprint(record.get("method", "")))


def _processor() -> str:
    """The kind of processor as BLAS sees it; on another kind, sums are taken in another order."""
    kinds = {found.get("architecture") for found in threadpool_info()} - {None}
    return ", ".join(sorted(kinds)) or platform.machine()


def without_times(record: Record) -> Record:
    """The part of a record that is the same whenever the same spec is run."""
    return {key: value for key, value in record.items() if key != "seconds"}
