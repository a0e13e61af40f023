"""The Python interface: load, partition, run. What a notebook user types."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from feddep.algorithms import METHODS, find_method
from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.graph.shard import Shards
from feddep.runs import pipeline
from feddep.runs.folder import RunFolder, as_stored
from feddep.runs.result import Result
from feddep.scenario import build
from feddep.scenario.spec import RunSpec


def methods() -> dict[str, str]:
    """Every method's name and what it is."""
    return {name: method.summary for name, method in METHODS.items()}


def load(name: str | Path, **synthetic: Any) -> Graph:
    """A graph by name (``cora``, ``synthetic``, …) or from a folder.

    Args:
        name: a name from ``feddep data list`` or the path of a graph folder.
        **synthetic: fields of :class:`~feddep.graph.synthetic.SyntheticSpec`, for ``synthetic``
            only, e.g. ``nodes=10_000, seed=3``.
    """
    if synthetic and name != "synthetic":
        raise InputError(f"only 'synthetic' takes options (got {', '.join(synthetic)} for {name})")
    settings = {f"synthetic.{key}": value for key, value in synthetic.items()}
    return build.load(str(name), RunSpec().with_settings(settings).synthetic)


def partition(
    graph: Graph,
    clients: int = 5,
    *,
    kind: str = "louvain",
    split: str = "stratified",
    seed: int = 0,
) -> Shards:
    """Deals a graph out to clients; a graph without a split gets one first.

    Args:
        graph: the global graph.
        clients: M.
        kind: ``louvain``, ``random`` or ``label-skew``.
        split: ``stratified``, ``random`` or ``quota``.
        seed: fixes both.
    """
    spec = RunSpec().with_settings(
        {"partition.clients": clients, "partition.kind": kind, "split.kind": split, "seed": seed}
    )
    return build.split_and_partition(graph, spec.partition, spec.split, seed=spec.seed)


def run(
    method: str,
    shards: Shards | Graph | str | Path,
    *,
    rounds: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    workers: int | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    resume: bool = False,
) -> Result:
    """Runs a method.

    Args:
        method: a name in :func:`methods`, or ``module:ATTRIBUTE`` for one of your own.
        shards: what :func:`partition` gave; a graph or a data set (name or folder) is dealt
            out first.
        rounds: rounds of training.
        seed: fixes every random draw; default: the one the shards were made with.
        settings: other keys of the spec, e.g. ``{"training.batch_size": 64}``. What is left out
            comes from the preset (``{"preset": "paper"}``; default: ``tuned``).
        workers: processes; default: the number of cores. The result does not depend on it.
        device: ``auto``, ``cpu`` or ``cuda``.
        out: folder to store the run in.
        resume: continue a run that was stopped in ``out``.
    """
    given = dict(settings or {}) | {"method": find_method(method).name}
    if rounds is not None:
        given["training.rounds"] = rounds
    if seed is not None:
        given["seed"] = seed
    if isinstance(shards, Shards):
        brought = build.settings_of(shards)
        for key, value in brought.items():
            if given.get(key, value) != value:
                raise InputError(f"the shards have {key} = {value} (got {given[key]})")
        given = {"seed": shards.seed} | given | brought
        spec = build.resolve(RunSpec().with_settings(given), given)
    elif isinstance(shards, Graph):
        spec = build.resolve(RunSpec().with_settings(given | {"dataset": shards.name}), given)
    else:
        spec = build.resolve(RunSpec().with_settings(given | {"dataset": str(shards)}), given)
    if out is not None and resume:
        spec = as_stored(spec, Path(out), given)
    claim = nullcontext() if out is None else RunFolder.claim(Path(out), spec, resume=resume)
    with claim as folder:
        if isinstance(shards, Graph):
            shards = build.split_and_partition(shards, spec.partition, spec.split, seed=spec.seed)
        ready = build.prepare(shards, spec) if isinstance(shards, Shards) else build.build(spec)
        return pipeline.run(spec, ready, workers=workers, device=device, folder=folder)
