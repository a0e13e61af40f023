"""Plots: ticks, panels, figures, and what each method looks like."""

import json
import re
from html import unescape

import pytest

from feddep.algorithms import METHODS
from feddep.reports.charts import (
    Axis,
    Figure,
    Panel,
    Point,
    Series,
    figure_svg,
    padded,
    panel_svg,
    round_ticks,
)
from feddep.reports.palette import MARKERS, Style, style_of


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-1.1, 2.2, ["−1.0", "−0.5", "0.0", "0.5", "1.0", "1.5", "2.0"]),
        (0.934, 0.944, ["0.934", "0.936", "0.938", "0.940", "0.942", "0.944"]),
        (0, 105, ["0", "20", "40", "60", "80", "100"]),
    ],
)
def test_ticks_are_round_numbers(low, high, texts):
    assert [text for _, text in round_ticks(low, high)] == texts


def test_a_range_has_room_even_around_one_value():
    assert padded([0.0, 1.0]) == (-0.06, 1.06)
    low, high = padded([0.5, 0.5])
    assert low < 0.5 < high
    low, high = padded([0.0])
    assert low < 0 < high


def test_a_panel_draws_lines_intervals_and_markers_at_their_places():
    points = [Point(0, 0.0, "a"), Point(1, 1.0, "b <", 0.9, 1.1)]
    series = Series(("k",), points, Style("#123456"))
    panel = Panel("t", Axis("x", [(0, "0"), (1, "1")]), Axis("y"), [series])
    drawn = panel_svg(panel)
    assert drawn.count('class="mark"') == 2
    assert drawn.count('class="stretch"') == 2  # the line and one interval
    assert "b &lt;" in drawn
    (x0, y0, *_), (x1, y1, *_) = json.loads(
        unescape(re.search(r'data-points="([^"]*)"', drawn).group(1))
    )
    assert x0 < x1
    assert y0 > y1  # up is up
    assert f"translate({x0} {y0})" in drawn


def test_a_figure_stands_alone_with_its_legend():
    panel = Panel("t", Axis("x"), Axis("y"), [Series(("k",), [Point(0, 0, "")], Style())])
    drawn = figure_svg(Figure("f", "F", [panel] * 4))
    assert drawn.count("<svg") == 5
    assert 'viewBox="0 0 1080 508"' in drawn  # three across, two down


def test_a_panel_without_points_is_empty_axes():
    assert "<svg" in panel_svg(Panel("t", Axis("x"), Axis("y"), []))


def test_every_method_has_a_look_of_its_own():
    styles = [style_of(method) for method in METHODS]
    assert len({style.colour for style in styles}) == len(METHODS)
    assert all(style.marker in MARKERS for style in styles)
    assert style_of("somebody:METHOD") not in styles


@pytest.mark.parametrize("method", METHODS)
def test_colours_stand_out_from_white(method):
    def linear(channel):
        value = channel / 255
        return value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4

    colour = style_of(method).colour
    red, green, blue = (linear(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) >= 3
