"""Linked silos: tables, the figure over ε, and the bars."""

import math

import pytest

from feddep_study.bars import bars_table
from feddep_study.linked import Linked, Setting, Way, gain_by_epsilon, linked_tables
from feddep_study.paper_tables import NOT_RUN
from feddep_study.payments_tables import CHOSEN, Payments, payments_tables
from feddep_study.source import STUDY, Library
from made_up_records import fill, row_of

DECLARED = """
    [fixed]
    preset = "paper"
    "partition.links" = "known"
    "partition.kind" = "random"
    "partition.clients" = 10
    [[grid]]
    dataset = ["cora"]
    method = ["fedavg", "linked-oracle"]
    seed = [0, 1]
    [[grid]]
    dataset = ["cora"]
    method = ["feddep-linked"]
    "links.epsilon" = [4.0]
    seed = [0, 1]
    [[grid]]
    dataset = ["cora"]
    method = ["feddep-linked"]
    "links.noise" = ["none"]
    seed = [0, 1]
    """
HERE = Setting("cora", "random", 10, 0.6)


@pytest.fixture
def study(tmp_path):
    (tmp_path / "paper.toml").write_text((STUDY / "paper.toml").read_text())
    (tmp_path / "declarations").mkdir()
    (tmp_path / "declarations/links.toml").write_text(DECLARED)
    return tmp_path


def linked_with(**scores):
    """Two seeds of each way in one setting."""
    ways = {
        "fedavg": Way("fedavg"),
        "oracle": Way("linked-oracle"),
        "two": Way("feddep-linked", 2.0),
        "four": Way("feddep-linked", 4.0),
        "bare": Way("feddep-linked", math.inf),
    }
    found = {ways[name]: dict(enumerate(values)) for name, values in scores.items()}
    return Linked({HERE: found})


def test_every_way_has_its_difference_from_fedavg_on_own_nodes(study):
    fill(study, "links")
    source = Library(study)["links"]
    (table,) = linked_tables(source)
    assert table.headings == ("method", "random, M = 10")
    assert [line[0] for line in table.rows] == [
        "fedavg",
        "feddep-linked, ε = 4",
        "feddep-linked, no noise",
        "linked-oracle",
    ]
    by_seed = [
        [
            row_of(cell)["record"]["scores"]["silo"]["test"]
            for cell in source.cells[start : start + 2]
        ]
        for start in (0, 4)
    ]
    expected = sum(b - a for a, b in zip(*by_seed, strict=True)) * 50
    assert table.rows[1][1].startswith(f"{expected:+.2f}".replace("-", "−"))


def test_what_is_not_run_says_so_and_a_part_says_of_how_many(study):
    fill(study, "links", 3 / 8)
    source = Library(study)["links"]
    (table,) = linked_tables(source)
    cells = [line[1] for line in table.rows]
    assert cells[1:3] == [NOT_RUN, NOT_RUN]
    assert cells[3].endswith("1 of 2 seeds")
    assert list(gain_by_epsilon(source)) == []  # there is no ε yet


def test_a_panel_has_a_point_for_each_epsilon_and_none_for_fedavg(study):
    fill(study, "links")
    (figure,) = gain_by_epsilon(Library(study)["links"])
    (panel,) = figure.panels
    linked, oracle = panel.series
    assert [point.x for point in linked.points] == [2.0, 4.0]
    assert panel.x.ticks[-1] == (4.0, "no noise")
    assert not oracle.marks
    assert panel.guide == 0


@pytest.mark.parametrize(
    ("four", "verdict"),
    [
        ((0.80, 0.801), "reached"),  # +8 and little spread
        ((0.75, 0.755), "not reached"),  # too little
        ((0.70, 0.90), "not reached"),  # enough in the mean, but nobody knows
    ],
)
def test_a_bar_asks_for_a_mean_and_an_interval(monkeypatch, four, verdict):
    linked = linked_with(fedavg=(0.72, 0.72), four=four)
    monkeypatch.setattr("feddep_study.bars.Linked", lambda scores: linked)
    assert bars_table({}, []).rows[0][-1] == verdict


def test_the_oracle_is_the_measure_of_codes_without_noise(monkeypatch):
    for bare, verdict in ((0.80, "reached"), (0.77, "not reached")):
        linked = linked_with(oracle=(0.82, 0.82), bare=(bare, bare))
        monkeypatch.setattr("feddep_study.bars.Linked", lambda scores, own=linked: own)
        lines = bars_table({}, []).rows
        assert lines[1][-1] == verdict
        assert lines[0][-1] == NOT_RUN


def row(way, test, val=0.5, seed=0, split="stratified"):
    return {"data": "aml", "split": split, "seed": seed, "way": way, "test": test, "val": val}


def test_payments_stand_beside_fedavg_and_trees_beside_trees():
    rows = [
        row("fedavg", 0.40),
        row("fedavg", 0.44, seed=1),
        row("labels, ε = 4", 0.50),
        row("labels, ε = 4", 0.53, seed=1),
        row("trees", 0.3),
        row("trees with columns of labels, no noise", 0.52),
    ]
    aml, generated = payments_tables(rows)
    cells = {line[0]: line[1:3] for line in aml.rows}
    assert cells["labels, ε = 4"][1].startswith("+.095 [")
    assert cells["trees with columns of labels, no noise"][1] == "+.220"
    assert cells["scores, ε = 4"] == (NOT_RUN, "")
    assert {line[1] for line in generated.rows} == {NOT_RUN}
    verdicts = {
        line[1]: line[-1] for line in bars_table({}, rows).rows if line[0].startswith("aml")
    }
    assert verdicts["labels, ε = 4 − fedavg, average precision"] == "reached"
    assert verdicts["trees with columns of labels, no noise, average precision"] == "reached"
    assert verdicts["labels, no noise − fedavg, average precision"] == NOT_RUN


def test_a_code_is_chosen_by_validation_alone_and_among_all():
    codes = ["labels", "scores", "both", "both, all nodes masked"]
    rows = [
        row(f"{code}, ε = 4", test=0.1 * place, val=-abs(place - 2))
        for place, code in enumerate(codes)
    ]
    assert Payments(rows).scores(CHOSEN) == {0: pytest.approx(0.2)}
    assert Payments(rows[1:]).scores(CHOSEN) == {}
