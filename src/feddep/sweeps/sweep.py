"""Many runs from one file: resumable, one record for each run, several runs at a time.

A sweep is declared as data::

    [fixed]
    "training.rounds" = 50
    [grid]
    dataset = ["cora", "citeseer"]
    method = ["local", "fedavg", "global"]
    seed = [0, 1, 2, 3, 4]

Every combination in the grid is one run; several ``[[grid]]`` declare several grids. A run's record
is appended to a file of JSON lines together with its settings.

A combination that is stored already, here or by another sweep in the same folder, is not run again.
Two combinations are the same if they resolve to the same settings: whether a default is named,
which preset supplied a value, and how the graph would be divided for a method that has all of it
make no difference. A stored run counts with the values that were used, even if its preset has
changed since, but not if the file of a user's own method has.

``history = true`` at the top keeps a thin history beside each record, for training curves; records
without one do not count there. ``timed = true`` runs one at a time, and only records of runs that
had the machine to themselves count: beside others a run takes up to several times as long.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from feddep.algorithms import find_method
from feddep.errors import InputError, RuntimeFailureError
from feddep.graph.partition import PartitionSpec
from feddep.learning.link_codes import LinksSpec
from feddep.models.generator import GeneratorSpec
from feddep.runs.files import Record
from feddep.runs.records import is_of_today
from feddep.scenario import presets
from feddep.scenario.build import load, resolve
from feddep.scenario.spec import RunSpec, spec_keys
from feddep.sweeps.declaration import (
    SWITCHES,
    Cell,
    declared_cells,
    quick_cells,
    read_declaration,
)
from feddep.sweeps.expected_cost import expected_seconds
from feddep.sweeps.rows import Row, append_row, in_use, read_rows
from feddep.sweeps.runners import FailedRunError, run_apart

History = Mapping[str, Sequence[float | None]]
"""Columns of :func:`~feddep.runs.records.thin_history`, one entry for each round."""


@dataclass(frozen=True)
class Sweep:
    """A declared set of runs.

    Attributes:
        cells: the settings of every run, in the grid's order.
        results: where the records are.
        history: keep a thin history beside each record.
        timed: the runs' seconds are to be compared, so each has the machine to itself.
    """

    cells: Sequence[Cell]
    results: Path
    history: bool = False
    timed: bool = False

    @classmethod
    def read(cls, file: Path, *, quick: bool = False, results: Path | None = None) -> "Sweep":
        """Reads a declaration.

        Args:
            file: the declaration.
            quick: only the runs that its ``[quick]`` selects, with the settings that it adds;
                their records are in the subfolder ``quick/``.
            results: the folder of the records; by default ``results/`` beside the declaration.
        """
        content = read_declaration(file)
        folder = results or file.parent / "results"
        if not quick:
            found = declared_cells(content)
        elif "quick" in content:
            found, folder = quick_cells(content), folder / "quick"
        else:
            raise InputError(f"{file} has no table [quick]; add one, or run all of it")
        if not found:
            raise InputError(f"{file} declares no runs; check its lists of values")
        # Grids may overlap. Unknown keys and methods are refused here, before anything runs.
        cells = list({(spec_of(cell), *_names(cell).values()): cell for cell in found}.values())
        switches = {name: content[name] for name in SWITCHES}
        return cls(cells, folder / f"{file.stem}.jsonl", **switches)

    def records(self) -> list[tuple[Cell, Record]]:
        """The records so far, in the grid's order; runs of an older grid are skipped."""
        return [(cell, _under(cell, row["record"])) for cell, row in self._rows()]

    def histories(self) -> list[tuple[Cell, Record, History]]:
        """The runs so far with their histories; none for a sweep that keeps no histories."""
        rows = self._rows() if self.history else []
        return [(cell, _under(cell, row["record"]), row["history"]) for cell, row in rows]

    def missing(self) -> list[Cell]:
        """The settings that have no record yet."""
        done = {spec_of(cell) for cell, _ in self.records()}
        return [cell for cell in self.cells if spec_of(cell) not in done]

    def waiting(self) -> list[tuple[Cell, float]]:
        """The runs to do, each with the seconds it may take.

        The longest come first; in a timed sweep, all methods with one seed, then with the next.
        Cells that resolve to the same settings are one run. Seconds are estimated from the most
        similar runs in this folder, whichever sweep they belong to; without any they are 0.
        """
        cells = list({spec_of(cell): cell for cell in self.missing()}.values())
        seconds = expected_seconds(cells, [(r["settings"], r["record"]) for r in self._stored()])
        found = list(zip(cells, seconds, strict=True))
        if self.timed:  # a machine's speed varies, which must not favour a method
            return sorted(found, key=lambda one: spec_of(one[0]).seed)
        return sorted(found, key=lambda one: one[1], reverse=True)

    def check_data(self) -> None:
        """Refuses data that cannot be loaded, before anything runs; needs none if nothing will."""
        specs = map(spec_of, self.missing())
        for dataset, synthetic in dict.fromkeys((spec.dataset, spec.synthetic) for spec in specs):
            load(dataset, synthetic)

    def processes(self, at_once: int) -> int:
        """How many of the given processes the sweep uses."""
        return 1 if self.timed else at_once

    def run(self, at_once: int, tell: Callable[[int, int, Cell], None]) -> None:
        """Runs what is missing, ``at_once`` runs at a time, each with one worker.

        The longest run comes first, so that no process has a long run left when the others are
        done. A run that fails does not stop the others, and a finished run is stored, whatever
        happens elsewhere.

        Args:
            at_once: number of processes; a timed sweep has one, whatever is asked for.
            tell: called with (done, total, settings) after every run.

        Raises:
            RuntimeFailureError: runs failed; it names the first of them.
        """
        at_once = self.processes(at_once)
        self.results.parent.mkdir(parents=True, exist_ok=True)
        missing = [cell for cell, _ in self.waiting()]
        failures = []
        with in_use(self.results.parent, alone=self.timed), ThreadPoolExecutor(at_once) as pool:
            runs = {pool.submit(self._run, cell, at_once): cell for cell in missing}
            try:
                for done, run in enumerate(as_completed(runs), start=1):
                    try:
                        run.result()
                    except FailedRunError as error:
                        failures.append(str(error))
                    tell(done, len(missing), runs[run])
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        if failures:
            raise RuntimeFailureError(_told(failures, len(missing)))

    def _run(self, cell: Cell, at_once: int) -> None:
        """One run and its row, in a thread of its own."""
        with _STORING:
            if cell not in self.missing():  # another process has run it in the meantime
                return
        row = {"settings": cell, **run_apart(cell, history=self.history)}
        row["record"]["at_once"] = at_once
        with _STORING:
            append_row(self.results, row)

    def _rows(self) -> list[tuple[Cell, Row]]:
        wanted = {spec_of(cell) for cell in self.cells}
        found: dict[RunSpec, Row] = {}
        for row in self._stored():
            with suppress(InputError):  # settings that are no longer understood
                spec = _spec_of_row(row)
                if spec in wanted and self._has_what_counts(row):
                    found[spec] = row
        return [(cell, found[spec_of(cell)]) for cell in self.cells if spec_of(cell) in found]

    def _stored(self) -> Iterator[Row]:
        """All rows of the folder: what another sweep ran counts here too.

        This sweep's own rows come last and take precedence.
        """
        others = set(self.results.parent.glob("*.jsonl")) - {self.results}
        for file in [*sorted(others), self.results]:
            yield from read_rows(file)

    def _has_what_counts(self, row: Mapping[str, Any]) -> bool:
        if self.history and "history" not in row:
            return False
        if not is_of_today(row["record"]):
            return False
        return not self.timed or row["record"].get("at_once") == 1


