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
from feddep.reports.comparison import accuracy, footnotes, markdown_table, marked, points
from feddep.reports.summary import Rows, headings, setting_of, varied

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


def pairs_table(rows: Rows) -> str:
    """Markdown: one line for each setting of a sweep and each method but the reference.

    A line looks only at the seeds that both methods have; so does the reference's mean in it.

    Args:
        rows: settings and record of every run.
    """
    names = [name for name in varied([settings for settings, _ in rows]) if name != "method"]
    groups: dict[tuple[str, ...], Runs] = {}
    for settings, record in rows:
        runs = groups.setdefault(setting_of(settings, names), {})
        runs.setdefault(record["method"], {})[record["seed"]] = record
    lines = [(*setting, *line) for setting, runs in groups.items() for line in _lines(runs)]
    of_metrics = (
        heading
        for metric in METRICS
        for heading in (f"{REFERENCE}, {metric} test", "difference in points", "")
    )
    table = markdown_table((*headings(names), "method", *of_metrics, "pairs"), lines)
    notes = footnotes(record["method"] for _, record in rows)
    return "\n".join([table, *(f"{note}\n" for note in notes)])


def _lines(runs: Runs) -> Iterator[tuple[str, ...]]:
    """Every other method that shares a seed with the reference."""
    reference = runs.get(REFERENCE, {})
    for method, found in runs.items():
        seeds = sorted(found.keys() & reference.keys())
        if method == REFERENCE or not seeds:
            continue
        pairs = [(reference[seed], found[seed]) for seed in seeds]
        cells = (cell for metric in METRICS for cell in _cells(pairs, metric))
        yield marked(method), *cells, str(len(seeds))


def _cells(pairs: Sequence[tuple[Record, Record]], metric: str) -> tuple[str, str, str]:
    """The reference's mean, the difference from it, and the word for that."""
    base = [_test_score(record, metric) for record, _ in pairs]
    other = [_test_score(record, metric) for _, record in pairs]
    difference = Difference.of([b - a for a, b in zip(base, other, strict=True)])
    return accuracy(statistics.fmean(base)), str(difference), difference.word


def _test_score(record: Record, metric: str) -> float:
    scores: Mapping[str, float] = record["scores"][metric]
    return scores["test"]
