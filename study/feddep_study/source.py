"""What a section of the report is made from: one sweep, what it has so far, and the paper."""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from feddep.errors import DataError, InputError
from feddep.reports.summary import Rows, score_of, varied
from feddep.runs.files import Record
from feddep.scenario.spec import RunSpec
from feddep.sweeps.sweep import History, Sweep
from feddep_study.against_paper import Paper

Place = tuple[Any, ...]
Scores = Mapping[int, float | None]
"""By seed; None for what is declared and not run yet."""


@dataclass(frozen=True)
class Source:
    """A sweep as the report sees it.

    Attributes:
        name: of its declaration.
        cells: the settings of all declared runs.
        rows: settings and record of every run so far.
        paper: what is printed.
        histories: the same with thin histories, where the sweep keeps them.
        lost_shares: of the data table, by data set, number of clients and seed; for records that
            do not tell the share of lost edges themselves.
    """

    name: str
    cells: Sequence[Mapping[str, Any]]
    rows: Rows
    paper: Paper
    histories: Sequence[tuple[Mapping[str, Any], Record, History]] = ()
    lost_shares: Mapping[tuple[str, int, int], float] = field(default_factory=dict)

    @property
    def rows_with_histories(self) -> Rows:
        """The rows of a sweep that keeps histories, each record with its own."""
        return [(cell, record | {"history": history}) for cell, record, history in self.histories]

    def lost_share(self, record: Record) -> float | None:
        """The share of edges between clients.

        An old record does not tell it, but perhaps another one with the same partition, or the
        data table; otherwise None.
        """
        if _partition_of(record) in self._told:
            return self._told[_partition_of(record)]
        if record["partition"] == "louvain":
            return self.lost_shares.get((record["dataset"], record["clients"], record["seed"]))
        return None

    def scores(
        self, place: Callable[[RunSpec], Place | None], metric: str = "global"
    ) -> Mapping[Place, Scores]:
        """Seeds and test scores by place; None for what is not run yet.

        Args:
            place: of the runs with a spec; None for those that are not looked at.
            metric: ``global``, on the whole graph, or ``silo``, on the own silo.
        """
        found: dict[Place, dict[int, float | None]] = {}
        for settings, record in [*((cell, None) for cell in self.cells), *self.rows]:
            spec = RunSpec().with_settings(settings)
            own = place(spec)
            if own is not None:
                score = None if record is None else score_of(record, metric)
                found.setdefault(own, {})[spec.seed] = score
        return found

    @cached_property
    def _told(self) -> dict[tuple[Any, ...], float]:
        data = [(_partition_of(record), record.get("data", {})) for _, record in self.rows]
        return {key: facts["lost_share"] for key, facts in data if "lost_share" in facts}


def _partition_of(record: Record) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("dataset", "partition", "clients", "seed"))


STUDY = Path(__file__).parents[1]
"""The folder of the study: this package is only ever used in a checkout."""


def declared_sweep(study: Path, name: str, *, quick: bool = False) -> Sweep:
    """A sweep of the study by name; all of them share one folder of records."""
    file = study / "declarations" / f"{name}.toml"
    return Sweep.read(file, quick=quick, results=study / "results")


class Library(Mapping[str, Source]):
    """The sweeps of the study by name, each read when it is first asked for."""

    def __init__(self, study: Path, *, quick: bool = False) -> None:
        """Looks what is declared.

        Args:
            study: holds ``declarations/``, ``results/``, ``audits/`` and ``paper.toml``.
            quick: look at the small versions.
        """
        self._study, self._quick = study, quick
        wanted = {"grid", "quick"} if quick else {"grid"}
        files = sorted((study / "declarations").glob("*.toml"))
        self._names = [file.stem for file in files if wanted <= _tables(file)]
        self._read: dict[str, Source] = {}

    def __getitem__(self, name: str) -> Source:
        if name not in self._read:
            self._read[name] = _source(self._study, name, quick=self._quick)
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def audits(self) -> list[dict[str, Any]]:
        """What the stored audits found, in the order of their files' names."""
        files = sorted((self._study / "audits").glob("*.json"))
        return [{"name": file.stem, **json.loads(file.read_text())} for file in files]

    @property
    def impairment(self) -> list[dict[str, Any]]:
        """What can be learnt from an impaired graph: the stored rows, none before they are made."""
        return stored_rows(self._study / "results" / "impairment.json")

    @property
    def payments(self) -> list[dict[str, Any]]:
        """What finds launderers: the stored rows."""
        return stored_rows(self._study / "results" / "payments.json")


def stored_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a part that is no sweep; none before they are made."""
    rows: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return rows


def _source(study: Path, name: str, *, quick: bool) -> Source:
    sweep = declared_sweep(study, name, quick=quick)
    return Source(
        name,
        sweep.cells,
        sweep.records(),
        Paper.read(study / "paper.toml"),
        sweep.histories(),
        _lost_shares(sweep.results.parent / "data.json"),
    )


def _lost_shares(file: Path) -> dict[tuple[str, int, int], float]:
    try:
        rows = json.loads(file.read_text()) if file.exists() else []
        return {(row["dataset"], row["clients"], row["seed"]): row["lost_share"] for row in rows}
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"cannot read the data table from {file}: {error}") from None


def _tables(file: Path) -> set[str]:
    """What a declaration declares."""
    try:
        return set(tomllib.loads(file.read_text()))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"cannot read {file}: {error}") from None


# How a setting is named in a title; others show their bare value.
_NAMED = {
    "partition.clients": "M = {}",
    "training.rounds": "{} rounds",
    "preset": "preset {}",
    "split.kind": "{} split",
    "feature_share": "features kept {}",
    "embedding.clusters": "C = {}",
    "embedding.depth": "L = {}",
}


def shared_settings(rows: Rows, *without: str) -> list[str]:
    """The settings in which runs differ, but for the method and those that an axis shows."""
    names = varied([settings for settings, _ in rows])
    return [name for name in names if name not in ("method", *without)]


def title_of(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    """The values under these names, as the title of a panel or table."""
    shown = ((name, settings[name]) for name in names if name in settings)
    return ", ".join(_NAMED.get(name, "{}").format(value) for name, value in shown)
