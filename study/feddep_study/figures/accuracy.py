"""From the rows of a sweep to plots."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from feddep.reports.charts import ROW, Axis, Figure, Key, Panel, Point, Series
from feddep.reports.costs import Cost
from feddep.reports.formatting import marked
from feddep.reports.palette import Style, style_of
from feddep.reports.summary import Rows, by_setting, score_of, spread
from feddep.runs.files import Record
from feddep_study.paper_tables import in_order
from feddep_study.source import Source, shared_settings, title_of
from feddep_study.statistics.paired import (
    CONFIDENCE,
    METRICS,
    REFERENCE,
    Paired,
    compared_settings,
    paired,
)

ACCURACY = "test accuracy"
METRIC_NAMES = {"global": "on the whole graph", "silo": "on the own silo"}
PRINTED = "printed in the paper"
_PRINTED_STYLE = Style(marker="square", hollow=True)
_PRESETS = {"paper": Style(marker="circle"), "tuned": Style(marker="diamond")}
FAR = 0.10
"""So far below the others that these could not be told apart beside it."""

ZOOM = "Choose in the legend what is shown; the scale follows."


def paper_figure(source: Source) -> Iterator[Figure]:
    """Ours beside the paper's: a panel for each data set and number of clients, a line a method."""
    panels: dict[str, list[Series]] = {}
    names = [name for name in shared_settings(source.rows) if name != "preset"]
    ordered = [row for _, group in panels_of(source.rows, names) for row in group]
    for settings, records in _groups(ordered, [*names, "preset", "method"]):
        record = records[0]
        marks = panels.setdefault(_title(record, settings, names), [])
        own = f"ours, preset {record['preset']}"
        marks.append(score_mark(record["method"], own, _PRESETS[record["preset"]], records))
        printed = source.paper.printed(record["dataset"], record["method"], record["clients"])
        keys = (record["method"], PRINTED)
        if printed is not None and not any(mark.keys == keys for mark in marks):
            style = replace(_PRINTED_STYLE, colour=style_of(record["method"]).colour)
            tip = f"{marked(record['method'])}, {PRINTED}: {printed}"
            high = printed.mean + printed.deviation
            marks.append(_mark(keys, style, Point(printed.mean, 0.0, tip, printed.floor, high)))
    far = far_below(source.rows)
    yield Figure(
        "beside-paper",
        f"{ACCURACY.capitalize()} {METRIC_NAMES['global']}, ours and the paper's",
        [lines_panel(title, marks, ACCURACY) for title, marks in panels.items()],
        _legend(panels, _preset_keys(source.rows), far),
        "Intervals are one standard deviation over seeds to both sides. "
        f"{ZOOM}{_switched_off(far)}",
    )


def far_below(rows: Rows) -> list[str]:
    """Methods whose accuracy is far below that of most, on average over the data sets."""
    scores: dict[str, dict[str, list[float]]] = {}
    for _, record in rows:
        own = scores.setdefault(record["dataset"], {})
        own.setdefault(record["method"], []).append(score_of(record))
    gaps: dict[str, list[float]] = {}
    for own in scores.values():
        means = {method: statistics.fmean(found) for method, found in own.items()}
        for method, mean in means.items():
            gaps.setdefault(method, []).append(mean - statistics.median_high(means.values()))
    return in_order(method for method, own in gaps.items() if statistics.fmean(own) < -FAR)


def pairs_figure(source: Source, reference: str = REFERENCE) -> Iterator[Figure]:
    """Differences from a reference, paired by seed: a panel for each setting, a line a method."""
    names = compared_settings(source.rows)
    ordered = [row for _, group in panels_of(source.rows, names) for row in group]
    found = paired(ordered, reference)
    if not found:
        return
    panels: dict[str, list[Paired]] = {}
    for pair in found:
        title = title_of(dict(zip(names, pair.setting, strict=True)), names) or source.name
        panels.setdefault(title, []).append(pair)
    title = f"Difference from {reference}, paired by seed"
    yield difference_figure(f"pairs-{reference}", title, panels, reference)


