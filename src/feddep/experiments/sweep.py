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
a run counts for what it was, whatever values its preset has by now. Two combinations are the same
if they come to the same settings: a default may be named or not, a preset that has nothing for a
method and a data set is no other, and a method that has the whole graph does not ask how it would
be dealt out.
``history = true`` above all keeps a thin history beside each record, for training curves; records
without one do not count there. ``timed = true`` runs one at a time, and only records of runs that
were alone count there: beside others a run takes up to several times as long.
"""

import itertools
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from queue import Empty, SimpleQueue
from subprocess import PIPE, Popen
from typing import IO, Any, cast

from feddep.algorithms import find_method
from feddep.errors import InputError, RuntimeFailureError
from feddep.experiments.expected_cost import expected_seconds
from feddep.experiments.files import Record
from feddep.graph.partition import PartitionSpec
from feddep.scenario import presets
from feddep.scenario.build import resolve
from feddep.scenario.spec import RunSpec, spec_keys

_SWITCHES = ("history", "timed")

Cell = dict[str, Any]
"""The settings of one run."""

History = Mapping[str, Sequence[float | None]]
"""Columns of :func:`~feddep.experiments.records.thin_history`, one entry for each round."""


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
    def read(cls, file: Path, *, quick: bool = False) -> "Sweep":
        """Reads a declaration; the records stand in ``results/`` beside it.

        Args:
            file: the declaration.
            quick: only the runs that its ``[quick]`` names, with the settings that it adds;
                their records stand in ``results/quick/``.
        """
        try:
            content = tomllib.loads(file.read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"cannot read the sweep {file}: {error}") from None
        if "grid" not in content or not content.keys() <= {"grid", "fixed", "quick", *_SWITCHES}:
            raise InputError(
                f"{file}: expected [grid] and perhaps [fixed], [quick], {' and '.join(_SWITCHES)} "
                f"(got {list(content)})"
            )
        switches = {name: content.get(name, False) for name in _SWITCHES}
        for name, value in switches.items():
            if not isinstance(value, bool):
                raise InputError(f"{file}: {name} must be true or false (got {value!r})")
        fixed = content.get("fixed", {})
        grids = content["grid"] if isinstance(content["grid"], list) else [content["grid"]]
        if not all(isinstance(values, list) for grid in grids for values in grid.values()):
            raise InputError(f"{file}: every entry of [grid] must be a list of values")
        found = [fixed | cell for grid in grids for cell in _combinations(grid)]
        folder = file.parent / "results"
        if quick:
            found, folder = _quick(found, content.get("quick", {})), folder / "quick"
        # Grids may overlap. Unknown keys and methods are refused here, before anything runs.
        cells = list({(_spec(cell), *_names(cell).values()): cell for cell in found}.values())
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

    def processes(self, at_once: int) -> int:
        """How many of so many processes the sweep takes."""
        return 1 if self.timed else at_once

    def run(self, at_once: int, tell: Callable[[int, int, Cell], None]) -> None:
        """Runs what is missing, ``at_once`` runs at a time, each with one worker.

        What will take longest comes first, so that no process has a long run left when the others
        are done; of what nothing is known, in the grid's order.

        Args:
            at_once: number of processes; a timed sweep has one, whatever is asked for.
            tell: called with (done, in all, settings) after every run.
        """
        at_once = self.processes(at_once)
        self.results.parent.mkdir(parents=True, exist_ok=True)
        missing = [cell for cell, _ in self.waiting()]
        with ThreadPoolExecutor(at_once) as pool:
            runs = {pool.submit(self._outcome, cell): cell for cell in missing}
            try:
                for done, run in enumerate(as_completed(runs), start=1):
                    row = {"settings": runs[run], **run.result()}
                    row["record"]["at_once"] = at_once
                    with self.results.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    tell(done, len(missing), runs[run])
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _rows(self) -> list[tuple[Cell, dict[str, Any]]]:
        wanted = {_spec(cell) for cell in self.cells}
        found: dict[RunSpec, dict[str, Any]] = {}
        for row in self._stored():
            with suppress(InputError):  # settings that are no longer understood
                spec = _spec_of_row(row)
                if spec in wanted and self._has_what_counts(row):
                    found[spec] = row
        return [(cell, found[_spec(cell)]) for cell in self.cells if _spec(cell) in found]

    def _stored(self) -> Iterator[dict[str, Any]]:
        """All rows of the folder: what another sweep ran serves here too.

        A run of one's own comes last and counts.
        """
        for file in [*sorted(self.results.parent.glob("*.jsonl")), self.results]:
            yield from map(json.loads, file.read_text().splitlines() if file.exists() else [])

    def _has_what_counts(self, row: Mapping[str, Any]) -> bool:
        if self.history and "history" not in row:
            return False
        return not self.timed or row["record"].get("at_once") == 1

    def _outcome(self, cell: Cell) -> dict[str, Any]:
        """What a row holds besides the settings."""
        return _run_with_history(cell) if self.history else {"record": _run_apart(cell)}


def _quick(cells: Sequence[Cell], wanted: Mapping[str, Sequence[Any]]) -> list[Cell]:
    """The cells whose values are wanted; a key that a cell does not have takes the first value."""
    defaults = {key: values[0] for key, values in wanted.items()}
    return [
        defaults | cell
        for cell in cells
        if all(cell[key] in values for key, values in wanted.items() if key in cell)
    ]


def _combinations(grid: Mapping[str, Sequence[Any]]) -> Iterator[Cell]:
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _spec_of_row(row: Mapping[str, Any]) -> RunSpec:
    """What was run: the values that were used then, whatever a preset says by now."""
    used: Mapping[str, Any] = row["record"].get("settings", {})
    known = spec_keys()  # a key may have gone since, once nobody used it any more
    given = {key: value for key, value in used.items() if key in known}
    return _spec({**row["settings"], **given, **({"preset": "paper"} if used else {})})


def _spec(cell: Cell) -> RunSpec:
    return _spec_from(json.dumps(cell), presets.FILE)


@lru_cache(None)  # the same few hundred settings are asked for again and again
def _spec_from(cell: str, _presets: Path) -> RunSpec:
    settings = json.loads(cell)
    spec = resolve(RunSpec().with_settings(settings), settings)
    spec = replace(spec, preset="paper")  # once resolved, its name says nothing more
    whole = find_method(spec.method).whole_graph
    return replace(spec, partition=PartitionSpec()) if whole else spec


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
    spec = RunSpec().with_settings(cell)
    partition = spec.partition
    return {"preset": spec.preset, "clients": partition.clients, "partition": partition.kind}


def _run_apart(cell: Cell) -> Record:
    """The record of one run."""
    record: Record = _output(cell, history=False)["record"]
    return record


def _run_with_history(cell: Cell) -> dict[str, Any]:
    """``record`` and ``history`` of one run."""
    return _output(cell, history=True)


def _output(cell: Cell, *, history: bool) -> dict[str, Any]:
    """One run in a process of its own, a fork of one that has everything loaded."""
    try:
        runner = _IDLE.get_nowait()
    except Empty:
        # -P: or a module in the current folder could be taken for one of the library's.
        command = [sys.executable, "-P", "-m", "feddep.experiments.one_run"]
        runner = Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=_KEEP_MEMORY | os.environ)
    output: dict[str, Any] = _asked(runner, {"settings": cell, "history": history})
    _IDLE.put(runner)
    if "failed" in output:
        raise RuntimeFailureError(f"the run {json.dumps(cell)} failed: {output['failed']}")
    return output


def _asked(runner: "Popen[str]", question: Mapping[str, Any]) -> Any:
    stdin, stdout = cast(IO[str], runner.stdin), cast(IO[str], runner.stdout)
    with suppress(BrokenPipeError):  # it has ended, and there will be no answer
        stdin.write(json.dumps(question) + "\n")
        stdin.flush()
    answer = stdout.readline()
    if not answer:
        raise RuntimeFailureError(f"runs cannot be started: exit code {runner.wait()}; see above")
    return json.loads(answer)


_KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000"}
"""For the C library: large arrays come and go in every step, and giving their memory back to the
system only to be given it again, page by page, takes up to a quarter of a run's time."""

_IDLE: "SimpleQueue[Popen[str]]" = SimpleQueue()
"""Processes that wait for the next run; their input ends, and so do they, with this process."""
