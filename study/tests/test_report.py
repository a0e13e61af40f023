"""The report: every table in every form, nothing loaded, and the records' numbers."""

import json
import re
import shutil
import statistics
from html import escape, unescape

import pytest

from feddep.errors import DataError, InputError
from feddep.reports.charts import Figure
from feddep.reports.palette import style_of
from feddep.reports.table import Table
from feddep_study.against_paper import Printed
from feddep_study.paper_tables import verdict
from feddep_study.readme import main_table, shown
from feddep_study.report import read_sections, write_report
from feddep_study.reproduce import PARTS
from feddep_study.sections import PLANS
from feddep_study.source import STUDY, Library
from made_up_records import SWEEPS, fill


@pytest.fixture(scope="module")
def page(out):
    return (out / "index.html").read_text()


@pytest.fixture(scope="module")
def tables(study):
    blocks = [block for section in read_sections(study) for block in section.blocks]
    return [block for block in blocks if isinstance(block, Table)]


def section_of(study, name):
    return next(one for one in read_sections(study) if one.name == name)


def rows_of(study, name):
    lines = (study / f"results/{name}.jsonl").read_text().splitlines()
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
    shutil.copy(STUDY / "paper.toml", tmp_path)
    (tmp_path / "declarations").mkdir()
    (tmp_path / "declarations/table1.toml").write_text(
        '[grid]\ndataset = ["cora"]\nmethod = ["fedavg", "feddep"]\nseed = [0, 1]'
    )
    fill(tmp_path, "table1", share=0.75)
    section = section_of(tmp_path, "table1")
    assert section.state == "1 of 4 runs are not run yet."
    (table,) = [block for block in section.blocks if block.title.startswith("cora, ")]
    assert re.fullmatch(r"0\.\d{4} ± 0\.\d{3}", table.rows[0][1])
    assert re.fullmatch(r"0\.\d{4} \(1\)", table.rows[1][1])
    fill(tmp_path, "table1", share=0.5)
    section = section_of(tmp_path, "table1")
    (table, *_) = [block for block in section.blocks if isinstance(block, Table)]
    assert table.rows[1] == ("feddep", "not run yet", "0.8883 ± 0.011", "–")


def test_an_unknown_sweep_has_its_means(page, study):
    scores = [
        row["record"]["scores"]["global"]["test"]
        for row in rows_of(study, "mine")
        if row["settings"]["method"] == "fedavg" and row["settings"]["model.form"] == "closed"
    ]
    shown = f"{statistics.fmean(scores):.4f} ± {statistics.stdev(scores):.3f}"
    assert f"<td>{shown}</td>" in page.partition('id="mine"')[2]


def test_the_numbers_on_the_page_are_the_records(page, study):
    section = page.partition('id="table1"')[2].partition("</section>")[0]
    groups = {}
    for row in rows_of(study, "table1"):
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


def test_points_lie_where_their_numbers_say(study):
    section = section_of(study, "table1")
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


def test_level_lines_show_methods_without_the_setting(study):
    section = section_of(study, "hops")
    lines = {series.keys[0]: series for series in section.blocks[0].panels[0].series}
    assert [point.x for point in lines["feddep"].points] == [0, 1, 2]
    assert [point.x for point in lines["fedsage"].points] == [0, 2]
    assert len({point.y for point in lines["fedsage"].points}) == 1


def test_privacy_is_drawn_over_the_sound_epsilon(study):
    section = section_of(study, "privacy")
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


def test_curves_are_means_over_the_seeds(study):
    section = section_of(study, "curves")
    accuracy, loss, seconds, by_time = section.blocks[0].panels
    own = [row["history"] for row in rows_of(study, "curves")]
    local = [history["global_test"] for history in own[:2]]  # the first method's two seeds
    drawn = next(one for one in accuracy.series if one.keys == ("local",))
    assert [point.x for point in drawn.points] == [1, 2, 3, 4, 5]
    assert [point.y for point in drawn.points] == pytest.approx(
        [statistics.fmean(pair) for pair in zip(*local, strict=True)]
    )
    assert (loss.x.label, seconds.y.label, by_time.x.label) == ("round", *["seconds so far"] * 2)