def difference_figure(
    name: str, title: str, pairs: Mapping[str, Sequence[Paired]], reference: str
) -> Figure:
    """Differences with their intervals: a panel for each title, a line a method."""
    panels = {
        panel: [mark for pair in own for mark in _difference_marks(pair, reference)]
        for panel, own in pairs.items()
    }
    styles = {METRIC_NAMES[metric]: _metric_style(metric) for metric in METRICS}
    far = _far_from_reference(pair for own in pairs.values() for pair in own)
    label = f"points of accuracy above {reference}"
    return Figure(
        name,
        title,
        [lines_panel(panel, marks, label, guide=0.0) for panel, marks in panels.items()],
        _legend(panels, [Key(text, text, style, "metrics") for text, style in styles.items()], far),
        f"Mean difference with its {CONFIDENCE:.0%} Student-t confidence interval; an interval "
        f"that crosses 0 leaves the question open. {ZOOM}{_switched_off(far)}",
    )


def lines_figure(
    source: Source,
    key: str,
    label: str,
    *,
    metrics: Sequence[str] = ("global",),
    default: float | None = None,
    log: bool = False,
    printed: Callable[[Record, float], Any] = lambda record, x: None,
) -> Iterator[Figure]:
    """Accuracy over a setting: a panel for each other setting and metric, a line a method.

    Args:
        source: the sweep.
        key: the setting across; a method whose runs do not set it is a level line.
        label: of the axis.
        metrics: scores to show.
        default: what runs have that do not set it; without one they are level lines.
        log: show the setting on a logarithmic axis.
        printed: what the paper has for FedDEP, by record and setting.
    """
    rows = source.rows
    values = sorted({settings.get(key, default) for settings, _ in rows} - {None})
    if not values:
        return
    place: Callable[[float], float] = math.log10 if log else float
    axis = Axis(label, [(place(value), f"{value:g}") for value in values])
    names = shared_settings(rows, key)
    panels, methods = list[Panel](), set[str]()
    for settings, group in panels_of(rows, names):
        for metric in metrics:
            series = list(_series_over(group, key, default, metric, values, place))
            if metric == "global":
                series += _printed_over(group, key, printed, place)
            methods |= {one.keys[0] for one in series}
            where = f", {METRIC_NAMES[metric]}" if len(metrics) > 1 else ""
            title = f"{title_of(settings, names) or group[0][1]['dataset']}{where}"
            panels.append(Panel(title, axis, Axis(ACCURACY), series))
    keys = method_keys(methods)
    if any(PRINTED in one.keys for panel in panels for one in panel.series):
        keys.append(Key(PRINTED, PRINTED, _PRINTED_STYLE, "source"))
    yield Figure(
        key.rpartition(".")[2],
        f"{ACCURACY.capitalize()} over {label.partition(' (')[0]}",
        panels,
        keys,
        "Mean over seeds, intervals of one standard deviation to both sides. "
        f"A level line is a method that has no such setting. {ZOOM}",
    )


def costs_figure(costs: Sequence[Cost], title: str) -> Figure:
    """Bytes and seconds in all, a line a method."""
    sent, waited = list[Series](), list[Series]()
    for cost in costs:
        name, style = marked(cost.method), replace(style_of(cost.method), marker="circle")
        megabytes = (cost.up_bytes + cost.down_bytes) / 1e6
        keys = (cost.method,)
        sent.append(_mark(keys, style, Point(megabytes, 0.0, f"{name}: {megabytes:.2f} MB")))
        waited.append(_mark(keys, style, Point(cost.seconds, 0.0, f"{name}: {cost.seconds:.2f} s")))
    return Figure(
        "costs",
        f"Costs: {title}",
        [
            lines_panel("sent in all", sent, "MB, all clients, both ways", floor=0.0),
            lines_panel("time in all", waited, "seconds", floor=0.0),
        ],
        method_keys(cost.method for cost in costs),
        ZOOM,
    )


# Pieces


def _far_from_reference(pairs: Iterable[Paired]) -> list[str]:
    """Methods that are far below it by either metric, on average over the settings."""
    found: dict[str, list[Paired]] = {}
    for pair in pairs:
        found.setdefault(pair.method, []).append(pair)
    means = {
        method: [statistics.fmean(pair.differences[m].mean for pair in own) for m in METRICS]
        for method, own in found.items()
    }
    return in_order(method for method, own in means.items() if max(own) < -FAR)