def _told(failures: Sequence[str], runs: int) -> str:
    count = len(failures)
    return failures[0] + (f"; {count} of {runs} runs failed in all" if count > 1 else "")


def _spec_of_row(row: Mapping[str, Any]) -> RunSpec:
    """What was run: the values that were used then, whatever the preset says now."""
    used: Mapping[str, Any] = row["record"].get("settings", {})
    known = spec_keys()  # a key may have been removed since
    given = {key: value for key, value in used.items() if key in known}
    return spec_of({**row["settings"], **given, **({"preset": "paper"} if used else {})})


def spec_of(cell: Cell) -> RunSpec:
    """What is run; two cells with the same one are one run."""
    return _specs(json.dumps(cell), presets.FILE)[1]


@lru_cache(None)  # the same few hundred settings are asked for again and again
def _specs(cell: str, _presets: Path) -> tuple[RunSpec, RunSpec]:
    """A cell's spec as it is named, and without the names that make no difference."""
    settings = json.loads(cell)
    named = resolve(RunSpec().with_settings(settings), settings)
    spec = replace(named, preset="paper")  # once resolved, the preset's name makes no difference
    method = find_method(spec.method)
    if method.whole_graph:
        spec = replace(spec, partition=PartitionSpec())
    if not method.linked:  # whether anybody knows an edge between clients is not asked
        spec = replace(spec, links=LinksSpec(), partition=replace(spec.partition, links="lost"))
    if not method.trains_generator:
        spec = replace(spec, generator=_without_training(spec.generator))
    return named, spec


def _without_training(used: GeneratorSpec) -> GeneratorSpec:
    """What methods without a generator read of its keys: what becomes of neighbours they know."""
    return GeneratorSpec(keep=used.keep, refresh=used.refresh, centred=used.centred)


def _under(cell: Cell, record: Record) -> Record:
    """The record under the names that the cell uses for it."""
    shown = record | _names(cell)
    if any(shown[name] != record.get(name) for name in ("clients", "partition")):
        # The lost share in the record is that of another partition.
        facts = record.get("data", {}).items()
        shown["data"] = {key: value for key, value in facts if key != "lost_share"}
    return shown


def _names(cell: Cell) -> dict[str, Any]:
    """What cells of the same run may differ in: the preset's name, and an unused partition."""
    named, _ = _specs(json.dumps(cell), presets.FILE)
    partition = named.partition
    return {"preset": named.preset, "clients": partition.clients, "partition": partition.kind}


_STORING = Lock()
"""Held while rows are read or written in a thread, so that nobody sees half of one."""
