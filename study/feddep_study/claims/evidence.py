"""Where claims are looked at, and what is looked at: runs of one setting and seed, and measures."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from feddep.reports.summary import Rows, score_of
from feddep.runs.files import Record
from feddep_study.statistics.pooling import Setting

Row = tuple[Mapping[str, Any], Record]
"""Settings and record of a run."""


class NotThereError(LookupError):
    """A run that a measure needs is not there."""


@dataclass(frozen=True)
class Case:
    """The runs of one setting with one seed, or what the paper prints for the setting."""

    rows: Rows

    def record(self, method: str, settings: Mapping[str, Any] | None = None) -> Record:
        """The run of a method with these settings.

        Raises:
            NotThereError: there is none yet.
        """
        wanted = {"method": method, **(settings or {})}
        for own, record in self.rows:
            if all(own.get(key) == value for key, value in wanted.items()):
                return record
        raise NotThereError(method)

    def accuracy(self, method: str, settings: Mapping[str, Any] | None = None) -> float:
        """Its test score on the whole graph, the paper's metric."""
        return score_of(self.record(method, settings))


@dataclass(frozen=True)
class Measure:
    """What is looked at.

    Attributes:
        text: in symbols.
        of: its value in one case, as a share of 1.
        unit: of the value times 100.
        printed: the paper's tables have numbers for it.
        exact: equal values are no chance; so it is with bytes.
        clocked: the methods whose seconds it takes, which must have run alone.
    """

    text: str
    of: Callable[[Case], float]
    unit: str = "points"
    printed: bool = True
    exact: bool = False
    clocked: tuple[str, ...] = ()

    def is_alone(self, case: Case) -> bool:
        """Whether nothing else ran while its seconds were measured."""
        return all(case.record(method).get("at_once") == 1 for method in self.clocked)


@dataclass(frozen=True)
class Evidence:
    """Where a claim is looked at.

    Attributes:
        sweep: the runs' sweep.
        where: what the settings must be.
        apart: settings that make cases of their own, besides the data set.
        beside: runs of other sweeps that are looked at in the same cases.
    """

    sweep: str
    where: Mapping[str, Any] = field(default_factory=dict)
    apart: tuple[str, ...] = ("partition.clients",)
    beside: tuple["Evidence", ...] = ()

    def __str__(self) -> str:
        values = (f"M = {v}" if k == "partition.clients" else str(v) for k, v in self.where.items())
        own = ", ".join([self.sweep, *values])
        return " with ".join([own, *map(str, self.beside)])

    def cases(self, rows: Rows, *beside: Rows) -> dict[Setting, dict[int, Case]]:
        """The runs by setting and seed.

        Args:
            rows: of the sweep.
            beside: of the other sweeps; they make no cases of their own.
        """
        found: dict[Setting, dict[int, list[Row]]] = {}
        for setting, seed, run in self._placed(rows):
            found.setdefault(setting, {}).setdefault(seed, []).append(run)
        for other, theirs in zip(self.beside, beside, strict=False):
            for setting, seed, run in other._placed(theirs):
                if seed in found.get(setting, {}):
                    found[setting][seed].append(run)
        return {
            setting: {seed: Case(runs) for seed, runs in own.items()}
            for setting, own in found.items()
        }

    def _placed(self, rows: Rows) -> Iterator[tuple[Setting, int, Row]]:
        """The runs that are looked at, each with its setting and seed."""
        names = ("dataset", *self.apart)
        for settings, record in rows:
            if all(settings.get(key) == value for key, value in self.where.items()):
                setting = tuple(str(settings.get(name, "–")) for name in names)
                yield setting, settings.get("seed", 0), (settings, record)


Cases = Mapping[Setting, Mapping[int, Case]]
"""By setting and seed."""