def test_whole_features_are_the_end_of_the_line_of_weaker_ones(study):
    section = section_of(study, "pays")
    lost, features = section.blocks[:2]
    assert [text for _, text in features.panels[0].x.ticks] == ["0.1", "0.3", "1"]
    assert [panel.x.label for panel in lost.panels] == ["share of edges lost"] * 2


def test_the_claims_have_a_section_and_those_without_runs_say_so(study, page):
    section = section_of(study, "claims")
    assert section.unit == "claims"
    assert 0 < section.done < section.declared
    verdicts = [row[1] for table in section.blocks for row in table.rows]
    assert "not run yet" in verdicts
    assert 'id="claims"' in page


def test_the_page_begins_with_what_the_readme_shows(study):
    first = read_sections(study)[0]
    library = Library(study)
    assert first.name == "short"
    assert first.state == "All 32 runs of Table 1 are there."
    assert first.blocks[0].rows == main_table(library["table1"]).rows
    assert [figure.panels for figure in first.blocks[1:]] == [
        one.figure.panels for one in shown(library)
    ]
    assert "Of 47 claims: " in first.text


@pytest.mark.parametrize("title", ["Ranks, preset paper", "Pooled differences, preset paper"])
def test_table_1_has_ranks_and_pooled_differences(study, title):
    section = section_of(study, "table1")
    assert any(block.title.startswith(title) for block in section.blocks)


def test_every_part_of_the_paper_has_a_section():
    assert {sweep for part in PARTS.values() for sweep in part} <= PLANS.keys()


def test_the_data_table_stands_beside_the_paper_s(study, tmp_path):
    shutil.copytree(study, tmp_path / "study")
    row = {"subgraph_nodes": 903, "subgraph_edges": 1600, "lost_edges": 500, "lost_share": 0.09}
    stored = [{"dataset": "cora", "clients": 3, "seed": 0} | row]
    (tmp_path / "study/results/data.json").write_text(json.dumps(stored))
    section = section_of(tmp_path / "study", "data")
    assert section.blocks[0].rows[0][:4] == ("cora", "3", "903 / 903", "1600 / 1594")
    (tmp_path / "study/results/data.json").write_text("[{")
    with pytest.raises(DataError, match="data table"):
        read_sections(tmp_path / "study")


# Offline


def test_nothing_is_loaded(page):
    assert set(re.findall(r'\bhref="(.)', page)) == {"#"}
    assert not re.search(r"https?:|\bsrc=|url\(|@import|\bfetch\(|XMLHttp|<link|\bimport\b", page)


def test_every_link_has_its_target(page):
    targets = re.findall(r'href="#([^"]+)"', page)
    assert len(targets) == len(SWEEPS) + 3  # beginning, data and claims are no sweeps
    assert all(f'id="{target}"' in page for target in targets)


def test_a_folder_without_sweeps_is_refused(tmp_path):
    with pytest.raises(InputError, match="declares no sweeps"):
        write_report(tmp_path, tmp_path / "out")
    (tmp_path / "declarations").mkdir()
    (tmp_path / "declarations/broken.toml").write_text("[")
    with pytest.raises(InputError, match="cannot read"):
        write_report(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


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


def test_a_method_looks_the_same_in_every_plot(study):
    blocks = [block for section in read_sections(study) for block in section.blocks]
    figures = [block for block in blocks if isinstance(block, Figure)]
    for figure in figures:
        for series in (one for panel in figure.panels for one in panel.series):
            assert series.style.colour == style_of(series.keys[0]).colour
        assert {key for panel in figure.panels for one in panel.series for key in one.keys} <= {
            key.name for key in figure.legend
        }
