"""The report page in a real browser: it draws, it fits a phone, it answers, it loads nothing."""

import json
import shutil
import struct

import pytest

from browser import PROGRAM, browser
from feddep.reports.charts import Figure, padded, round_ticks
from feddep_study.report import read_sections
from missing import BROWSER

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=BROWSER)
WIDTHS = {"desktop": 1280, "phone": 390}
FIGURE = "document.querySelector('#table1 .figure')"


@pytest.fixture(scope="module")
def tab():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def file(out, tmp_path_factory):
    """The page alone, in a folder where nothing else could be loaded from."""
    return shutil.copy(out / "index.html", tmp_path_factory.mktemp("alone") / "index.html")


@pytest.fixture(params=WIDTHS.values(), ids=WIDTHS.keys())
def width(request, tab, file):
    tab.open(file, request.param)
    return request.param


def test_every_plot_is_drawn(tab, width, study):
    blocks = [block for section in read_sections(study) for block in section.blocks]
    figures = [block for block in blocks if isinstance(block, Figure)]
    drawn = tab.evaluate(
        "[...document.querySelectorAll('svg.panel')].map((svg) => {"
        " const box = svg.getBoundingClientRect();"
        " const line = svg.querySelector('.series')?.getBBox();"
        " return [box.width, box.height, box.right, line ? line.width + line.height : 0]; })"
    )
    assert len(drawn) == sum(len(figure.panels) for figure in figures) > 20
    for wide, high, right, line in drawn:
        assert wide > 300
        assert high > 80
        assert right <= width
        assert line > 0


def test_nothing_is_wider_than_the_screen(tab, width):
    assert tab.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [width, width]
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") == width


def test_texts_of_a_plot_do_not_shrink_on_a_phone(tab, width):
    size = "document.querySelector('svg.panel text').getBoundingClientRect().height"
    assert tab.evaluate(size) > 10


def test_a_wide_table_scrolls_in_its_box(tab, width):
    box = "document.querySelector('#table1 .scroll')"
    inner, outer = tab.evaluate(f"[{box}.scrollWidth, {box}.clientWidth]")
    assert outer < width
    assert inner > outer or width > 1000


def test_the_page_loads_nothing_but_itself_and_its_script_runs(tab, width, file):
    assert tab.requests() == [file.as_uri()]
    assert tab.complaints() == []


def test_a_screenshot_shows_something(tab, width, tmp_path):
    tab.evaluate(f"{FIGURE}.scrollIntoView()")
    tab.screenshot(tmp_path / "page.png")
    content = (tmp_path / "page.png").read_bytes()
    assert struct.unpack(">I", content[16:20]) == (width,)
    assert len(content) > 15_000  # an empty page of this size has about 5 kB


def test_the_legend_hides_a_method_and_the_scale_follows(tab, width):
    hidden = f"[...{FIGURE}.querySelectorAll('.series.hidden')].map((one) => one.dataset.keys)"
    ticks = f"[...{FIGURE}.querySelectorAll('svg.panel')[0].querySelectorAll('.ticks text')]"
    ticks += ".map((one) => one.textContent)"
    button = f"{FIGURE}.querySelector('[data-key=\"local\"]')"
    at_first = [json.loads(keys)[0] for keys in tab.evaluate(hidden)]
    assert set(at_first) == {"local"}
    narrow = tab.evaluate(ticks)
    tab.evaluate(f"{button}.click()")
    assert tab.evaluate(hidden) == []
    assert tab.evaluate(f"{button}.getAttribute('aria-pressed')") == "true"
    wide = tab.evaluate(ticks)
    assert float(wide[0]) < float(narrow[0])
    tab.evaluate(f"{button}.click()")
    assert tab.evaluate(ticks) == narrow


def test_pointing_at_a_mark_tells_its_number_also_after_the_scale_has_moved(tab, width):
    mark = f"[...{FIGURE}.querySelectorAll('.series:not(.hidden) .mark')][0]"
    told = f"JSON.parse({mark}.parentNode.dataset.points)[0][2]"
    tab.evaluate(f"{mark}.scrollIntoView({{block: 'center'}})")
    x, y = tab.evaluate(
        f"(() => {{ const box = {mark}.getBoundingClientRect();"
        " return [box.left + box.width / 2, box.top + box.height / 2]; })()"
    )
    tab.move_mouse(x, y)
    assert tab.evaluate("document.getElementById('tip').hidden") is False
    assert tab.evaluate("document.getElementById('tip').textContent") == tab.evaluate(told)
    left, right = tab.evaluate(
        "(() => { const box = document.getElementById('tip').getBoundingClientRect();"
        " return [box.left, box.right]; })()"
    )
    assert 0 <= left < right <= width
    tab.move_mouse(1, 1)
    assert tab.evaluate("document.getElementById('tip').hidden") is True


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1.1, 2.2), (0.934, 0.944), (3.0, 3.0)])
def test_the_script_chooses_ranges_and_ticks_as_the_drawing_does(tab, file, ends):
    tab.open(file, 1280)
    low, high = padded(ends)
    assert tab.evaluate(f"padded({list(ends)})") == pytest.approx([low, high])
    theirs = tab.evaluate(f"roundTicks({low!r}, {high!r})")
    ours = round_ticks(low, high)
    assert [text for _, text in theirs] == [text for _, text in ours]
    assert [place for place, _ in theirs] == pytest.approx([place for place, _ in ours])
