"""The Python interface: load, partition, run, open_run. What a notebook user types."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from feddep.algorithms import METHODS, find_method
from feddep.deployment.protocol.runtimes import runner_of
from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.graph.shard import Shards
from feddep.graph.silos import Silos
from feddep.runs.execute import execute
from feddep.runs.opening import open_run as open_folder
from feddep.runs.result import Result
from feddep.scenario import build
from feddep.scenario.spec import RunSpec
from feddep.tables.silo_data import Source, open_silos


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
    links: str = "lost",
    seed: int = 0,
) -> Shards:
    """Divides a graph among clients; a graph without a split gets one first.

    Args:
        graph: the global graph.
        clients: M.
        kind: ``louvain``, ``random`` or ``label-skew``.
        split: ``stratified``, ``random`` or ``quota``.
        links: ``known`` if both ends know an edge between clients; ``lost`` if nobody does.
        seed: fixes both.
    """
    given = {"clients": clients, "kind": kind, "links": links}
    spec = RunSpec().with_settings(
        {f"partition.{key}": value for key, value in given.items()}
        | {"split.kind": split, "seed": seed}
    )
    return build.split_and_partition(graph, spec.partition, spec.split, seed=spec.seed)


def shards(
    silos: Sequence[Source], *, names: Sequence[str] = (), seed: int = 0, **tables: Any
) -> Silos:
    """Silos that are never joined: nobody has the whole graph, or the edges between them.

    Args:
        silos: for each a folder of tables or of a graph, a graph, or a pair of data frames (nodes,
            edges). Tables are encoded by one schema, joined from what each may show.
        names: of the silos; default: those of their folders, or their numbers.
        seed: of the splits that are drawn where there is none.
        **tables: how all tables are read, as in tables.toml: ``id="customer"``, ``flows=True``.
    """
    return open_silos(silos, names, seed, **tables)


def run(
    method: str,
    shards: Shards | Silos | Graph | str | Path,
    *,
    rounds: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    workers: int | None = None,
    device: str = "auto",
    runtime: str = "in-process",
    out: str | Path | None = None,
    resume: bool = False,
) -> Result:
    """Runs a method.

    Args:
        method: a name in :func:`methods`, or ``module:ATTRIBUTE`` for one of your own.
        shards: what :func:`partition` or :func:`shards` returned; a graph or a data set (name or
            folder) is partitioned first.
        rounds: rounds of training.
        seed: fixes every random draw; default: the one the shards were made with.
        settings: other keys of the spec, e.g. ``{"training.batch_size": 64}``. What is left out
            comes from the preset (``{"preset": "paper"}``; default: ``tuned``).
        workers: processes; default: the number of cores. The result does not depend on it.
        device: ``auto``, ``cpu`` or ``cuda``.
        runtime: ``in-process``, or ``flower-sim`` where every client is a node of Flower's.
        out: folder to store the run in.
        resume: continue a run that was stopped in ``out``; one that is finished is opened.
    """
    given = dict(settings or {}) | {"method": find_method(method).name}
    if rounds is not None:
        given["training.rounds"] = rounds
    if seed is not None:
        given["seed"] = seed
    data = shards if isinstance(shards, Shards | Silos | Graph) else None
    if data is None:
        given["dataset"] = str(shards)
    return execute(
        given,
        data,
        out=None if out is None else Path(out),
        resume=resume,
        workers=workers,
        device=device,
        runner=runner_of(runtime, given["method"]),
    )


def open_run(folder: str | Path, *, round: Literal["best", "last"] = "best") -> Result:
    """The result of a finished run, from its folder: equal to what :func:`run` returned.

    Args:
        folder: the ``out`` of :func:`run`, or the folder that ``feddep run`` printed.
        round: which round's classifiers; ``last`` is :meth:`Result.at_last_round`.
    """
    if round not in ("best", "last"):
        raise InputError(f"round: expected best or last (got {round!r})")
    found = open_folder(Path(folder))
    return found.at_last_round() if round == "last" else found
