"""Utility against privacy: accuracy over the ε that a mechanism keeps to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from feddep.reports.charts import Axis, Figure, Key, Panel, Point, Series
from feddep.reports.formatting import marked
from feddep.reports.palette import Style, style_of_mechanism
from feddep.reports.summary import Rows, score_of
from feddep.runs.files import Record
from feddep_study.figures.accuracy import (
    ACCURACY,
    METRIC_NAMES,
    ZOOM,
    level_line,
    lines_panel,
    method_keys,
    panels_of,
    score_mark,
    score_point,
    told,
)
from feddep_study.source import Source, shared_settings, title_of
from feddep_study.statistics.paired import METRICS

_SHOWN_BY_AXES = ("privacy.mechanism", "privacy.epsilon")


def privacy_figure(source: Source) -> Iterator[Figure]:
    """Accuracy against the sound ε of one edge; mechanisms without a bound are level lines.

    Noise and other settings of single mechanisms make lines of their own, not panels.
    """
    names = [name for name in shared_settings(source.rows) if not _is_private(name)]
    panels, methods, mechanisms = list[Panel](), set[str](), set[str]()
    for settings, group in panels_of(source.rows, names):
        runs = _by_privacy(group)
        title = title_of(settings, names) or group[0][1]["dataset"]
        methods |= {run.method for run in runs}
        mechanisms |= {run.mechanism for run in runs}
        bounded = sorted({run.epsilon for run in runs if run.epsilon is not None})
        if bounded:
            panels += [_privacy_panel(title, runs, bounded, metric) for metric in METRICS]
        else:
            panels.append(_unbounded_panel(title, runs))
    keys = method_keys(methods)
    keys += [
        Key(name, name, style_of_mechanism(name, ""), "mechanisms") for name in sorted(mechanisms)
    ]
    yield Figure(
        "privacy",
        "Accuracy against privacy",
        panels,
        keys,
        "ε is what is promised about one undirected edge, for everything that leaves a client "
        "(the sound column). Level lines, and panels without ε, show mechanisms that promise "
        "nothing. Hollow marks are runs with a further setting of the mechanism, which their "
        f"labels name. {ZOOM}",
    )


def further_privacy(settings: Mapping[str, Any]) -> str:
    """What a mechanism was told besides its name and ε, in words."""
    more = {
        name.rpartition(".")[2].replace("_", " "): value
        for name, value in settings.items()
        if _is_private(name) and name not in _SHOWN_BY_AXES
    }
    return ", ".join(f"{name} {value}" for name, value in more.items())


@dataclass(frozen=True)
class _Private:
    """What runs of a privacy sweep have in common.

    Attributes:
        method: which.
        mechanism: which.
        more: its further settings, in words.
        epsilon: the sound one; None where nothing is promised.
    """

    method: str
    mechanism: str
    more: str
    epsilon: float | None

    def __str__(self) -> str:
        return f"{marked(self.method)}, {self.mechanism}{self.further}"

    @property
    def further(self) -> str:
        return f", {self.more}" if self.more else ""

    @property
    def style(self) -> Style:
        own = style_of_mechanism(self.mechanism, self.method)
        return replace(own, hollow=True) if self.more else own


def _is_private(name: str) -> bool:
    """Whether a setting is one of privacy, so that methods which differ in it share a panel."""
    return name.startswith("privacy.") or name == "training.update_noise"


def _by_privacy(rows: Rows) -> dict[_Private, list[Record]]:
    """The runs that differ in nothing but their seed, within a panel."""
    found: dict[_Private, list[Record]] = {}
    for settings, record in rows:
        told = record["privacy"]
        words = further_privacy(settings)
        epsilon = (told.get("sound") or {}).get("epsilon")
        if epsilon is not None:  # noise that is sought for an ε comes near it, not quite the same
            epsilon = float(f"{epsilon:.3g}")
        run = _Private(record["method"], told["mechanism"], words, epsilon)
        found.setdefault(run, []).append(record)
    return found


def _privacy_panel(
    title: str, runs: Mapping[_Private, Sequence[Record]], bounded: Sequence[float], metric: str
) -> Panel:
    series = []
    lines: dict[_Private, list[Point]] = {}
    for run, records in runs.items():
        if run.epsilon is None:
            ends = [bounded[0], bounded[-1]]
            level = level_line(run.method, records, metric, ends)
            tip = f"{run}, no bound: {told([score_of(record, metric) for record in records])}"
            points = [replace(point, tip=tip) for point in level.points]
            series.append(Series((run.method, run.mechanism), points, run.style, marks=False))
        else:
            point = score_point(run.epsilon, records, metric, f"{run}, ε = {run.epsilon:g}")
            lines.setdefault(replace(run, epsilon=None), []).append(point)
    for line, found in lines.items():
        marks = sorted(found, key=lambda point: point.x)
        series.append(Series((line.method, line.mechanism), marks, line.style))
    where = f"{title}, {METRIC_NAMES[metric]}"
    return Panel(where, Axis("sound ε of one edge"), Axis(ACCURACY), series)


def _unbounded_panel(title: str, runs: Mapping[_Private, Sequence[Record]]) -> Panel:
    marks = [
        score_mark(run.method, run.mechanism, run.style, records, f"{run.further}, no bound")
        for run, records in runs.items()
    ]
    return lines_panel(f"{title}, no bound", marks, ACCURACY)
