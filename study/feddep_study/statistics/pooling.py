"""Paired differences of several settings taken together.

Runs of one data set with the same seed share their split, whatever the number of clients, so their
differences are no independent observations. A data set's seed therefore counts once, with its mean
over the settings; the interval of a data set is over its seeds. While runs are coming in, only the
seeds count that have all the settings which the data set has so far: means over different settings
are no observations of the same thing. Without such a seed the data set has the mean of its
settings' means, and no interval. Beside data sets with more seeds, one with two stands outside the
overall interval: two numbers tell too little of their spread for what Welch and Satterthwaite make
of it.

The overall mean gives every data set the same weight, as the paper's averages do, and speaks about
these data sets: what another draw of the seeds would give, not what another data set would.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from feddep_study.statistics.paired import Difference

Setting = tuple[str, ...]
"""What runs have in common; the first part is the data set."""

Values = Mapping[Setting, Mapping[int, float]]
"""A difference for each setting and seed."""


_FIRM = 3  # seeds


@dataclass(frozen=True)
class Pooled:
    """What the differences say in each setting, in each data set and overall.

    Attributes:
        settings: over the seeds of each setting.
        datasets: over the seeds of each data set, a seed being the mean of its settings.
        overall: the mean over the data sets that decide; over all of them, and without an
            interval, if none has one.
        certain: the data sets that decide, if any has an interval.
        used: number of differences of each setting that stand in ``overall``.
    """

    settings: Mapping[Setting, Difference]
    datasets: Mapping[str, Difference]
    overall: Difference
    certain: Sequence[str]
    used: Mapping[Setting, int]

    @property
    def mean(self) -> float:
        """Over all data sets, also those without an interval."""
        return statistics.fmean(one.mean for one in self.datasets.values())

    @property
    def deciding(self) -> int:
        """Number of settings in the overall interval."""
        return 0 if self.overall.ends is None else sum(map(bool, self.used.values()))


def pooled(values: Values, *, exact: bool = False) -> Pooled:
    """Takes differences together; every setting has at least one.

    Args:
        values: the differences.
        exact: equal differences are no chance, see :class:`Difference`.
    """
    by_dataset: dict[str, list[Mapping[int, float]]] = {}
    for (dataset, *_), found in values.items():
        by_dataset.setdefault(dataset, []).append(found)
    seeds = {dataset: _seed_means(own) for dataset, own in by_dataset.items()}
    datasets = {
        dataset: Difference.of(list(found.values()), exact=exact)
        if found
        else Difference(_mean_of_means(by_dataset[dataset]), None)
        for dataset, found in seeds.items()
    }
    with_interval = [dataset for dataset, one in datasets.items() if one.ends is not None]
    firm = [dataset for dataset in with_interval if exact or len(seeds[dataset]) >= _FIRM]
    certain = firm or with_interval
    overall = (
        Difference.over([list(seeds[dataset].values()) for dataset in certain], exact=exact)
        if certain
        else Difference(statistics.fmean(one.mean for one in datasets.values()), None)
    )
    return Pooled(
        settings={
            setting: Difference.of(list(found.values()), exact=exact)
            for setting, found in values.items()
        },
        datasets=datasets,
        overall=overall,
        certain=certain,
        used={
            setting: (len(seeds[setting[0]]) or len(found))
            if setting[0] in (certain or datasets)
            else 0
            for setting, found in values.items()
        },
    )


def _seed_means(settings: list[Mapping[int, float]]) -> dict[int, float]:
    """The mean over a data set's settings, for the seeds that have all of them."""
    complete = sorted(set.intersection(*(set(found) for found in settings)))
    return {seed: statistics.fmean(found[seed] for found in settings) for seed in complete}


def _mean_of_means(settings: list[Mapping[int, float]]) -> float:
    return statistics.fmean(statistics.fmean(found.values()) for found in settings)