def _switched_off(methods: Sequence[str]) -> str:
    said = told_far_below(methods, "switched off at first")
    return f" {said}" if said else ""


def told_far_below(methods: Sequence[str], what: str) -> str:
    """What is said of methods that lie far below and are therefore not shown; or nothing."""
    if not methods:
        return ""
    *others, last = map(marked, methods)
    names = f"{', '.join(others)} and {last}" if others else last
    verbs = ("lie", "are") if others else ("lies", "is")
    return f"{names} {verbs[0]} far below and {verbs[1]} {what}."


def _groups(rows: Rows, names: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], list[Record]]]:
    """The runs that differ in nothing but their seed among these settings."""
    for group in by_setting(rows, names).values():
        yield group[0][0], [record for _, record in group]


def panels_of(rows: Rows, names: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], Rows]]:
    """The runs of each panel with its settings, in the order in which panels stand."""
    groups = by_setting(rows, names).values()
    for group in sorted(groups, key=lambda group: _place(group[0][0], names, rows)):
        yield group[0][0], group


def _place(settings: Mapping[str, Any], names: Sequence[str], rows: Rows) -> list[float]:
    """Where a panel stands: numbers by size, words in the order in which they come."""
    return [_rank(settings.get(name), [own.get(name) for own, _ in rows]) for name in names]


def _rank(value: Any, among: Sequence[Any]) -> float:
    return float(value) if isinstance(value, int | float) else float(among.index(value))


def _title(record: Record, settings: Mapping[str, Any], names: Sequence[str]) -> str:
    return title_of(settings, names) or f"{record['dataset']}, M = {record['clients']}"


def score_mark(
    method: str, group: str, style: Style, records: Sequence[Record], more: str = ""
) -> Series:
    """The mean score of a method's runs, which belong to a group of the legend, as a mark."""
    up = score_point(0.0, records, "global", f"{marked(method)}, {group}{more}")
    across = Point(up.y, 0.0, up.tip, up.low, up.high)
    return _mark((method, group), replace(style, colour=style_of(method).colour), across)


def _mark(keys: tuple[str, ...], style: Style, point: Point) -> Series:
    """Something to show in a line of its own or beside others; its place comes later."""
    return Series(keys, [point], style, line=False)


def _preset_keys(rows: Rows) -> list[Key]:
    presets = dict.fromkeys(record["preset"] for _, record in rows)
    keys = [
        Key(f"ours, preset {preset}", f"ours, preset {preset}", _PRESETS[preset], "source")
        for preset in presets
    ]
    return [*keys, Key(PRINTED, PRINTED, _PRINTED_STYLE, "source")]


def _difference_marks(pair: Paired, reference: str) -> Iterator[Series]:
    for metric in METRICS:
        difference = pair.differences[metric]
        mean, margin = 100 * difference.mean, difference.margin
        style = replace(_metric_style(metric), colour=style_of(pair.method).colour)
        what = f"{marked(pair.method)} − {reference}, {METRIC_NAMES[metric]}"
        low, high = (None, None) if margin is None else (mean - 100 * margin, mean + 100 * margin)
        point = Point(mean, 0.0, f"{what}: {difference} ({pair.pairs} pairs)", low, high)
        yield _mark((pair.method, METRIC_NAMES[metric]), style, point)


def _metric_style(metric: str) -> Style:
    return Style(marker="circle") if metric == "global" else Style(marker="square", hollow=True)


def lines_panel(
    title: str,
    marks: Sequence[Series],
    label: str,
    *,
    guide: float | None = None,
    floor: float | None = None,
) -> Panel:
    """Values across, a line for each method; what shares a line stands a little apart."""
    lines = in_order(mark.keys[0] for mark in marks)
    shared = [[mark for mark in marks if mark.keys[0] == method] for method in lines]
    deepest = max(map(len, shared))
    step = 0.0 if deepest < 2 else min(0.38, 0.56 / (deepest - 1))  # nearer than the next line
    series = []
    for number, own in enumerate(shared):
        for place, mark in enumerate(own):
            y = -number - (place - (len(own) - 1) / 2) * step
            series.append(replace(mark, points=[replace(mark.points[0], y=y)]))
    ticks = [(float(-number), marked(method)) for number, method in enumerate(lines)]
    height = 68 + ROW * (len(lines) + 0.3) * max(1.0, 0.55 + 0.35 * deepest)
    across, down = Axis(label, floor=floor), Axis("", ticks, room=0.65)
    return Panel(title, across, down, series, "x", guide, round(height, 1))


