"""Plots as data, and as SVG.

A plot is drawn once, here, and shows without any script, in a page or as a file of its own. The
page's script (``page.js``) adds interaction: it reads the points' positions and texts from
``data-`` attributes.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from feddep.reports.palette import INK, MARKERS, Style

WIDTH = 360.0
HEIGHT = 250.0
ROW = 19.0
_LETTER = 6.1  # width of a letter of a tick's label, about
_FONT = "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\""
_GRID, _GREY = "#e3e3e3", "#555555"


@dataclass(frozen=True)
class Point:
    """A place in data coordinates.

    Attributes:
        x: across.
        y: up.
        tip: the text shown when somebody points at it.
        low: lower end of an interval along the value axis, if there is one.
        high: its upper end.
    """

    x: float
    y: float
    tip: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """Points that are drawn alike.

    Attributes:
        keys: entries of the legend that it belongs to; it is hidden with any of them.
        points: in order.
        style: colour, marker, dashes.
        line: connect the points.
        marks: draw a marker at each point.
    """

    keys: tuple[str, ...]
    points: Sequence[Point]
    style: Style
    line: bool = True
    marks: bool = True


@dataclass(frozen=True)
class Axis:
    """One direction of a panel.

    Attributes:
        label: with the unit.
        ticks: positions and texts; without any, round numbers are chosen.
        room: left free beyond the outermost values; without it, a share of their range.
        floor: where the axis begins, if not a little below the smallest value.
    """

    label: str
    ticks: Sequence[tuple[float, str]] = ()
    room: float | None = None
    floor: float | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: what differs from the other panels.
        x: the axis across.
        y: the axis upwards.
        series: what is drawn.
        value: the axis of what was measured; intervals lie along it, and without ticks of its own
            it is fitted to what is shown.
        guide: a value to mark with a line, such as no difference.
        height: of the drawing.
    """

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    value: Literal["x", "y"] = "y"
    guide: float | None = None
    height: float = HEIGHT


@dataclass(frozen=True)
class Key:
    """One entry of a legend.

    Attributes:
        name: what series refer to.
        text: what is shown.
        style: of the sample beside it.
        group: what kind of thing it is; kinds are listed one after the other.
        off: switched off when the page opens; without a script it is shown.
    """

    name: str
    text: str
    style: Style
    group: str = "methods"
    off: bool = False


@dataclass(frozen=True)
class Figure:
    """Several panels with one legend.

    Attributes:
        name: a part of file names.
        title: what it shows.
        panels: side by side.
        legend: entries; a figure with at most one shows none.
        caption: how to read it.
    """

    name: str
    title: str
    panels: Sequence[Panel]
    legend: Sequence[Key] = ()
    caption: str = ""


@dataclass(frozen=True)
class Scale:
    """A linear map from data to the drawing.

    Attributes:
        low: data at the start.
        high: data at the end.
        start: in the drawing.
        end: in the drawing.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The position of a value in the drawing."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


@dataclass(frozen=True)
class _Frame:
    """A panel with its scales."""

    panel: Panel
    x: Scale
    y: Scale
    x_ticks: Sequence[tuple[float, str]] = field(default_factory=list)
    y_ticks: Sequence[tuple[float, str]] = field(default_factory=list)


def padded(values: Sequence[float]) -> tuple[float, float]:
    """A range with some room on both sides; ``page.js`` does the same."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or max(abs(high), 0.1) * 0.05
    return low - room, high + room


