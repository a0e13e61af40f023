"""Sweeps as tables: mean ± standard deviation over the seeds."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from feddep.reports.formatting import divergence, footnotes, marked
from feddep.reports.table import Table
from feddep.runs.files import Record

Rows = Sequence[tuple[Mapping[str, Any], Record]]
"""Settings and record of every run of a sweep."""


def summary_table(rows: Rows) -> str:
    """:func:`summary` in Markdown."""
    return summary(rows).markdown()


def summary(rows: Rows) -> Table:
    """One line for each setting of a sweep, scores over its seeds."""
    names = varied([settings for settings, _ in rows])
    lines = [
        (
            *setting,
            *(spread([score_of(one, metric) for one in records]) for metric in ("global", "silo")),
            spread([record["scores"]["silo"]["val"] for record in records]),
            str(len(records)),
        )
        for setting, records in records_by_setting(rows, names).items()
    ]
    columns = (*headings(names), "global test", "silo test", "silo val", "seeds")
    notes = footnotes(str(settings.get("method")) for settings, _ in rows)
    notes += divergence(record for _, record in rows)
    return Table(columns, lines, notes)


def varied(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings in which the runs differ, but for the seed; several grids may set other keys."""
    names = dict.fromkeys(name for cell in cells for name in cell if name != "seed")
    return [name for name in names if len({str(cell.get(name)) for cell in cells}) > 1]


def setting_of(settings: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    """The values under these names, as a table shows them; a dash where nothing is set."""
    return tuple(
        marked(settings[name]) if name == "method" else str(settings.get(name, "–"))
        for name in names
    )


def by_setting(rows: Rows, names: Sequence[str]) -> dict[tuple[str, ...], Rows]:
    """The runs that do not differ under these names, by the texts that stand there."""
    groups: dict[tuple[str, ...], list[tuple[Mapping[str, Any], Record]]] = {}
    for settings, record in rows:
        groups.setdefault(setting_of(settings, names), []).append((settings, record))
    return dict(groups)


def records_by_setting(rows: Rows, names: Sequence[str]) -> dict[tuple[str, ...], list[Record]]:
    """Their records."""
    groups = by_setting(rows, names).items()
    return {setting: [record for _, record in group] for setting, group in groups}


def headings(names: Sequence[str]) -> list[str]:
    """The settings' names without their sections."""
    return [name.rpartition(".")[2] for name in names]


def score_of(record: Record, metric: str = "global") -> float:
    """Accuracy on the test nodes, on the whole graph or, for ``silo``, on the own silo."""
    score: float = record["scores"][metric]["test"]
    return score


def spread(values: Sequence[float | None]) -> str:
    """Mean ± sample standard deviation, as in the paper; of one value, itself.

    A dash where one is not known, as of data without validation nodes.
    """
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "–"
    mean = f"{statistics.fmean(known):.4f}"
    return mean if len(known) < 2 else f"{mean} ± {statistics.stdev(known):.3f}"
