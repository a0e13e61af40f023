"""Tables as the paper prints them: methods (or C) down, numbers of clients across."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from feddep.algorithms import METHODS
from feddep.reports.formatting import divergence, footnotes, marked, points
from feddep.reports.summary import spread
from feddep.reports.table import Table
from feddep.scenario.spec import RunSpec
from feddep_study.against_paper import Printed
from feddep_study.source import Place, Source

NOT_RUN = "not run yet"
_NOTE = (
    "Test accuracy on the whole graph, mean ± standard deviation over seeds; (n) where fewer seeds "
    "are there than elsewhere in the table. The difference is in percentage points; *within* is "
    "within one of the paper's standard deviations, else ours is *above* or *below*."
)


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods as ``feddep methods`` lists them, then those from elsewhere."""
    known = list(METHODS)
    found = dict.fromkeys(methods)
    return sorted(found, key=lambda name: known.index(name) if name in known else len(known))


def paper_grids(source: Source) -> Iterator[Table]:
    """Table 1: one table for each data set, preset and split; the first says how to read it."""
    return _with_note(_paper_grids(source))


def cluster_grids(source: Source) -> Iterator[Table]:
    """Table 2: FedDEP by number of clusters, one table for each data set."""
    return _with_note(_cluster_grids(source))


def _with_note(tables: Iterable[Table]) -> Iterator[Table]:
    for number, table in enumerate(tables):
        yield table if number else replace(table, notes=(*table.notes, _NOTE))


def _paper_grids(source: Source) -> Iterator[Table]:
    grids = _grids(
        source,
        lambda spec: (
            *(spec.dataset, spec.preset, spec.split.kind),
            *(spec.method, spec.partition.clients),
        ),
        lambda group, method, clients: source.paper.printed(group[0], method, clients),
    )
    for (dataset, preset, split), lines in grids.items():
        of_this = {"dataset": dataset, "preset": preset, "split": split}
        own = [record for _, record in source.rows if of_this.items() <= record.items()]
        methods = in_order(lines)
        title = f"{dataset}, preset {preset}, {split} split"
        shown = {marked(method): lines[method] for method in methods}
        yield _grid(title, "method", shown, [*footnotes(methods), *divergence(own)])


def _cluster_grids(source: Source) -> Iterator[Table]:
    def place(spec: RunSpec) -> Place | None:
        own = spec.dataset, spec.embedding.clusters, spec.partition.clients
        return own if spec.method == "feddep" else None

    printed = source.paper.printed_for_clusters
    grids = _grids(source, place, lambda group, *others: printed(*group, *others))
    for (dataset,), lines in grids.items():
        shown = {str(clusters): lines[clusters] for clusters in sorted(lines)}
        yield _grid(f"{dataset}, feddep", "C", shown)


Line = dict[int, tuple[list[float], Printed | None]]
"""Ours and the paper's by number of clients."""


def _grids(
    source: Source,
    place: Callable[[RunSpec], Place | None],
    printed: Callable[[Place, Any, int], Printed | None],
) -> dict[Place, dict[Any, Line]]:
    """The lines of every grid of which anything has been run.

    Args:
        source: the sweep.
        place: of a run: its grid, its line, its number of clients.
        printed: what the paper has there.
    """
    grids: dict[Place, dict[Any, Line]] = {}
    for (*group, line, clients), found in source.scores(place).items():
        scores = [score for score in found.values() if score is not None]
        own = grids.setdefault(tuple(group), {}).setdefault(line, {})
        own[clients] = scores, printed(tuple(group), line, clients)
    return {
        group: lines
        for group, lines in grids.items()
        if any(scores for line in lines.values() for scores, _ in line.values())
    }


def verdict(ours: float, printed: Printed) -> str:
    """Where ours lies: within one of the paper's deviations, above or below.

    The paper prints four digits, so nothing finer is compared.
    """
    difference = round(ours - printed.mean, 4)
    if abs(difference) <= printed.deviation:
        return "within"
    return "above" if difference > 0 else "below"


def _grid(title: str, what: str, lines: dict[str, Line], notes: Sequence[str] = ()) -> Table:
    columns = sorted({clients for line in lines.values() for clients in line})
    most = max(len(found) for line in lines.values() for found, _ in line.values())
    headings = [what]
    for clients in columns:
        headings += [f"M = {clients}: ours", "paper", "difference"]
    rows = [
        (name, *(text for clients in columns for text in _texts(line.get(clients), most)))
        for name, line in lines.items()
    ]
    return Table(headings, rows, notes, title)


def _texts(entry: tuple[list[float], Printed | None] | None, most: int) -> tuple[str, str, str]:
    """Ours, the paper's, the difference with its word; dashes where there is nothing."""
    if entry is None:
        return "–", "–", "–"
    scores, printed = entry
    ours = spread(scores) if scores else NOT_RUN
    if 0 < len(scores) < most:
        ours += f" ({len(scores)})"
    if printed is None:
        return ours, "–", "–"
    if not scores:
        return ours, str(printed), "–"
    mean = statistics.fmean(scores)
    return ours, str(printed), f"{points(mean - printed.mean)} {verdict(mean, printed)}"