def round_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """About five round numbers within a range; ``page.js`` does the same."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.7)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    numbers = [number * step for number in range(first, last + 1)]
    return [(number, f"{number:z.{digits}f}".replace("-", "−")) for number in numbers]


def panel_svg(panel: Panel, *, attributes: str = "") -> str:
    """One panel as an SVG element; ``attributes`` are added to it, such as a place in another."""
    frame = _frame(panel)
    parts = [
        f'<svg class="panel" role="img" {attributes} '
        f'viewBox="0 0 {WIDTH:g} {panel.height:g}" aria-label="{escape(panel.title)}" '
        f'{_FONT} font-size="11" fill="{INK}"{_value_attributes(frame)}>',
        f'<text x="8" y="14" font-size="12" font-weight="600">{escape(panel.title)}</text>',
        *_axes(frame),
        *_guide(frame),
        *(part for series in panel.series for part in _series(series, frame)),
        "</svg>",
    ]
    return "".join(parts)


def figure_svg(figure: Figure, columns: int = 3) -> str:
    """All panels and the legend in one drawing, for a file of its own."""
    columns = min(columns, len(figure.panels))
    top, legend = _drawn_legend(figure, columns * WIDTH)
    rows = [figure.panels[i : i + columns] for i in range(0, len(figure.panels), columns)]
    parts, y = list[str](), top
    for row in rows:
        for column, panel in enumerate(row):
            size = f'width="{WIDTH:g}" height="{panel.height:g}"'
            parts.append(panel_svg(panel, attributes=f'x="{column * WIDTH:g}" y="{y:g}" {size}'))
        y += max(panel.height for panel in row)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns * WIDTH:g} {y:g}" '
        f'width="{columns * WIDTH:g}" height="{y:g}" {_FONT} font-size="12" fill="{INK}">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{legend}{"".join(parts)}</svg>\n'
    )


def sample(style: Style) -> str:
    """A short line with a marker, as it stands in a legend."""
    dashes = f' stroke-dasharray="{style.dash}"' if style.dash else ""
    return (
        f'<path d="M0 6h24" stroke="{style.colour}" stroke-width="1.6"{dashes}/>'
        f'<g transform="translate(12 6)">{_marker(style)}</g>'
    )


def _drawn_legend(figure: Figure, width: float) -> tuple[float, str]:
    """Height and SVG of a legend that breaks into lines."""
    if len(figure.legend) < 2:
        return 8.0, ""
    parts, x, y = list[str](), 10.0, 10.0
    for key in figure.legend:
        wide = 46 + 6.8 * len(key.text)
        if x + wide > width:
            x, y = 10.0, y + 20
        text = f'<text x="30" y="10">{escape(key.text)}</text>'
        parts.append(f'<g transform="translate({x:g} {y:g})">{sample(key.style)}{text}</g>')
        x += wide
    return y + 28, "".join(parts)


def _frame(panel: Panel) -> _Frame:
    points = [point for series in panel.series for point in series.points]
    left = 8 + _LETTER * max((len(text) for _, text in panel.y.ticks), default=0) + 6
    left = max(left, 60.0)
    x_low, x_high = _range(panel, "x", points)
    y_low, y_high = _range(panel, "y", points)
    return _Frame(
        panel,
        Scale(x_low, x_high, round(left, 1), WIDTH - 14),
        Scale(y_low, y_high, panel.height - 42, 26.0),
        panel.x.ticks or round_ticks(x_low, x_high),
        panel.y.ticks or round_ticks(y_low, y_high),
    )


def _range(panel: Panel, name: Literal["x", "y"], points: Sequence[Point]) -> tuple[float, float]:
    axis = panel.x if name == "x" else panel.y
    values = [getattr(point, name) for point in points] + [place for place, _ in axis.ticks]
    if name == panel.value:
        ends = (end for point in points for end in (point.low, point.high))
        values += [end for end in ends if end is not None]
        values += [] if panel.guide is None else [panel.guide]
    values = values or [0.0, 1.0]
    low, high = padded(values)
    if axis.room is not None:
        low, high = min(values) - axis.room, max(values) + axis.room
    return (low if axis.floor is None else axis.floor), high


def _value_attributes(frame: _Frame) -> str:
    """What the script needs to fit the value axis to what is shown."""
    panel = frame.panel
    axis, scale = (panel.x, frame.x) if panel.value == "x" else (panel.y, frame.y)
    if axis.ticks:
        return ""
    across = frame.y if panel.value == "x" else frame.x
    numbers = [scale.low, scale.high, scale.start, scale.end, across.start, across.end]
    guide = "" if panel.guide is None else f' data-guide="{panel.guide:g}"'
    shown = json.dumps([float(f"{number:.8g}") for number in numbers])
    floor = "" if axis.floor is None else f' data-floor="{axis.floor:g}"'
    return f' data-value="{panel.value}" data-scale="{shown}"{guide}{floor}'


def _axes(frame: _Frame) -> Iterator[str]:
    x, y, panel = frame.x, frame.y, frame.panel
    for name, ticks in (("x", frame.x_ticks), ("y", frame.y_ticks)):
        is_value = name == panel.value
        yield f'<g class="{"ticks" if is_value else "fixed"}">'
        for place, text in ticks:
            yield _tick(frame, name, place, text, grid=is_value)
        yield "</g>"
    yield (
        f'<path d="M{x.start:g} {y.end:g}V{y.start:g}H{x.end:g}" fill="none" stroke="{_GREY}"/>'
        f'<text x="{(x.start + x.end) / 2:g}" y="{panel.height - 8:g}" text-anchor="middle">'
        f"{escape(panel.x.label)}</text>"
    )
    if panel.y.label:
        middle = (y.start + y.end) / 2
        yield (
            f'<text transform="translate(12 {middle:g}) rotate(-90)" text-anchor="middle">'
            f"{escape(panel.y.label)}</text>"
        )


def _tick(frame: _Frame, name: str, place: float, text: str, *, grid: bool) -> str:
    x, y = frame.x, frame.y
    if name == "x":
        at = f"{x(place):.1f}"
        line = f'<path d="M{at} {y.start:g}V{y.end:g}" stroke="{_GRID}"/>' if grid else ""
        shown = f'<text x="{at}" y="{y.start + 15:g}" text-anchor="middle">{escape(text)}</text>'
    else:
        at = f"{y(place):.1f}"
        line = f'<path d="M{x.start:g} {at}H{x.end:g}" stroke="{_GRID}"/>' if grid else ""
        place_of = f'x="{x.start - 6:g}" y="{at}" dy="0.35em" text-anchor="end"'
        shown = f"<text {place_of}>{escape(text)}</text>"
    return line + shown


def _guide(frame: _Frame) -> Iterator[str]:
    if frame.panel.guide is None:
        return
    if frame.panel.value == "x":
        path = f"M{frame.x(frame.panel.guide):.1f} {frame.y.start:g}V{frame.y.end:g}"
    else:
        path = f"M{frame.x.start:g} {frame.y(frame.panel.guide):.1f}H{frame.x.end:g}"
    yield f'<path class="stretch" d="{path}" stroke="{INK}" stroke-width="1.2"/>'


def _series(series: Series, frame: _Frame) -> Iterator[str]:
    """Line, intervals and markers, and for the script what is where."""
    style, keys = series.style, escape(json.dumps(series.keys, ensure_ascii=False))
    places = [(frame.x(point.x), frame.y(point.y)) for point in series.points]
    known = [
        [round(x, 1), round(y, 1), point.tip, *_ends(point, frame)]
        for (x, y), point in zip(places, series.points, strict=True)
    ]
    data = escape(json.dumps(known, ensure_ascii=False, separators=(",", ":")))
    yield f'<g class="series" data-keys="{keys}" data-points="{data}">'
    stroke = f'class="stretch" fill="none" stroke="{style.colour}"'
    if series.line and len(places) > 1:
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        dashes = f' stroke-dasharray="{style.dash}"' if style.dash else ""
        yield f'<path {stroke} stroke-width="1.8" stroke-linejoin="round"{dashes} d="{path}"/>'
    for (x, y), point in zip(places, series.points, strict=True):
        ends = _ends(point, frame)
        if ends:
            low, high = ends
            path = (
                f"M{low} {y:.1f}H{high}" if frame.panel.value == "x" else f"M{x:.1f} {low}V{high}"
            )
            yield f'<path {stroke} stroke-width="1.4" stroke-opacity="0.75" d="{path}"/>'
    if series.marks:
        for x, y in places:
            yield f'<g class="mark" transform="translate({x:.1f} {y:.1f})">{_marker(style)}</g>'
    yield "</g>"


def _ends(point: Point, frame: _Frame) -> list[float]:
    if point.low is None or point.high is None:
        return []
    scale = frame.x if frame.panel.value == "x" else frame.y
    return [round(scale(point.low), 1), round(scale(point.high), 1)]


def _marker(style: Style) -> str:
    fill = "#ffffff" if style.hollow else style.colour
    return (
        f'<path d="{MARKERS[style.marker]}" fill="{fill}" stroke="{style.colour}" '
        'stroke-width="1.2"/>'
    )
