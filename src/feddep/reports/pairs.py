"""Methods against a reference, paired by seed: the mean difference and its confidence interval.

Runs with the same seed have the same graph, partition and split, so what a seed makes easy or hard
drops out of the difference. With differences d_1 … d_n of standard deviation s the interval is::

    mean(d) ± t · s / √n,    t = the 97.5% quantile of Student's t with n - 1 degrees of freedom
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import t as student_t

from feddep.experiments.records import Record
from feddep.reports.comparison import accuracy, footnotes, marked, points
from feddep.reports.summary import Rows, headings, setting_of, varied
from feddep.reports.table import Table

REFERENCE = "fedavg"
CONFIDENCE = 0.95
METRICS = ("global", "silo")

Runs = dict[str, dict[int, Record]]
"""The runs of one setting, by method and seed."""


@dataclass(frozen=True)
class Difference:
    """What the differences of several pairs say about their mean.

    Attributes:
        mean: in accuracy.
        margin: half the width of the confidence interval; one pair has none.
    """

    mean: float
    margin: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Difference":
        """From the difference of each pair."""
        mean, count = statistics.fmean(values), len(values)
        if count < 2:
            return cls(mean, None)
        quantile = float(student_t.ppf((1 + CONFIDENCE) / 2, count - 1))
        return cls(mean, quantile * statistics.stdev(values) / math.sqrt(count))

    @property
    def word(self) -> str:
        """Where the whole interval lies; ``open`` if it holds 0 or there is none."""
        if self.margin is None or abs(self.mean) <= self.margin:
            return "open"
        return "above" if self.mean > 0 else "below"

    def __str__(self) -> str:
        if self.margin is None:
            return points(self.mean)
        low, high = self.mean - self.margin, self.mean + self.margin
        return f"{points(self.mean)} [{points(low)}, {points(high)}]"


@dataclass(frozen=True)
class Paired:
    """One method against the reference in one setting.

    Attributes:
        setting: the values in which settings differ, as texts.
        method: which.
        base: the reference's mean accuracy over the same seeds, by metric.
        differences: from it, by metric.
        pairs: number of seeds that both have.
    """

    setting: tuple[str, ...]
    method: str
    base: Mapping[str, float]
    differences: Mapping[str, Difference]
    pairs: int


def pairs_table(rows: Rows) -> str:
    """:func:`pairs` in Markdown."""
    return pairs(rows).markdown()


def pairs(rows: Rows, reference: str = REFERENCE) -> Table:
    """One line for each setting of a sweep and each method but the reference.

    A line looks only at the seeds that both methods have; so does the reference's mean in it.

    Args:
        rows: settings and record of every run.
        reference: the method to compare with.
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
    groups: dict[tuple[str, ...], Runs] = {}
    for settings, record in rows:
        runs = groups.setdefault(setting_of(settings, names), {})
        runs.setdefault(record["method"], {})[record["seed"]] = record
    return [
        found for setting, runs in groups.items() for found in _against(setting, runs, reference)
    ]


def _against(setting: tuple[str, ...], runs: Runs, reference: str) -> Iterator[Paired]:
    base = runs.get(reference, {})
    for method, found in runs.items():
        seeds = sorted(found.keys() & base.keys())
        if method == reference or not seeds:
            continue
        means, differences = {}, {}
        for metric in METRICS:
            theirs = [_test_score(base[seed], metric) for seed in seeds]
            ours = [_test_score(found[seed], metric) for seed in seeds]
            means[metric] = statistics.fmean(theirs)
            differences[metric] = Difference.of([b - a for a, b in zip(theirs, ours, strict=True)])
        yield Paired(setting, method, means, differences, len(seeds))


def _cells(found: Paired, metric: str) -> tuple[str, str, str]:
    """The reference's mean, the difference from it, and the word for that."""
    difference = found.differences[metric]
    return accuracy(found.base[metric]), str(difference), difference.word


def _test_score(record: Record, metric: str) -> float:
    scores: Mapping[str, float] = record["scores"][metric]
    return scores["test"]
