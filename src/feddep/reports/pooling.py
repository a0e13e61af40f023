"""Paired differences of several settings taken together.

Runs of one data set with the same seed share their split, whatever the number of clients, so their
differences are no independent observations. A data set's seed therefore counts once, with its mean
over the settings; the interval of a data set is over its seeds. The overall mean gives every data
set the same weight, as the paper's averages do, and speaks about these data sets: what another draw
of the seeds would give, not what another data set would.
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from feddep.reports.pairs import Difference

Setting = tuple[str, ...]
"""What runs have in common; the first part is the data set."""

Values = Mapping[Setting, Mapping[int, float]]
"""A difference for each setting and seed."""


@dataclass(frozen=True)
class Pooled:
    """What the differences say in each setting, in each data set and overall.

    Attributes:
        settings: over the seeds of each setting.
        datasets: over the seeds of each data set, a seed being the mean of its settings.
        overall: the mean over data sets. Data sets with one seed have no spread and are left out,
            unless there is no other; then there is no interval.
    """

    settings: Mapping[Setting, Difference]
    datasets: Mapping[str, Difference]
    overall: Difference


def pooled(values: Values) -> Pooled:
    """Takes differences together; every setting has at least one."""
    by_dataset: dict[str, dict[int, list[float]]] = {}
    for (dataset, *_), found in values.items():
        for seed, value in found.items():
            by_dataset.setdefault(dataset, {}).setdefault(seed, []).append(value)
    seeds = {
        dataset: [statistics.fmean(own) for own in found.values()]
        for dataset, found in by_dataset.items()
    }
    several = [found for found in seeds.values() if len(found) > 1]
    return Pooled(
        settings={
            setting: Difference.of(list(found.values())) for setting, found in values.items()
        },
        datasets={dataset: Difference.of(found) for dataset, found in seeds.items()},
        overall=Difference.over(several or list(seeds.values())),
    )
