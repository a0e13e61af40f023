"""Tables and pages are pure functions of records."""

from dataclasses import replace

import pytest

from feddep.algorithms import METHODS
from feddep.reports.comparison import HEADINGS, comparison_markdown, comparison_rows, run_summary
from feddep.reports.formatting import accuracy, divergence, footnotes, markdown_table, marked, size


def record(method: str, test: float | None = 0.81234, up: int = 1500) -> dict[str, object]:
    return {
        "method": method,
        "dataset": "cora",
        "clients": 5,
        "rounds": 50,
        "seed": 3,
        "partition": "louvain",
        "split": "stratified",
        "preset": "paper",
        "best_round": 47,
        "scores": {
            "global": {"test": test, "val": 0.8, "test_last": 0.79996},
            "silo": {"test": 0.7, "val": 0.6},
        },
        "seconds": {"total": 12.345},
        "traffic": {"up_bytes": up, "down_bytes": 2_500_000},
        "privacy": {"verdict": "none"},
    }


@pytest.mark.parametrize(
    ("value", "text"), [(0.81236, "0.8124"), (1.0, "1.0000"), (0, "0.0000"), (None, "–")]
)
def test_accuracy_has_four_digits_or_a_dash(value: float | None, text: str):
    assert accuracy(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1550, "1.6 kB"),
        (12_340_000, "12.3 MB"),
        (5_000_000_000, "5.0 GB"),
        (5_000_000_000_000, "5000.0 GB"),
    ],
)
def test_sizes_are_in_decimal_units(count: int, text: str):
    assert size(count) == text


def test_a_row_holds_scores_bytes_and_seconds_in_the_order_of_the_headings():
    (row,) = comparison_rows([record("fedavg")])
    assert len(row) == len(HEADINGS)
    assert row == ("fedavg", "0.8123", "0.7000", "1.5 kB", "2.5 MB", "12.3")


def test_rows_keep_the_order_of_the_records():
    rows = comparison_rows([record("local"), record("fedavg"), record("global")])
    assert [row[0] for row in rows] == ["local", "fedavg", "global"]


def test_a_score_that_does_not_exist_is_a_dash():
    (row,) = comparison_rows([record("local", test=None)])
    assert row[1] == "–"


CROSS_EDGES = "† sees cross-client edges, which nobody has in our problem."
RECONSTRUCTION = "‡ a reconstruction from what the FedDEP paper says about it."


@pytest.mark.parametrize(
    ("method", "shown"),
    [
        ("fedavg", "fedavg"),
        ("fedsage", "fedsage"),
        ("fedgnn", "fedgnn†"),
        ("fedgraph", "fedgraph†"),
        ("oracle", "oracle†"),
        ("fedgsl", "fedgsl‡"),
        ("a method of another version", "a method of another version"),
    ],
)
def test_methods_are_shown_with_their_marks(method: str, shown: str):
    assert marked(method) == shown
    assert comparison_rows([record(method)])[0][0] == shown


def test_a_method_may_have_both_marks(monkeypatch: pytest.MonkeyPatch):
    both = replace(METHODS["fedgsl"], name="both", sees_cross_edges=True)
    monkeypatch.setitem(METHODS, "both", both)
    assert marked("both") == "both†‡"
    assert footnotes(["both"]) == [CROSS_EDGES, RECONSTRUCTION]


@pytest.mark.parametrize(
    ("methods", "notes"),
    [
        (["local", "fedavg", "unheard-of"], []),
        (["fedgnn", "fedavg", "fedgraph"], [CROSS_EDGES]),
        (["fedgsl"], [RECONSTRUCTION]),
        (["fedgsl", "fedgnn", "oracle"], [CROSS_EDGES, RECONSTRUCTION]),
    ],
)
def test_only_marks_that_are_shown_are_explained_each_once(methods: list[str], notes: list[str]):
    assert footnotes(methods) == notes
    page = comparison_markdown([record(method) for method in methods])
    assert page.split("|\n")[-1].strip().splitlines() == notes


def test_a_markdown_table_has_a_rule_and_aligns_numbers_right():
    assert markdown_table(("a", "b"), [("x", "1"), ("y", "2")]).splitlines() == [
        "| a | b |",
        "| --- | ---: |",
        "| x | 1 |",
        "| y | 2 |",
    ]


def test_the_page_says_what_was_run_and_has_a_line_for_each_method():
    page = comparison_markdown([record("local", up=0), record("fedavg")])
    lines = page.splitlines()
    assert lines[0] == "# cora, 5 clients, 50 rounds, seed 3"
    assert "Partition `louvain`, split `stratified`, preset `paper`" in page
    assert lines[-2:] == [
        "| local | 0.8123 | 0.7000 | 0 B | 2.5 MB | 12.3 |",
        "| fedavg | 0.8123 | 0.7000 | 1.5 kB | 2.5 MB | 12.3 |",
    ]
    assert page.endswith("|\n")


def test_the_page_says_if_methods_had_different_numbers_of_rounds():
    page = comparison_markdown([record("local"), record("fedavg") | {"rounds": 100}])
    assert page.startswith("# cora, 5 clients, 50 or 100 rounds, seed 3")


def test_the_same_records_give_the_same_page():
    assert comparison_markdown([record("local")]) == comparison_markdown([record("local")])


def test_runs_whose_training_ran_away_are_named():
    assert divergence([record("fedavg"), record("fedgnn")]) == []
    away = record("fedgnn") | {"diverged": "no number in round 7"}
    assert divergence([record("fedavg"), away, away | {"seed": 4}]) == [
        "Training diverged and ended early, so the best round before that counts: "
        "fedgnn† on cora with M = 5, seed 3; fedgnn† on cora with M = 5, seed 4."
    ]


def test_the_summary_of_a_run_tells_scores_round_bytes_and_privacy():
    assert dict(run_summary(record("fedavg"))) == {
        "test accuracy, whole graph": "0.8123",
        "  at the last round": "0.8000",
        "test accuracy, own silo": "0.7000",
        "validation accuracy, own silo": "0.6000",
        "best round": "47 of 50",
        "sent up / down": "1.5 kB / 2.5 MB",
        "seconds": "12.3",
        "privacy": "none",
    }
