"""Whether stored runs bear out a claim: one rule for all claims of the paper.

A claim says that some measure lies in a range, such as "FedDEP less FedSage is above 0". The
measure is taken from the runs with the same setting and seed, so it is a paired difference; pooled
over settings as :mod:`feddep.reports.pooling` does, it has a 95% interval. An interval is *for* the
claim if all of it lies in the claimed range, *against* it if all of it lies outside, else
*undecided*. The claim is

- **supported** if the pooled interval is for it, and no more settings are against it than for it,
- **contradicted** if the pooled interval is against it, and no more settings are for it than
  against it,
- **open** otherwise.

A claim about *every* setting is supported only if no setting is against it, and contradicted by two
that are: one in a dozen would be no surprise among 95% intervals. While runs are missing a verdict
is given *so far*; without any it is *not run yet*. One seed has no interval and decides nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from feddep.experiments.records import Record
from feddep.reports.comparison import points
from feddep.reports.grids import NOT_RUN
from feddep.reports.pairs import Difference, score_of
from feddep.reports.pooling import Pooled, Setting, pooled
from feddep.reports.source import Source
from feddep.reports.summary import Rows
from feddep.scenario.spec import RunSpec

SUPPORTED, CONTRADICTED, OPEN = "supported", "contradicted", "open"
FOR, AGAINST, UNDECIDED = "for", "against", "undecided"
SO_FAR = " so far"
COUNTEREXAMPLES = 2
"""So many settings against a claim about every setting contradict it."""


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
        return score_of(self.record(method, settings), "global")


@dataclass(frozen=True)
class Measure:
    """What is looked at.

    Attributes:
        text: in symbols.
        of: its value in one case, as a share of 1.
        unit: of the value times 100.
        printed: the paper's tables have numbers for it.
    """

    text: str
    of: Callable[[Case], float]
    unit: str = "points"
    printed: bool = True


@dataclass(frozen=True)
class Evidence:
    """Where a claim is looked at.

    Attributes:
        sweep: the runs' sweep.
        where: what the settings must be.
        apart: settings that make cases of their own, besides the data set.
    """

    sweep: str
    where: Mapping[str, Any] = field(default_factory=dict)
    apart: tuple[str, ...] = ("partition.clients",)

    def __str__(self) -> str:
        values = (f"M = {v}" if k == "partition.clients" else str(v) for k, v in self.where.items())
        return ", ".join([self.sweep, *values])

    def cases(self, rows: Rows) -> dict[Setting, dict[int, Case]]:
        """The runs by setting and seed."""
        names = ("dataset", *self.apart)
        found: dict[Setting, dict[int, list[tuple[Mapping[str, Any], Record]]]] = {}
        for settings, record in rows:
            if all(settings.get(key) == value for key, value in self.where.items()):
                setting = tuple(str(settings.get(name, "–")) for name in names)
                own = found.setdefault(setting, {})
                own.setdefault(settings.get("seed", 0), []).append((settings, record))
        return {
            setting: {seed: Case(runs) for seed, runs in own.items()}
            for setting, own in found.items()
        }


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper.

    Attributes:
        section: of the paper.
        text: the claim in words.
        measure: what it is about.
        evidence: where it is looked at; the first counts.
        above: the range that is claimed, as shares of 1, begins here; None where it has no end.
        below: and ends here.
        every: it is claimed of every setting.
    """

    section: str
    text: str
    measure: Measure
    evidence: Sequence[Evidence]
    above: float | None = 0.0
    below: float | None = None
    every: bool = False

    @property
    def claimed(self) -> str:
        """The measure and its range."""
        unit = self.measure.unit
        low = "" if self.above is None else f" > {_bound(self.above, unit)}"
        high = "" if self.below is None else f" < {_bound(self.below, unit)}"
        both = f"{low} and{high}" if low and high else low + high
        return f"{self.measure.text}{both}{' everywhere' if self.every else ''}"

    def side(self, difference: Difference) -> str:
        """Whether an interval is for the claim, against it, or neither."""
        if difference.ends is None:
            return UNDECIDED
        low, high = difference.ends
        above, below = self.above, self.below
        if (above is None or low > above) and (below is None or high < below):
            return FOR
        if (above is not None and high < above) or (below is not None and low > below):
            return AGAINST
        return UNDECIDED

    def verdict(self, found: Pooled) -> str:
        """What the runs say, by the rule at the top."""
        sides = [self.side(difference) for difference in found.settings.values()]
        agreeing, opposing = sides.count(FOR), sides.count(AGAINST)
        overall = self.side(found.overall)
        if self.every and opposing >= COUNTEREXAMPLES:
            return CONTRADICTED
        if overall == FOR and (opposing == 0 if self.every else agreeing >= opposing):
            return SUPPORTED
        if overall == AGAINST and opposing >= agreeing:
            return CONTRADICTED
        return OPEN


