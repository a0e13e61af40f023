"""From settings to a result: the one way in which Python, the command line and sweeps run.

Resolve what the user left open, claim the folder, load the data, run. Asking for a finished run
opens it instead of training again.
"""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.graph.silos import ClientData
from feddep.runs import pipeline
from feddep.runs.files import Record
from feddep.runs.folder import RunFolder, as_stored
from feddep.runs.opening import open_run
from feddep.runs.records import is_of_today
from feddep.runs.result import Result
from feddep.scenario import build
from feddep.scenario.spec import RunSpec

log = logging.getLogger(__name__)


class Runner(Protocol):
    """Whatever trains a spec on shards and stores it: :func:`feddep.runs.pipeline.run`.

    A caller with a progress bar, or with another runtime, wraps it or passes its own.
    """

    def __call__(
        self,
        spec: RunSpec,
        shards: ClientData,
        *,
        workers: int | None,
        device: str,
        folder: RunFolder | None,
        loading_seconds: float,
        keep_diverged: bool,
    ) -> Result:
        """Runs; see :func:`feddep.runs.pipeline.run` for the arguments."""
        ...


def execute(
    settings: Mapping[str, Any],
    data: ClientData | Graph | None = None,
    *,
    out: Path | None = None,
    resume: bool = False,
    workers: int | None = None,
    device: str = "auto",
    keep_diverged: bool = False,
    runner: Runner = pipeline.run,
    tell: Callable[[str], None] = log.warning,
) -> Result:
    """Carries out one run.

    Args:
        settings: the keys of the spec that the user set; the preset fills the others.
        data: shards or silos, or a graph that is partitioned first; None loads what the settings
            name.
        out: folder to store the run in; None stores nothing.
        resume: continue the run in ``out``. A finished run is opened instead, unless its method's
            own file has changed since: then it is run again.
        workers: processes; None takes the cores.
        device: ``auto``, ``cpu`` or ``cuda``.
        keep_diverged: if training diverges, end the run there and keep the best round before.
        runner: what runs the spec, once the folder is claimed and the data are loaded.
        tell: called with messages for the user.

    Raises:
        InputError: something cannot be run or stored; nothing is left half-written.
    """
    spec = resolved(settings, data)

    def run(folder: RunFolder | None) -> Result:
        started = time.perf_counter()
        shards = _shards(spec, data)
        return runner(
            spec,
            shards,
            workers=workers,
            device=device,
            folder=folder,
            loading_seconds=time.perf_counter() - started,
            keep_diverged=keep_diverged,
        )

    if out is None:
        return run(None)
    if resume:
        spec = as_stored(spec, out, settings)
    with RunFolder.claim(out, spec, resume=resume) as folder:
        finished = folder.finished()
        if finished is not None and is_of_today(finished):
            _check_same_data(out, finished, data)
            return open_run(out)
        if finished is not None:
            tell(f"the file of {spec.method} has changed since it was run; running it again")
            folder.restart(spec)
        return run(folder)


def resolved(settings: Mapping[str, Any], data: ClientData | Graph | None = None) -> RunSpec:
    """The complete spec of a run: what the user set, what the data bring, the preset for the rest.

    Raises:
        InputError: a key is unknown, a value is invalid, or the data contradict a setting.
    """
    given = dict(settings)
    if isinstance(data, Graph):
        return build.resolve(RunSpec().with_settings(given | {"dataset": data.name}), given)
    if data is not None:
        brought = build.settings_of(data)
        for key, value in brought.items():
            if given.get(key, value) != value:
                raise InputError(f"the shards have {key} = {value} (got {given[key]})")
        given = {"seed": data.seed} | given | brought
    return build.resolve(RunSpec().with_settings(given), given)


def _shards(spec: RunSpec, data: ClientData | Graph | None) -> ClientData:
    if data is None:
        return build.build(spec)
    if isinstance(data, Graph):
        data = build.split_and_partition(data, spec.partition, spec.split, seed=spec.seed)
    return build.prepare(data, spec)


def _check_same_data(path: Path, finished: Record, data: ClientData | Graph | None) -> None:
    """A spec names data in memory but does not hold them; their sizes tell different ones apart."""
    if data is None:
        return
    for name, here in {"nodes": data.nodes, "edges": data.edges}.items():
        there = finished.get("data", {}).get(name, here)  # records had no sizes once
        if here != there:
            raise InputError(
                f"{path} holds a run on other data of the same name ({there} {name} there, "
                f"{here} here); delete that folder or choose another one"
            )
