"""What the README shows: a table and two figures, also when little has been run."""

import json

import pytest

from feddep_study.documents import figures
from feddep_study.readme import figure_texts, main_table, shown
from feddep_study.source import STUDY, Library
from made_up_records import fill, row_of

TABLE1 = """
    [[grid]]
    dataset = ["cora", "citeseer"]
    "split.kind" = ["stratified"]
    preset = ["paper"]
    "partition.clients" = [5, 10]
    method = ["local", "fedavg", "feddep"]
    seed = [0, 1]
    [[grid]]
    dataset = ["cora"]
    preset = ["tuned"]
    "partition.clients" = [5]
    method = ["fedavg"]
    seed = [0, 1]
    """
LINKS = """
    [fixed]
    preset = "paper"
    "partition.links" = "known"
    "partition.kind" = "random"
    [[grid]]
    dataset = ["cora", "citeseer"]
    method = ["feddep-linked"]
    "links.epsilon" = [2.0, 4.0]
    seed = [0, 1]
    [[grid]]
    dataset = ["cora", "citeseer"]
    method = ["fedavg", "local", "linked-oracle"]
    seed = [0, 1]
    """


@pytest.fixture
def study(tmp_path):
    (tmp_path / "paper.toml").write_text((STUDY / "paper.toml").read_text())
    (tmp_path / "declarations").mkdir()
    for name, text in {"table1": TABLE1, "links": LINKS}.items():
        (tmp_path / f"declarations/{name}.toml").write_text(text)
    (tmp_path / "results").mkdir()
    return tmp_path


def write(study, sweep, *cells):
    rows = [json.dumps(row_of(cell)) + "\n" for cell in cells]
    (study / f"results/{sweep}.jsonl").write_text("".join(rows))


def cells_of(study, sweep, **wanted):
    cells = Library(study)[sweep].cells
    return [cell for cell in cells if wanted.items() <= cell.items()]


# The table


def test_ours_stand_beside_the_paper_s_and_what_is_missing_is_said(study):
    fedavg = cells_of(study, "table1", method="fedavg", dataset="cora")
    feddep = cells_of(study, "table1", method="feddep", dataset="cora", seed=0)
    write(study, "table1", *fedavg, *feddep)
    table = main_table(Library(study)["table1"])
    assert table.headings == ("method", "cora", "citeseer")
    local, averaged, ours = table.rows
    assert local == ("local", "not run yet (0.4486)", "not run yet (0.5802)")
    scores = [row_of(cell)["record"]["scores"]["global"]["test"] for cell in fedavg[:2]]
    assert averaged[1].startswith(f"{sum(scores) / 2:.4f} ± ")
    assert averaged[1].endswith(" (0.8555)")
    assert ours[1].endswith(", 1 of 2 seeds (0.8883)")
    assert ours[2] == "not run yet (0.7940)"


def test_what_the_paper_does_not_print_has_no_brackets(study):
    (study / "declarations/table1.toml").write_text(TABLE1.replace('"local"', '"oracle"'))
    table = main_table(Library(study)["table1"])
    assert table.rows[-1] == ("oracle†", "not run yet", "not run yet")


# The figures


def test_without_runs_there_are_no_figures(study):
    sources = Library(study)
    assert figures(sources) == {}
    assert figure_texts(sources) == "The figures' runs are not run yet.\n"
    assert figures({}) == {}


def test_accuracy_is_drawn_a_panel_a_data_set_without_what_lies_far_below(study):
    fill(study, "table1")
    (accuracy,) = shown(Library(study))
    assert [panel.title for panel in accuracy.figure.panels] == ["cora", "citeseer"]
    drawn = [one for panel in accuracy.figure.panels for one in panel.series]
    assert "local" not in {key for one in drawn for key in one.keys}
    assert accuracy.svg.startswith("<svg xmlns=")


def test_methods_are_drawn_over_the_seeds_that_all_of_them_have(study):
    both = cells_of(study, "table1", dataset="cora", method="fedavg", preset="paper")
    first = cells_of(study, "table1", dataset="cora", method="feddep", seed=0)
    write(study, "table1", *both, *first)
    figure = shown(Library(study))[0].figure
    (panel,) = figure.panels
    tips = [point.tip for one in panel.series for point in one.points if "ours" in point.tip]
    assert len(tips) == 2
    assert not any("2 seeds" in tip for tip in tips)


def test_what_linked_silos_gain_by_epsilon_comes_second(study):
    fill(study, "table1")
    fill(study, "links")
    _, gain = shown(Library(study))
    assert "not run yet" not in gain.caption
    assert [panel.title for panel in gain.figure.panels] == [
        "cora, random, M = 5",
        "citeseer, random, M = 5",
    ]
    linked, level = gain.figure.panels[0].series
    assert linked.keys == ("feddep-linked",)
    assert [point.x for point in linked.points] == [1.0, 2.0]  # log2 of ε
    assert level.keys == ("linked-oracle",)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize(
    ("sweep", "drawn"), [("table1", {"accuracy.svg"}), ("links", {"linked.svg"})]
)
def test_any_part_of_the_runs_will_do_and_the_rest_is_said_to_be_missing(
    study, sweep, drawn, share
):
    fill(study, sweep, share)
    sources = Library(study)
    assert "are not run yet.\n" in figure_texts(sources)
    assert figures(sources).keys() <= drawn
    if share == 0.5:
        assert figures(sources).keys() == drawn


def test_runs_that_a_figure_does_not_show_are_not_missed(study):
    fill(study, "links")
    in_short = cells_of(study, "table1", preset="paper", **{"partition.clients": 5})
    write(study, "table1", *in_short)
    assert "not run yet" not in figure_texts(Library(study))
    assert figures(Library(study)).keys() == {"accuracy.svg", "linked.svg"}


def test_the_same_records_are_drawn_alike(study):
    fill(study, "table1")
    fill(study, "links")
    assert figures(Library(study)) == figures(Library(study))
