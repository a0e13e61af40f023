"""Methods against a reference, paired by seed: the mean difference and its confidence interval.

Runs with the same seed have the same graph, partition and split, so what a seed makes easy or hard
drops out of the difference. With differences d_1 … d_n of standard deviation s the interval is::

    mean(d) ± t · s / √n,    t = the 97.5% quantile of Student's t with n - 1 degrees of freedom

The mean over k groups, such as data sets, whose differences have another spread in each::

    mean of the means ± t · √(Σ e) / k,    e = s² / n of each group, t with as many degrees of
                                           freedom as Welch and Satterthwaite give:
                                           (Σ e)² / Σ (e² / (n - 1))

Differences that are all equal have no spread, so nothing tells how far another seed would lie; they
have no interval, unless what is measured is exact, such as bytes.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scipy.stats import t as student_t

from feddep.reports.formatting import accuracy, footnotes, marked, points
from feddep.reports.summary import Rows, headings, records_by_setting, score_of, varied
from feddep.reports.table import Table
from feddep.runs.files import Record

REFERENCE = "fedavg"
CONFIDENCE = 0.95
ROUNDING = 1e-9
"""Values that differ by less are equal."""
METRICS = ("global", "silo")

Runs = dict[str, dict[int, Record]]
"""The runs of one setting, by method and seed."""


@dataclass(frozen=True)
class Difference:
    """What the differences of several pairs say about their mean.

    Attributes:
        mean: in accuracy.
        margin: half the width of the confidence interval; one pair has none, nor have equal ones.
    """

    mean: float
    margin: float | None

    @classmethod
    def of(cls, values: Sequence[float], *, exact: bool = False) -> "Difference":
        """From the difference of each pair."""
        return cls.over([values], exact=exact)

    @classmethod
    def over(cls, groups: Sequence[Sequence[float]], *, exact: bool = False) -> "Difference":
        """The mean of the groups' means, every group counting alike (formula at the top).

        Args:
            groups: the differences of each.
            exact: equal differences are no chance, so their interval is a point.
        """
        mean = statistics.fmean(map(statistics.fmean, groups))
        varied = [values for values in groups if max(values) - min(values) >= ROUNDING]
        if not varied:
            return cls(mean, 0.0 if exact else None)
        if min(map(len, groups)) < 2 and not exact:
            return cls(mean, None)
        errors = [statistics.variance(values) / len(values) for values in varied]
        lost = [error**2 / (len(values) - 1) for error, values in zip(errors, varied, strict=True)]
        freedom = sum(errors) ** 2 / sum(lost)
        quantile = float(student_t.ppf((1 + CONFIDENCE) / 2, freedom))
        return cls(mean, quantile * math.sqrt(sum(errors)) / len(groups))

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval, if there is one."""
        return None if self.margin is None else (self.mean - self.margin, self.mean + self.margin)

    @property
    def word(self) -> str:
        """Where the whole interval lies; ``open`` if it holds 0 or there is none."""
        if self.margin is None or abs(self.mean) <= self.margin:
            return "open"
        return "above" if self.mean > 0 else "below"

    def __str__(self) -> str:
        if self.ends is None:
            return points(self.mean)
        low, high = self.ends
        return f"{points(self.mean)} [{points(low)}, {points(high)}]"


@dataclass(frozen=True)
class Paired:
    """One method against the reference in one setting.

    Attributes:
        setting: the values in which settings differ, as texts.
        method: which.
        differences: from the reference, by metric.
        pairs: number of seeds that both have.
        base: the reference's mean accuracy over the same seeds, by metric; none where settings
            are pooled.
    """

    setting: tuple[str, ...]
    method: str
    differences: Mapping[str, Difference]
    pairs: int
    base: Mapping[str, float] = field(default_factory=dict)


def pairs(rows: Rows, reference: str = REFERENCE) -> Table:
    """One line for each setting of a sweep and each method but the reference.

    A line looks only at the seeds that both methods have; so does the reference's mean in it.
    """
    of_metrics = (
        heading
        for metric in METRICS
        for heading in (f"{reference}, {metric} test", "difference in points", "")
    )
    lines = [
        (
            *found.setting,
            marked(found.method),
            *(cell for metric in METRICS for cell in _cells(found, metric)),
            str(found.pairs),
        )
        for found in paired(rows, reference)
    ]
    notes = footnotes(record["method"] for _, record in rows)
    columns = (*headings(compared_settings(rows)), "method", *of_metrics, "pairs")
    return Table(columns, lines, notes)


def compared_settings(rows: Rows) -> list[str]:
    """The settings that are compared apart from each other."""
    return [name for name in varied([settings for settings, _ in rows]) if name != "method"]


def paired(rows: Rows, reference: str = REFERENCE) -> list[Paired]:
    """Every method against the reference in every setting where they share a seed."""
    names = compared_settings(rows)
    return [
        found
        for setting, records in records_by_setting(rows, names).items()
        for found in _against(setting, _by_method(records), reference)
    ]


def _by_method(records: Sequence[Record]) -> Runs:
    runs: Runs = {}
    for record in records:
        runs.setdefault(record["method"], {})[record["seed"]] = record
    return runs


def _against(setting: tuple[str, ...], runs: Runs, reference: str) -> Iterator[Paired]:
    base = runs.get(reference, {})
    for method, found in runs.items():
        seeds = sorted(found.keys() & base.keys())
        if method == reference or not seeds:
            continue
        means, differences = {}, {}
        for metric in METRICS:
            theirs = [score_of(base[seed], metric) for seed in seeds]
            ours = [score_of(found[seed], metric) for seed in seeds]
            means[metric] = statistics.fmean(theirs)
            differences[metric] = Difference.of([b - a for a, b in zip(theirs, ours, strict=True)])
        yield Paired(setting, method, differences, len(seeds), means)


def _cells(found: Paired, metric: str) -> tuple[str, str, str]:
    """The reference's mean, the difference from it, and the word for that."""
    difference = found.differences[metric]
    return accuracy(found.base[metric]), str(difference), difference.word
