"""The report: every table in every form, nothing loaded, and the records' numbers."""

import json
import re
import shutil
import statistics
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest
from feddep_study.against_paper import Printed
from feddep_study.latex import latex_table
from feddep_study.paper_tables import verdict
from feddep_study.readme import main_table, shown
from feddep_study.report import read_sections, write_report
from feddep_study.reproduce import PARTS
from feddep_study.sections import PLANS
from feddep_study.source import Library
from pretend import SWEEPS, fill, row_of

from feddep.algorithms import METHODS
from feddep.errors import DataError, InputError
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
from feddep.reports.page import LONG, inline, table_html
from feddep.reports.palette import MARKERS, Style, style_of
from feddep.reports.run_page import run_page, write_run_page
from feddep.reports.table import Table

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page(out):
    return (out / "index.html").read_text()


@pytest.fixture(scope="module")
def tables(experiments):
    blocks = [block for section in read_sections(experiments) for block in section.blocks]
    return [block for block in blocks if isinstance(block, Table)]


def section_of(experiments, name):
    return next(one for one in read_sections(experiments) if one.name == name)


def rows_of(experiments, name):
    lines = (experiments / f"results/{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


# What is on it


def test_the_page_has_every_table_and_every_cell_in_its_row(page, tables):
    assert len(tables) > 8
    found = re.findall(r"<tr>(.*?)</tr>", page)
    lines = [[unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t", row)] for row in found]
    for table in tables:
        assert escape(table.title) in page
        assert list(table.headings) in lines
        for row in table.rows:
            assert list(row) in lines


def test_the_markdown_has_every_table_and_its_figures_exist(out, tables):
    text = (out / "report.md").read_text()
    assert all(table.markdown().rstrip() in text for table in tables)
    figures = re.findall(r"!\[.+\]\((figures/.+\.svg)\)", text)
    assert len(figures) == len(set(figures)) == len(list((out / "figures").iterdir())) > 8
    assert all((out / figure).read_text().startswith("<svg xmlns=") for figure in figures)


def test_the_latex_has_every_table(out, tables):
    text = (out / "tables.tex").read_text()
    assert len(re.findall(r"\\begin{(?:tabular|longtable)}", text)) == len(tables)


def test_what_is_not_run_yet_is_shown_as_such(page):
    assert page.count("Not run yet (0 of 3 runs).") == 2  # in the contents and in its section
    assert 'id="quota"' in page
    assert "Not run yet (0 of 12 rows)." in page  # the data table


def test_a_cell_that_is_declared_and_not_run_is_named_in_its_table(tmp_path):
    shutil.copy(ROOT / "experiments/paper.toml", tmp_path)
    declaration = tmp_path / "table1.toml"
    declaration.write_text(
        '[grid]\ndataset = ["cora"]\nmethod = ["fedavg", "feddep"]\nseed = [0, 1]'
    )
    fill(declaration, share=0.75)
    section = section_of(tmp_path, "table1")
    assert section.state == "1 of 4 runs are not run yet."
    (table,) = [block for block in section.blocks if block.title.startswith("cora, ")]
    assert re.fullmatch(r"0\.\d{4} ± 0\.\d{3}", table.rows[0][1])
    assert re.fullmatch(r"0\.\d{4} \(1\)", table.rows[1][1])
    fill(declaration, share=0.5)
    section = section_of(tmp_path, "table1")
    (table, *_) = [block for block in section.blocks if isinstance(block, Table)]
    assert table.rows[1] == ("feddep", "not run yet", "0.8883 ± 0.011", "–")


def test_an_unknown_sweep_has_its_means(page, experiments):
    scores = [
        row["record"]["scores"]["global"]["test"]
        for row in rows_of(experiments, "mine")
        if row["settings"]["method"] == "fedavg" and row["settings"]["model.form"] == "closed"
    ]
    shown = f"{statistics.fmean(scores):.4f} ± {statistics.stdev(scores):.3f}"
    assert f"<td>{shown}</td>" in page.partition('id="mine"')[2]


def test_the_numbers_on_the_page_are_the_records(page, experiments):
    section = page.partition('id="table1"')[2].partition("</section>")[0]
    groups = {}
    for row in rows_of(experiments, "table1"):
        facts = (row["record"]["preset"], row["record"]["clients"], row["record"]["method"])
        groups.setdefault(facts, []).append(row["record"]["scores"]["global"]["test"])
    assert len(groups) == 16
    for (preset, _, method), scores in groups.items():
        shown = f"{statistics.fmean(scores):.4f} ± {statistics.stdev(scores):.3f}"
        assert f"<td>{shown}</td>" in section
        mark = {"fedgnn": "†", "fedgsl": "‡"}.get(method, "")
        assert f"{method}{mark}, ours, preset {preset}: {shown} (2 seeds)" in unescape(section)
    assert "<td>0.8883 ± 0.011</td>" in section  # the paper's FedDEP with 5 clients
    assert "sees cross-client edges" in section
    assert "a reconstruction" in section


def test_points_lie_where_their_numbers_say(experiments):
    section = section_of(experiments, "table1")
    figure = section.blocks[0]
    assert [panel.title for panel in figure.panels] == ["M = 3", "M = 5"]  # by size
    for panel in figure.panels:
        for series in panel.series:
            for point in series.points:
                assert f"{point.x:.4f}" in point.tip


def test_the_paper_s_clusters_stand_beside_ours(page):
    section = unescape(page.partition('id="table2"')[2].partition("</section>")[0])
    assert "feddep at 5, printed in the paper: 0.8569 ± 0.012" in section
    assert "<td>0.8569 ± 0.012</td>" in section


def test_level_lines_show_methods_without_the_setting(experiments):
    section = section_of(experiments, "hops")
    lines = {series.keys[0]: series for series in section.blocks[0].panels[0].series}
    assert [point.x for point in lines["feddep"].points] == [0, 1, 2]
    assert [point.x for point in lines["fedsage"].points] == [0, 2]
    assert len({point.y for point in lines["fedsage"].points}) == 1


def test_privacy_is_drawn_over_the_sound_epsilon(experiments):
    section = section_of(experiments, "privacy")
    figure, table = section.blocks
    cora, _, msacademic = figure.panels
    bounded = [one for one in cora.series if "randomised-response" in one.keys]
    assert [[point.x for point in one.points] for one in bounded] == [[2.0, 8.0]] * 2
    assert {one.keys for one in cora.series if "no bound" in one.points[0].tip} == {
        ("feddep", "nfdp"),
        ("feddep", "none"),
    }
    assert msacademic.title.endswith("no bound")
    assert ("cora", "5", "feddep", "randomised-response", "1.1", "12.5", "8", "0", "holds") in [
        row[:9] for row in table.rows
    ]


def test_curves_are_means_over_the_seeds(experiments):
    section = section_of(experiments, "curves")
    accuracy, loss, seconds, by_time = section.blocks[0].panels
    own = [row["history"] for row in rows_of(experiments, "curves")]
    local = [history["global_test"] for history in own[:2]]  # the first method's two seeds
    drawn = next(one for one in accuracy.series if one.keys == ("local",))
    assert [point.x for point in drawn.points] == [1, 2, 3, 4, 5]
    assert [point.y for point in drawn.points] == pytest.approx(
        [statistics.fmean(pair) for pair in zip(*local, strict=True)]
    )
    assert (loss.x.label, seconds.y.label, by_time.x.label) == ("round", *["seconds so far"] * 2)


def test_whole_features_are_the_end_of_the_line_of_weaker_ones(experiments):
    section = section_of(experiments, "pays")
    lost, features = section.blocks[:2]
    assert [text for _, text in features.panels[0].x.ticks] == ["0.1", "0.3", "1"]
    assert [panel.x.label for panel in lost.panels] == ["share of edges lost"] * 2


def test_the_claims_have_a_section_and_those_without_runs_say_so(experiments, page):
    section = section_of(experiments, "claims")
    assert section.unit == "claims"
    assert 0 < section.done < section.declared
    verdicts = [row[1] for table in section.blocks for row in table.rows]
    assert "not run yet" in verdicts
    assert 'id="claims"' in page


def test_the_page_begins_with_what_the_readme_shows(experiments):
    first = read_sections(experiments)[0]
    library = Library(experiments)
    assert first.name == "short"
    assert first.state == "All 32 runs of Table 1 are there."
    assert first.blocks[0].rows == main_table(library["table1"]).rows
    assert [figure.panels for figure in first.blocks[1:]] == [
        one.figure.panels for one in shown(library)
    ]
    assert "Of 47 claims: " in first.text


@pytest.mark.parametrize("title", ["Ranks, preset paper", "Pooled differences, preset paper"])
def test_table_1_has_ranks_and_pooled_differences(experiments, title):
    section = section_of(experiments, "table1")
    assert any(block.title.startswith(title) for block in section.blocks)


def test_every_part_of_the_paper_has_a_section():
    assert {sweep for part in PARTS.values() for sweep in part.sweeps} <= PLANS.keys()


def test_the_data_table_stands_beside_the_paper_s(experiments, tmp_path):
    shutil.copytree(experiments, tmp_path / "experiments")
    row = {"subgraph_nodes": 903, "subgraph_edges": 1600, "lost_edges": 500, "lost_share": 0.09}
    stored = [{"dataset": "cora", "clients": 3, "seed": 0} | row]
    (tmp_path / "experiments/results/data.json").write_text(json.dumps(stored))
    section = section_of(tmp_path / "experiments", "data")
    assert section.blocks[0].rows[0][:4] == ("cora", "3", "903 / 903", "1600 / 1594")
    (tmp_path / "experiments/results/data.json").write_text("[{")
    with pytest.raises(DataError, match="data table"):
        read_sections(tmp_path / "experiments")


# Offline


def test_nothing_is_loaded(page):
    assert set(re.findall(r'\bhref="(.)', page)) == {"#"}
    assert not re.search(r"https?:|\bsrc=|url\(|@import|\bfetch\(|XMLHttp|<link|\bimport\b", page)


def test_every_link_has_its_target(page):
    targets = re.findall(r'href="#([^"]+)"', page)
    assert len(targets) == len(SWEEPS) + 3  # beginning, data and claims are no sweeps
    assert all(f'id="{target}"' in page for target in targets)


def test_texts_are_no_markup():
    table = Table(("<a>", "b"), [("x & y", "<script>")], ["*not* <b>"], "t < u")
    shown = table_html(table)
    assert "<script>" not in shown
    assert "<em>not</em> &lt;b&gt;" in shown
    assert inline("`a*b` and *c d*") == "<code>a*b</code> and <em>c d</em>"


def test_columns_of_names_begin_at_the_left_and_missing_numbers_are_numbers():
    rows = [("3", "feddep", "0.5", "–"), ("5", "local", "not run yet", "–")]
    assert Table(("C", "method", "ours", "paper"), rows).columns_of_words() == [
        *(True, True),
        *(False, False),
    ]
    assert Table(("a", "b"), []).columns_of_words() == [True, True]


def test_long_tables_are_folded_up():
    def table(rows):
        return table_html(Table(("a", "b"), [("x", "1")] * rows, title="T"))

    assert "<details>" in table(LONG + 1)
    assert "<details>" not in table(LONG)


def test_a_folder_without_sweeps_is_refused(tmp_path):
    with pytest.raises(InputError, match="declares no sweeps"):
        write_report(tmp_path, tmp_path / "out")
    (tmp_path / "broken.toml").write_text("[")
    with pytest.raises(InputError, match="cannot read"):
        write_report(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# LaTeX


def test_latex_is_balanced(out):
    text = (out / "tables.tex").read_text()
    assert text.isascii()
    bare = text.replace(r"\{", "").replace(r"\}", "").replace(r"\\", "")
    depth = 0
    for sign in bare:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    assert len(re.findall(r"(?<!\\)\$", bare)) % 2 == 0
    opened = []
    for what, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if what == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened


LONG_TABLE = Table(("a", "n"), [("x " * 30, "1")] * 41, title="Several pages")


def test_a_long_table_breaks_its_pages_and_long_words_their_lines():
    found = latex_table(LONG_TABLE)
    assert r"\begin{longtable}{p{24em}r}" in found
    assert r"\begin{table}" not in found
    assert r"\resizebox" not in latex_table(Table(("a",), [("x",)] * 40))
    assert r"\resizebox" in latex_table(Table(("a",) * 30, [("1.23",) * 30]))


def test_every_latex_row_fills_its_columns(out):
    text = (out / "tables.tex").read_text() + latex_table(LONG_TABLE)
    found = re.findall(
        r"\{(tabular|longtable)\}\{((?:[lr]|p\{\d+em\})+)\}(.*?)\\end\{\1\}", text, re.DOTALL
    )
    assert found
    for _, columns, body in found:
        rows = [line for line in body.splitlines() if line.endswith(r" \\")]
        count = len(re.findall(r"[lr]|p\{", columns.replace("em", "")))
        filled = {len(re.findall(r"(?<!\\)&", row)) for row in rows if "caption" not in row}
        assert filled == {count - 1}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX here")
def test_latex_reads_all_tables_at_once(out, tmp_path):
    paper = (
        r"\documentclass{article}\usepackage{booktabs,graphicx,longtable}"
        r"\begin{document}\input{tables}\end{document}"
    )
    tables = (out / "tables.tex").read_text() + latex_table(LONG_TABLE)
    (tmp_path / "tables.tex").write_text(tables)
    (tmp_path / "paper.tex").write_text(paper)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:]


def test_signs_are_written_as_latex_reads_them():
    table = Table(("a_b", "n"), [("50% & *x*", "−1 ± 2†")], ["ε ñ"], "#1")
    found = latex_table(table)
    assert r"50\% \& x & $-$1 $\pm$ 2$\dagger$ \\" in found
    assert r"\caption{\#1}" in found
    assert r"\begin{tabular}{lr}" in found
    assert r"a\_b & n \\" in found
    assert r"$\varepsilon$ \~{n}" in found


# Words and looks


@pytest.mark.parametrize(
    ("ours", "word"),
    [
        (0.88, "within"),
        (0.89, "within"),
        (0.87, "within"),
        (0.8901, "above"),
        (0.8699, "below"),
        (0.89004, "within"),  # as four digits show it
    ],
)
def test_one_deviation_of_the_paper_decides(ours, word):
    assert verdict(ours, Printed(0.88, 0.01)) == word


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


def test_a_method_looks_the_same_in_every_plot(experiments):
    blocks = [block for section in read_sections(experiments) for block in section.blocks]
    figures = [block for block in blocks if isinstance(block, Figure)]
    for figure in figures:
        for series in (one for panel in figure.panels for one in panel.series):
            assert series.style.colour == style_of(series.keys[0]).colour
        assert {key for panel in figure.panels for one in panel.series for key in one.keys} <= {
            key.name for key in figure.legend
        }


# Drawing


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


# One run


def folder_of(tmp_path, **settings):
    row = row_of({"method": "feddep", "dataset": "cora", "training.rounds": 3} | settings)
    (tmp_path / "record.json").write_text(json.dumps(row["record"]))
    return row["record"]


def test_a_run_has_its_summary_prices_traffic_and_curve(tmp_path):
    record = folder_of(tmp_path)
    entry = {"loss": 1.0, "silo": {"test": 0.5, "val": 0.6}, "global": {"test": 0.7, "val": 0.8}}
    lines = [json.dumps(entry | {"round": n, "seconds": n / 10}) + "\n" for n in (1, 2, 3)]
    (tmp_path / "history.jsonl").write_text("".join(lines))
    page = write_run_page(tmp_path).read_text()
    assert page == (tmp_path / "report.html").read_text()
    assert f"<td>{record['scores']['global']['test']:.4f}</td>" in page
    assert "A statement in &lt;words&gt;." in page
    for epsilon in ("1.1", "12.5", "unbounded"):
        assert f"<td>{epsilon}</td>" in page
    for phase in record["traffic"]["phases"]:
        assert f'<th scope="row" class="words">{phase}</th>' in page
    assert "round 2, test, whole graph: 0.7" in page
    assert page.count('<svg class="panel"') == 3
    assert "http" not in page


def test_a_run_s_page_can_go_elsewhere_and_do_without_a_history(tmp_path):
    folder_of(tmp_path)
    page = write_run_page(tmp_path, tmp_path / "pages/own.html").read_text()
    assert "Training" not in page
    assert not (tmp_path / "report.html").exists()


def test_a_record_without_prices_says_so(tmp_path):
    record = folder_of(tmp_path, method="fedgnn")
    record["privacy"] = {"mechanism": "none", "verdict": "none", "statement": "Nothing."}
    page = run_page(record, {"round": []})
    assert page.count("not priced") == 3
    assert "fedgnn†" in page
    assert "sees cross-client edges" in page


def test_training_that_ran_away_is_told(tmp_path):
    record = folder_of(tmp_path) | {"diverged": "the loss of client 2 is no number in round 7"}
    page = run_page(record, {"round": []})
    assert "training ran away" in page
    assert "client 2 is no number in round 7" in page


def test_a_damaged_history_is_an_error_with_its_file(tmp_path):
    folder_of(tmp_path)
    (tmp_path / "history.jsonl").write_text("{")
    with pytest.raises(DataError, match=r"history\.jsonl"):
        write_run_page(tmp_path)
