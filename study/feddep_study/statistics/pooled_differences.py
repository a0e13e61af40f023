"""How far each method is above FedAvg and FedSage, pooled over settings: a line a data set."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from feddep.reports.formatting import footnotes, marked
from feddep.reports.summary import Rows, score_of, setting_of
from feddep.reports.table import Table
from feddep.runs.files import Record
from feddep_study.paper_tables import in_order
from feddep_study.source import Source
from feddep_study.statistics.paired import (
    CONFIDENCE,
    METRICS,
    REFERENCE,
    Paired,
    compared_settings,
)
from feddep_study.statistics.pooling import Setting, Values, pooled

REFERENCES = (REFERENCE, "fedsage")
ALL = "all"
NOTE = (
    f"Mean difference of test accuracy in points, paired by seed, with its {CONFIDENCE:.0%} "
    "Student-t interval; *above* or *below* where it excludes 0. A data set's seed counts once, "
    "with its mean over the numbers of clients, if it has all of those that are run so far; where "
    "no seed has, the mean over all runs stands without an interval. So does a mean over one seed, "
    "or over equal differences. *all* is the mean over the data sets where every method has an "
    "interval from three seeds, over every data set where there are none such. Pairs are those "
    "that a line uses with each reference, counted "
    "for the global metric."
)

Runs = Mapping[str, Mapping[Setting, Mapping[int, Record]]]
"""By method, setting and seed."""


def gains(source: Source) -> Iterator[Table]:
    """One table for each preset and split; the first says how to read it."""
    notes: Sequence[str] = (NOTE,)
    for title, own in by_preset(source.rows):
        found = {
            reference: {(pair.method, *pair.setting): pair for pair in pooled_pairs(own, reference)}
            for reference in REFERENCES
        }
        keys = dict.fromkeys(key for pairs in found.values() for key in pairs)
        methods = in_order(method for method, _ in keys)
        lines = [
            _line(key, [found[reference].get(key) for reference in REFERENCES])
            for key in sorted(keys, key=lambda key: methods.index(key[0]))
        ]
        if lines:
            headings = (f"− {name}, {metric}" for name in REFERENCES for metric in METRICS)
            columns = ("method", "data", *headings, "pairs")
            notes = (*footnotes(methods), *notes)
            yield Table(columns, lines, notes, f"Pooled differences, {title}")
            notes = ()


def pooled_pairs(rows: Rows, reference: str = REFERENCE) -> Iterator[Paired]:
    """Every method against the reference in each data set, and in all if there are several.

    *All* are, by metric, the same data sets for every method, or they could not be compared.
    """
    runs = by_method(rows)
    found = {
        method: {metric: differences(runs, method, reference, metric) for metric in METRICS}
        for method in in_order(name for name in runs if name != reference)
    }
    found = {method: values for method, values in found.items() if values[METRICS[0]]}
    shared = {metric: _certain(values[metric] for values in found.values()) for metric in METRICS}
    for method, values in found.items():
        datasets = list(dict.fromkeys(setting[0] for setting in values[METRICS[0]]))
        those = {dataset: {metric: {dataset} for metric in METRICS} for dataset in datasets}
        if len(datasets) > 1:
            those[ALL] = {metric: shared[metric] or set(datasets) for metric in METRICS}
        for name, of in those.items():
            taken = {metric: pooled(_within(values[metric], of[metric])) for metric in METRICS}
            overall = {metric: one.overall for metric, one in taken.items()}
            pairs = sum(taken[METRICS[0]].used.values())
            yield Paired((name,), method, overall, pairs)


def _certain(of_methods: Iterable[Values]) -> set[str]:
    """The data sets that decide for each of several methods."""
    certain = [set(pooled(values).certain) for values in of_methods]
    return set.intersection(*certain) if certain else set()


def by_preset(rows: Rows) -> list[tuple[str, Rows]]:
    """The runs of each preset and split, which are never pooled, with a title."""
    groups: dict[str, list[tuple[Mapping[str, object], Record]]] = {}
    for settings, record in rows:
        title = f"preset {record['preset']}, {record['split']} split"
        groups.setdefault(title, []).append((settings, record))
    return list(groups.items())


def by_method(rows: Rows) -> Runs:
    """The runs in the order in which :func:`differences` looks for them."""
    names = [name for name in compared_settings(rows) if name != "dataset"]
    runs: dict[str, dict[Setting, dict[int, Record]]] = {}
    for settings, record in rows:
        setting = (record["dataset"], *setting_of(settings, names))
        runs.setdefault(record["method"], {}).setdefault(setting, {})[record["seed"]] = record
    return runs


def differences(runs: Runs, method: str, reference: str, metric: str) -> Values:
    """A method less a reference, in the settings and for the seeds that both have."""
    own, base = runs.get(method, {}), runs.get(reference, {})
    shared = {
        setting: sorted(own[setting].keys() & base[setting].keys())
        for setting in own
        if setting in base
    }
    return {
        setting: {
            seed: score_of(own[setting][seed], metric) - score_of(base[setting][seed], metric)
            for seed in seeds
        }
        for setting, seeds in shared.items()
        if seeds
    }


def _within(values: Values, datasets: Container[str]) -> Values:
    return {setting: found for setting, found in values.items() if setting[0] in datasets}


def _line(key: tuple[str, ...], pairs: Sequence[Paired | None]) -> tuple[str, ...]:
    """A method in a data set against each reference."""
    method, dataset = key
    cells = [_told(pair, metric) for pair in pairs for metric in METRICS]
    counts = ["–" if pair is None else str(pair.pairs) for pair in pairs]
    return marked(method), dataset, *cells, " / ".join(counts)


def _told(pair: Paired | None, metric: str) -> str:
    """The difference with its interval, and where that lies if it excludes 0."""
    if pair is None:
        return "–"
    difference = pair.differences[metric]
    return f"{difference} {difference.word}".removesuffix(" open")
