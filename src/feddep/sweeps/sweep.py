"""Many runs from one file: resumable, one record a run, several runs at a time.

A sweep is declared as data::

    [fixed]
    "training.rounds" = 50
    [grid]
    dataset = ["cora", "citeseer"]
    method = ["local", "fedavg", "global"]
    seed = [0, 1, 2, 3, 4]

Every combination of the grid is one run; ``[[grid]]`` several times declares several grids. A
run's record is appended to a file of JSON lines together with the settings that it came from. A
combination that is already there, or in the records of another sweep beside it, is not run again;
a run counts for what it was, whatever values its preset has by now; but not if the file of a method
of somebody's own has changed since. Two combinations are the same
if they come to the same settings: a default may be named or not, a preset that has nothing for a
method and a data set is no other, and a method that has the whole graph does not ask how it would
be dealt out.
``history = true`` above all keeps a thin history beside each record, for training curves; records
without one do not count there. ``timed = true`` runs one at a time, and only records of runs that
were alone count there: beside others a run takes up to several times as long.
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
            quick: only the runs that its ``[quick]`` names, with the settings that it adds;
                their records stand in ``quick/`` below the others.
            results: the folder of the records; by default ``results/`` beside the declaration.
        """
        content = read_declaration(file)
        folder = results or file.parent / "results"
        if not quick:
            found = declared_cells(content)
        elif "quick" in content:
            found, folder = quick_cells(content), folder / "quick"
        else:
            raise InputError(f"{file} has no small version; add [quick] to it, or run it whole")
        if not found:
            raise InputError(f"{file} declares no run; look at its lists of values")
        # Grids may overlap. Unknown keys and methods are refused here, before anything runs.
        cells = list({(_spec(cell), *_names(cell).values()): cell for cell in found}.values())
        switches = {name: content[name] for name in SWITCHES}
        return cls(cells, folder / f"{file.stem}.jsonl", **switches)

    def records(self) -> list[tuple[Cell, Record]]:
        """What is there so far, in the grid's order; runs of an older grid are passed over."""
        return [(cell, _under(cell, row["record"])) for cell, row in self._rows()]

    def histories(self) -> list[tuple[Cell, Record, History]]:
        """The runs so far with their histories; none for a sweep that keeps no histories."""
        rows = self._rows() if self.history else []
        return [(cell, _under(cell, row["record"]), row["history"]) for cell, row in rows]

    def missing(self) -> list[Cell]:
        """The settings that have no record yet."""
        done = {_spec(cell) for cell, _ in self.records()}
        return [cell for cell in self.cells if _spec(cell) not in done]

    def waiting(self) -> list[tuple[Cell, float]]:
        """What is to be run, and the seconds that each may take.

        The longest come first; of a timed sweep, all methods with one seed, then with the next.
        Cells that come to the same settings are one run. Seconds are those of the runs most like
        it in this folder, whichever sweep they belong to; without any they are 0.
        """
        cells = list({_spec(cell): cell for cell in self.missing()}.values())
        seconds = expected_seconds(cells, [(r["settings"], r["record"]) for r in self._stored()])
        found = list(zip(cells, seconds, strict=True))
        if self.timed:  # a machine is now faster, now slower: not one method after the other
            return sorted(found, key=lambda one: _spec(one[0]).seed)
        return sorted(found, key=lambda one: one[1], reverse=True)

    def check_data(self) -> None:
        """Refuses data that cannot be loaded, before anything runs; without runs none is needed."""
        specs = map(_spec, self.missing())
        for dataset, synthetic in dict.fromkeys((spec.dataset, spec.synthetic) for spec in specs):
            load(dataset, synthetic)

    def processes(self, at_once: int) -> int:
        """How many of so many processes the sweep takes."""
        return 1 if self.timed else at_once

    def run(self, at_once: int, tell: Callable[[int, int, Cell], None]) -> None:
        """Runs what is missing, ``at_once`` runs at a time, each with one worker.

        What will take longest comes first, so that no process has a long run left when the others
        are done; of what nothing is known, in the grid's order. A run that fails keeps no other
        from being run, and one that is done is stored, whatever happens elsewhere.

        Args:
            at_once: number of processes; a timed sweep has one, whatever is asked for.
            tell: called with (done, in all, settings) after every run.

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
        """One run and its row; in a thread of its own, so that nobody need wait for it."""
        with _STORING:
            if cell not in self.missing():  # another process has run it in the meantime
                return
        row = {"settings": cell, **run_apart(cell, history=self.history)}
        row["record"]["at_once"] = at_once
        with _STORING:
            append_row(self.results, row)

    def _rows(self) -> list[tuple[Cell, Row]]:
        wanted = {_spec(cell) for cell in self.cells}
        found: dict[RunSpec, Row] = {}
        for row in self._stored():
            with suppress(InputError):  # settings that are no longer understood
                spec = _spec_of_row(row)
                if spec in wanted and self._has_what_counts(row):
                    found[spec] = row
        return [(cell, found[_spec(cell)]) for cell in self.cells if _spec(cell) in found]

    def _stored(self) -> Iterator[Row]:
        """All rows of the folder: what another sweep ran serves here too.

        A run of one's own comes last and counts.
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
    """What was run: the values that were used then, whatever a preset says by now."""
    used: Mapping[str, Any] = row["record"].get("settings", {})
    known = spec_keys()  # a key may have gone since, once nobody used it any more
    given = {key: value for key, value in used.items() if key in known}
    return _spec({**row["settings"], **given, **({"preset": "paper"} if used else {})})


def _spec(cell: Cell) -> RunSpec:
    """What is run; two cells with the same one are one run."""
    return _specs(json.dumps(cell), presets.FILE)[1]


@lru_cache(None)  # the same few hundred settings are asked for again and again
def _specs(cell: str, _presets: Path) -> tuple[RunSpec, RunSpec]:
    """A cell's spec as it is named, and without the names that make no difference."""
    settings = json.loads(cell)
    named = resolve(RunSpec().with_settings(settings), settings)
    spec = replace(named, preset="paper")  # once resolved, its name says nothing more
    whole = find_method(spec.method).whole_graph
    return named, replace(spec, partition=PartitionSpec()) if whole else spec


def _under(cell: Cell, record: Record) -> Record:
    """The record under the names that the cell has for it."""
    shown = record | _names(cell)
    if any(shown[name] != record.get(name) for name in ("clients", "partition")):
        # What would be lost, it told of another partition.
        facts = record.get("data", {}).items()
        shown["data"] = {key: value for key, value in facts if key != "lost_share"}
    return shown


def _names(cell: Cell) -> dict[str, Any]:
    """What cells that are one run may differ in: the preset, and a partition nobody looks at."""
    named, _ = _specs(json.dumps(cell), presets.FILE)
    partition = named.partition
    return {"preset": named.preset, "clients": partition.clients, "partition": partition.kind}


_STORING = Lock()
"""Held while rows are read or written in a thread, so that nobody sees half of one."""
