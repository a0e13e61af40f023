"""When does it pay? Accuracy as more edges are lost between clients and as features get weaker.

And what each step brings, from training alone over averaging to mending.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from feddep.reports.charts import Axis, Figure, Key, Panel, Point, Series
from feddep.reports.formatting import accuracy, footnotes, marked
from feddep.reports.palette import Style, style_of
from feddep.reports.summary import Rows, headings, records_by_setting, score_of
from feddep.reports.table import Table
from feddep.runs.files import Record
from feddep_study.figures.accuracy import (
    ACCURACY,
    METRIC_NAMES,
    ZOOM,
    lines_figure,
    method_keys,
    panels_of,
    score_point,
)
from feddep_study.paper_tables import NOT_RUN, in_order
from feddep_study.source import Source
from feddep_study.statistics.paired import CONFIDENCE, METRICS, compared_settings, paired

# Colour and marker tell the method.
_PARTITIONS = {"louvain": Style(), "random": Style(dash="2 3", hollow=True)}

_WEAK = "feature_share"
"""The setting that makes features weaker."""

_MENDED = (("fedsage", "fedavg"), ("feddep", "fedavg"), ("oracle", "fedavg"))
_STEPS = {"global": _MENDED, "silo": (("fedavg", "local"), *_MENDED)}
"""What is compared with what, by metric; on the whole graph nobody would ask Local."""

_QUESTIONS = {"federate at all?": _STEPS["silo"][:1], "mend lost links?": _MENDED}

_GAINS = (
    f"Differences in points of test accuracy, paired by seed, with {CONFIDENCE:.0%} Student-t "
    "intervals where there is more than one pair. With three pairs an interval is wide: it takes a "
    "clear effect to lie beside 0."
)


def lost_edges_figure(source: Source) -> Iterator[Figure]:
    """Accuracy over the share of lost edges: a panel a data set and metric, a line a method.

    Runs whose share nobody tells are left out.
    """
    source = with_all_features(source)
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
    keys += _partition_keys(kinds)
    yield Figure(
        "lost-edges",
        "Accuracy over the share of edges lost between clients",
        panels,
        keys,
        "From left to right along a line the number of clients grows. Mean over seeds, intervals "
        "of one standard deviation to both sides. "
        f"{ZOOM}",
    )


def bother_figure(source: Source) -> Iterator[Figure]:
    """What a participant gains on its own nodes, over the share of lost edges.

    Two panels a data set: averaging against training alone, and ways of mending against averaging.
    """
    source = with_all_features(source)
    rows = [row for row in source.rows if source.lost_share(row[1]) is not None]
    panels = list[Panel]()
    for settings, group in panels_of(rows, ["dataset"]):
        for question, steps in _QUESTIONS.items():
            series = [one for step in steps for one in _gain_series(source, group, *step)]
            title = f"{settings['dataset']}: {question}"
            gained = Axis(f"points above {steps[0][1]}")
            if series:
                panels.append(Panel(title, Axis("share of edges lost"), gained, series, guide=0.0))
    if not panels:
        return
    shown = {key for panel in panels for one in panel.series for key in one.keys}
    keys = method_keys(record["method"] for _, record in rows if record["method"] in shown)
    keys += _partition_keys(kind for kind in _PARTITIONS if kind in shown)
    yield Figure(
        "bother",
        "Is it worth it? What a participant gains on its own nodes",
        panels,
        keys,
        "Points of test accuracy on each client's own subgraph, paired by seed, with "
        f"{CONFIDENCE:.0%} Student-t intervals: FedAvg above Local, and ways of mending lost links "
        "above FedAvg; at 0 nothing is gained. From left to right along a line the number of "
        f"clients grows. {ZOOM}",
    )


def with_all_features(source: Source) -> Source:
    """The part of a sweep whose settings differ in what is lost only."""
    cells = [cell for cell in source.cells if _WEAK not in cell]
    return replace(source, cells=cells, rows=[row for row in source.rows if _WEAK not in row[0]])


def weaker_features_figure(source: Source) -> Iterator[Figure]:
    """Accuracy over the share of feature columns kept, for the numbers of clients that vary it."""
    counts = {_clients(settings) for settings, _ in source.rows if _WEAK in settings}
    rows = [row for row in source.rows if _clients(row[0]) in counts]
    if rows:
        label = "share of feature columns kept (logarithmic)"
        own = replace(source, rows=rows)
        for one in lines_figure(own, _WEAK, label, metrics=METRICS, default=1.0, log=True):
            clients = " or ".join(map(str, sorted(counts)))
            yield replace(one, caption=f"With {clients} clients. {one.caption}")


def gain_tables(source: Source) -> Iterator[Table]:
    """What averaging brings over training alone, and what each way of mending brings on top.

    A table a metric, a line a setting.
    """
    names = compared_settings(source.rows)
    gains = {
        (one.setting, one.method, reference): one
        for reference in ("local", "fedavg")
        for one in paired(source.rows, reference)
    }
    declared = {cell["method"] for cell in source.cells}
    for metric, every_step in _STEPS.items():
        steps = [step for step in every_step if declared.issuperset(step)]
        if not steps:
            continue
        first, lines = steps[0][1], []
        for setting, records in records_by_setting(source.rows, names).items():
            known = [source.lost_share(record) for record in records]
            lost = [share for share in known if share is not None]
            base = [score_of(record, metric) for record in records if record["method"] == first]
            of_steps = [gains.get((setting, *step)) for step in steps]
            line = (
                f"{statistics.fmean(lost):.0%}" if lost else "–",
                accuracy(statistics.fmean(base)) if base else NOT_RUN,
                *(str(one.differences[metric]) if one else NOT_RUN for one in of_steps),
                _once_if_equal([one.pairs if one else 0 for one in of_steps]),
            )
            lines.append((*setting, *line))
        columns = [f"{marked(method)} over {reference}" for method, reference in steps]
        yield Table(
            (*headings(names), "edges lost", first, *columns, "pairs"),
            lines,
            (*footnotes(method for method, _ in steps), _GAINS),
            f"What each step brings, {METRIC_NAMES[metric]}",
        )


def _clients(settings: Mapping[str, Any]) -> Any:
    return settings.get("partition.clients")


def _gain_series(source: Source, rows: Rows, method: str, reference: str) -> Iterator[Series]:
    """A line for each kind of partition."""
    records = records_by_setting(rows, compared_settings(rows))
    lines: dict[str, list[Point]] = {}
    for one in paired(rows, reference):
        if one.method == method:
            record, gain = records[one.setting][0], one.differences["silo"]
            share = _mean_share(source, records[one.setting])
            ends = gain.ends or (None, None)
            low, high = (None if end is None else 100 * end for end in ends)
            tip = (
                f"{marked(method)} over {reference}, {record['partition']}, "
                f"M = {record['clients']}, {share:.1%} of edges lost: {gain}"
            )
            point = Point(share, 100 * gain.mean, tip, low, high)
            lines.setdefault(record["partition"], []).append(point)
    for kind, points in lines.items():
        points.sort(key=lambda point: point.x)
        yield Series((method, kind), points, _look(kind, style_of(method)))


def _series(source: Source, rows: Rows, metric: str) -> Iterator[Series]:
    lines: dict[tuple[str, str], dict[int, list[Record]]] = {}
    for _, record in rows:
        line = lines.setdefault((record["method"], record["partition"]), {})
        line.setdefault(record["clients"], []).append(record)
    methods = in_order(method for method, _ in lines)
    for method, kind in sorted(lines, key=lambda line: methods.index(line[0])):
        points = []
        for clients, records in sorted(lines[method, kind].items()):
            share = _mean_share(source, records)
            name = f"{marked(method)}, {kind}, M = {clients}, {share:.1%} of edges lost"
            points.append(score_point(share, records, metric, name))
        points.sort(key=lambda point: point.x)
        yield Series((method, kind), points, _look(kind, style_of(method)))


def _partition_keys(kinds: Iterable[str]) -> list[Key]:
    return [Key(kind, f"{kind} partition", _look(kind, Style()), "partitions") for kind in kinds]


def _once_if_equal(counts: Sequence[int]) -> str:
    """Numbers of pairs, column by column where they differ."""
    return str(counts[0]) if len(set(counts)) == 1 else " / ".join(map(str, counts))


def _mean_share(source: Source, records: Sequence[Record]) -> float:
    return statistics.fmean(source.lost_share(record) or 0.0 for record in records)


def _look(kind: str, style: Style) -> Style:
    """A method's style for a kind of partition."""
    more = _PARTITIONS.get(kind, Style(dash="7 3"))
    return replace(style, dash=more.dash, hollow=more.hollow)