@dataclass(frozen=True)
class Finding:
    """What one body of evidence says about a claim.

    Attributes:
        claim: which.
        evidence: where it was looked at.
        found: the measure over settings; None without runs.
        declared: settings that the sweep has.
        complete: every declared setting and seed has its value.
        printed: the mean of the measure in the paper's tables, where they have it, over the same
            settings; over all of them while there are no runs.
    """

    claim: Claim
    evidence: Evidence
    found: Pooled | None
    declared: int
    complete: bool
    printed: float | None

    @property
    def verdict(self) -> str:
        """The word for it."""
        if self.found is None:
            return NOT_RUN
        return self.claim.verdict(self.found) + ("" if self.complete else SO_FAR)

    @property
    def numbers(self) -> tuple[str, str, str, str]:
        """Our mean, the paper's, settings for, against and undecided, settings of all."""
        printed = "–" if self.printed is None else points(self.printed)
        if self.found is None:
            return "–", printed, "–", f"0 of {self.declared}"
        sides = [self.claim.side(difference) for difference in self.found.settings.values()]
        counts = " / ".join(str(sides.count(side)) for side in (FOR, AGAINST, UNDECIDED))
        return str(self.found.overall), printed, counts, f"{len(sides)} of {self.declared}"


def examine(claim: Claim, sources: Mapping[str, Source]) -> Iterator[Finding]:
    """What each body of evidence says, as far as its sweep is declared."""
    for evidence in claim.evidence:
        if evidence.sweep in sources:
            yield _finding(claim, evidence, sources[evidence.sweep])


def _finding(claim: Claim, evidence: Evidence, source: Source) -> Finding:
    declared = evidence.cases([(cell, {}) for cell in source.cells])
    values = _values(claim.measure, evidence, _rows(source))
    printed = _values(claim.measure, evidence, _printed(source)) if claim.measure.printed else {}
    printed = {setting: own for setting, own in printed.items() if setting in (values or printed)}
    return Finding(
        claim,
        evidence,
        pooled(values) if values else None,
        len(declared),
        _count(values) == _count(declared),
        pooled(printed).overall.mean if printed else None,
    )


def _values(measure: Measure, evidence: Evidence, rows: Rows) -> dict[Setting, dict[int, float]]:
    """The measure for every setting and seed with all the runs that it needs."""
    found: dict[Setting, dict[int, float]] = {}
    for setting, cases in evidence.cases(rows).items():
        for seed, case in cases.items():
            try:
                value = measure.of(case)
            except NotThereError:
                continue
            found.setdefault(setting, {})[seed] = value
    return found


def _count(values: Mapping[Setting, Mapping[int, object]]) -> int:
    return sum(map(len, values.values()))


def _rows(source: Source) -> Rows:
    """The runs, with their histories where the sweep keeps them."""
    if not source.histories:
        return source.rows
    return [(cell, record | {"history": history}) for cell, record, history in source.histories]


# What the paper's tables depend on; of other settings it prints nothing.
_PRINTED_BY = {
    *("dataset", "method", "partition.clients", "embedding.clusters"),
    *("preset", "split.kind", "seed"),
}


def _printed(source: Source) -> Rows:
    """What the paper has for the declared runs, as if they were runs."""
    rows = []
    for cell in source.cells:
        if not cell.keys() <= _PRINTED_BY:
            continue
        spec = RunSpec().with_settings(cell)
        dataset, clients = spec.dataset, spec.partition.clients
        entry = (
            source.paper.printed_for_clusters(dataset, spec.embedding.clusters, clients)
            if "embedding.clusters" in cell
            else source.paper.printed(dataset, spec.method, clients)
        )
        if entry is not None:
            rows.append((cell, {"scores": {"global": {"test": entry.mean}}}))
    return rows


def _bound(value: float, unit: str) -> str:
    return f"{points(value).rstrip('0').rstrip('.') if value else 0} {unit}"
