"""Tables as the paper prints them: methods (or C) down, numbers of clients across."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from feddep.algorithms import METHODS
from feddep.reports.formatting import divergence, footnotes, marked, points
from feddep.reports.summary import spread
from feddep.reports.table import Table
from feddep.scenario.spec import RunSpec
from feddep_study.against_paper import Printed
from feddep_study.source import Source

NOT_RUN = "not run yet"
_NOTE = (
    "Test accuracy on the whole graph, mean ± standard deviation over seeds; (n) where fewer seeds "
    "are there than elsewhere in the table. The difference is in percentage points; *within* is "
    "within one of the paper's standard deviations, else ours is *above* or *below*."
)

Scores = dict[str, dict[int, list[float]]]
"""By row and number of clients; empty for what is declared and not run yet."""


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
    grids: dict[tuple[str, str, str], Scores] = {}
    for cell in source.cells:
        spec = RunSpec().with_settings(cell)
        grid = grids.setdefault((spec.dataset, spec.preset, spec.split.kind), {})
        grid.setdefault(spec.method, {}).setdefault(spec.partition.clients, [])
    for settings, record in source.rows:
        spec = RunSpec().with_settings(settings)
        grid = grids[spec.dataset, spec.preset, spec.split.kind]
        grid[spec.method][spec.partition.clients].append(record["scores"]["global"]["test"])
    for (dataset, preset, split), scores in grids.items():
        if not _any(scores):
            continue
        of_this = {"dataset": dataset, "preset": preset, "split": split}
        own = [record for _, record in source.rows if of_this.items() <= record.items()]
        methods = in_order(scores)
        lines = {
            marked(method): {
                clients: (found, source.paper.printed(dataset, method, clients))
                for clients, found in scores[method].items()
            }
            for method in methods
        }
        title = f"{dataset}, preset {preset}, {split} split"
        yield _grid(title, "method", lines, [*footnotes(methods), *divergence(own)])


def _cluster_grids(source: Source) -> Iterator[Table]:
    grids: dict[str, Scores] = {}
    for cell in source.cells:
        spec = RunSpec().with_settings(cell)
        if spec.method == "feddep":
            grid = grids.setdefault(spec.dataset, {})
            grid.setdefault(str(spec.embedding.clusters), {}).setdefault(spec.partition.clients, [])
    for settings, record in source.rows:
        spec = RunSpec().with_settings(settings)
        if spec.method == "feddep":
            row = grids[spec.dataset][str(spec.embedding.clusters)]
            row[spec.partition.clients].append(record["scores"]["global"]["test"])
    for dataset, scores in grids.items():
        if not _any(scores):
            continue
        lines = {
            clusters: {
                clients: (found, source.paper.printed_for_clusters(dataset, int(clusters), clients))
                for clients, found in scores[clusters].items()
            }
            for clusters in sorted(scores, key=int)
        }
        yield _grid(f"{dataset}, feddep", "C", lines)


def verdict(ours: float, printed: Printed) -> str:
    """Where ours lies: within one of the paper's deviations, above or below.

    The paper prints four digits, so nothing finer is compared.
    """
    difference = round(ours - printed.mean, 4)
    if abs(difference) <= printed.deviation:
        return "within"
    return "above" if difference > 0 else "below"


Line = dict[int, tuple[list[float], Printed | None]]


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


def _any(scores: Scores) -> bool:
    return any(found for row in scores.values() for found in row.values())
