"""When does it pay? Accuracy as more edges are lost between clients."""

import statistics
from collections.abc import Iterator
from dataclasses import replace

from feddep.experiments.files import Record
from feddep.reports.charts import Axis, Figure, Key, Panel, Series
from feddep.reports.comparison import marked
from feddep.reports.figures import (
    ACCURACY,
    METRIC_NAMES,
    method_keys,
    panels_of,
    score_point,
)
from feddep.reports.grids import in_order
from feddep.reports.pairs import METRICS
from feddep.reports.palette import Style, style_of
from feddep.reports.source import Source
from feddep.reports.summary import Rows

# Colour and marker tell the method.
_PARTITIONS = {"louvain": Style(), "random": Style(dash="2 3", hollow=True)}


def lost_edges_figure(source: Source) -> Iterator[Figure]:
    """Accuracy over the share of lost edges: a panel a data set and metric, a line a method.

    Runs whose share nobody tells are left out.
    """
    rows = [row for row in source.rows if source.lost_share(row[1]) is not None]
    if not rows:
        return
    panels, kinds = list[Panel](), dict[str, None]()
    for settings, group in panels_of(rows, ["dataset"]):
        kinds |= dict.fromkeys(record["partition"] for _, record in group)
        for metric in METRICS:
            title = f"{settings['dataset']}, {METRIC_NAMES[metric]}"
            series = list(_series(source, group, metric))
            panels.append(Panel(title, Axis("share of edges lost"), Axis(ACCURACY), series))
    keys = method_keys(record["method"] for _, record in rows)
    keys += [Key(kind, f"{kind} partition", _look(kind, Style()), "partitions") for kind in kinds]
    yield Figure(
        "lost-edges",
        "Accuracy over the share of edges lost between clients",
        panels,
        keys,
        "From left to right along a line the number of clients grows. Mean over seeds, intervals "
        "of one standard deviation to both sides. Choose in the legend what is shown; the scale "
        "follows.",
    )


def _series(source: Source, rows: Rows, metric: str) -> Iterator[Series]:
    lines: dict[tuple[str, str], dict[int, list[Record]]] = {}
    for _, record in rows:
        line = lines.setdefault((record["method"], record["partition"]), {})
        line.setdefault(record["clients"], []).append(record)
    methods = in_order(method for method, _ in lines)
    for method, kind in sorted(lines, key=lambda line: methods.index(line[0])):
        points = []
        for clients, records in sorted(lines[method, kind].items()):
            share = statistics.fmean(source.lost_share(record) or 0.0 for record in records)
            name = f"{marked(method)}, {kind}, M = {clients}, {share:.1%} of edges lost"
            points.append(score_point(share, records, metric, name))
        points.sort(key=lambda point: point.x)
        yield Series((method, kind), points, _look(kind, style_of(method)))


def _look(kind: str, style: Style) -> Style:
    """A method's style for a kind of partition."""
    more = _PARTITIONS.get(kind, Style(dash="7 3"))
    return replace(style, dash=more.dash, hollow=more.hollow)