def _series_over(
    rows: Rows,
    key: str,
    default: float | None,
    metric: str,
    values: Sequence[float],
    place: Callable[[float], float],
) -> Iterator[Series]:
    by_method: dict[str, dict[float | None, list[Record]]] = {}
    for settings, record in rows:
        own = by_method.setdefault(record["method"], {})
        own.setdefault(settings.get(key, default), []).append(record)
    for method in in_order(by_method):
        found = by_method[method]
        level = found.pop(None, None)
        if level:
            yield level_line(method, level, metric, [place(values[0]), place(values[-1])])
        marks = [
            score_point(place(x), found[x], metric, f"{marked(method)} at {x:g}")
            for x in sorted(x for x in found if x is not None)
        ]
        if marks:
            yield Series((method,), marks, style_of(method))


def level_line(
    method: str, records: Sequence[Record], metric: str, ends: Sequence[float]
) -> Series:
    """The mean score of runs that have no place on the axis, from its one end to the other."""
    scores = [score_of(record, metric) for record in records]
    mean, tip = statistics.fmean(scores), f"{marked(method)}: {told(scores)}"
    style = replace(style_of(method), dash=style_of(method).dash or "2 3")
    return Series((method,), [Point(x, mean, tip) for x in ends], style, marks=False)


def _printed_over(
    rows: Rows,
    key: str,
    printed: Callable[[Record, float], Any],
    place: Callable[[float], float],
) -> list[Series]:
    """The paper's line for FedDEP, if it has one."""
    marks = []
    found = {settings[key]: record for settings, record in rows if key in settings}
    for x in sorted(found):
        entry = printed(found[x], x)
        if entry is not None:
            tip = f"feddep at {x:g}, {PRINTED}: {entry}"
            high = entry.mean + entry.deviation
            marks.append(Point(place(x), entry.mean, tip, entry.floor, high))
    style = replace(_PRINTED_STYLE, colour=style_of("feddep").colour, dash="2 3")
    return [Series(("feddep", PRINTED), marks, style)] if marks else []


def score_point(x: float, records: Sequence[Record], metric: str, name: str) -> Point:
    """The mean score of some runs with an interval of one standard deviation to both sides."""
    scores = [score_of(record, metric) for record in records]
    low, high = interval(scores)
    return Point(x, statistics.fmean(scores), f"{name}: {told(scores)}", low, high)


def interval(scores: Sequence[float]) -> tuple[float | None, float | None]:
    """One standard deviation to both sides of the mean; nothing for a single score."""
    if len(scores) < 2:
        return None, None
    mean, deviation = statistics.fmean(scores), statistics.stdev(scores)
    return mean - deviation, mean + deviation


def told(scores: Sequence[float]) -> str:
    """Scores in words: mean, spread and how many."""
    return f"{spread(scores)} ({len(scores)} seed{'s' if len(scores) > 1 else ''})"


def method_keys(methods: Iterable[str]) -> list[Key]:
    """Entries of the legend for methods."""
    return [Key(name, marked(name), style_of(name)) for name in in_order(methods)]


def _legend(
    panels: Mapping[str, Sequence[Series]], groups: Sequence[Key], off: Sequence[str]
) -> list[Key]:
    """The groups that occur, then the methods, some of them switched off."""
    marks = [mark for own in panels.values() for mark in own]
    shown = {key for mark in marks for key in mark.keys}
    methods = [
        replace(key, style=replace(key.style, marker="circle", dash=""), off=key.name in off)
        for key in method_keys(mark.keys[0] for mark in marks)
    ]
    return [*(key for key in groups if key.name in shown), *methods]
