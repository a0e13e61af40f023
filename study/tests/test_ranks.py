"""Ranks over settings, and what they wait for."""

import pytest

from feddep_study.against_paper import Paper
from feddep_study.source import STUDY, Source, declared_sweep
from feddep_study.statistics.ranks import NOTE, ranks

METHODS = ("fedavg", "fedsage", "feddep")


def cells(datasets=("cora",), clients=(3, 5), methods=METHODS, seeds=(0, 1), **settings):
    return [
        {"dataset": d, "partition.clients": m, "method": name, "seed": seed, "preset": "paper"}
        | settings
        for d in datasets
        for m in clients
        for name in methods
        for seed in seeds
    ]


def source(declared, score=lambda cell: METHODS.index(cell["method"]) / 10):
    """A sweep whose runs are those with a score."""
    scored = [(cell, score(cell)) for cell in declared]
    rows = [
        (cell, {"scores": {"global": {"test": value}}})
        for cell, value in scored
        if value is not None
    ]
    return Source("table1", declared, rows, Paper({}))


def test_methods_stand_by_mean_rank_with_their_rank_in_every_setting():
    (table,) = ranks(source(cells()))
    assert table.title == "Ranks, preset paper, stratified split"
    assert table.headings == ("method", "mean rank", "settings", "cora 3", "cora 5")
    assert table.rows == [
        ("feddep", "1.00", "2 of 2", "1", "1"),
        ("fedsage", "2.00", "2 of 2", "2", "2"),
        ("fedavg", "3.00", "2 of 2", "3", "3"),
    ]
    assert table.notes == (NOTE,)


def test_ranks_are_by_the_mean_over_the_seeds():
    scores = {"fedavg": (0.1, 0.9), "fedsage": (0.4, 0.4), "feddep": (0.45, 0.45)}
    (table,) = ranks(source(cells(clients=(5,)), lambda c: scores[c["method"]][c["seed"]]))
    assert [row[0] for row in table.rows] == ["fedavg", "feddep", "fedsage"]


def test_equal_means_share_a_rank():
    (table,) = ranks(source(cells(clients=(5,)), lambda cell: 0.5))
    assert [row[3] for row in table.rows] == ["2", "2", "2"]
    (table,) = ranks(source(cells(clients=(5,)), lambda c: 0.9 if c["method"] == "fedavg" else 0.5))
    assert [row[3] for row in table.rows] == ["1", "2.5", "2.5"]


def test_yardsticks_do_not_compete():
    declared = cells(methods=("global", *METHODS, "oracle"), clients=(5,))
    (table,) = ranks(source(declared, lambda cell: len(cell["method"]) / 10))
    assert {row[0] for row in table.rows} == set(METHODS)


def test_a_setting_counts_once_all_methods_are_there_and_the_others_are_named():
    def score(cell):
        waiting = cell["partition.clients"] == 5 and cell["method"] == "fedsage"
        return None if waiting else 0.5

    (table,) = ranks(source(cells(clients=(5, 3, 10)), score))
    assert table.headings[3:] == ("cora 3", "cora 10")
    assert {row[2] for row in table.rows} == {"2 of 3"}
    assert table.notes[-1] == "Not ranked: cora with M = 5 (fedsage not run yet)."


def test_settings_that_lack_the_same_are_named_at_once():
    declared = cells(datasets=("cora", "pubmed"), clients=(5, 3))
    (table,) = ranks(source(declared, lambda c: 0.5 if c["method"] == "fedavg" else None))
    assert [row[1:] for row in table.rows] == [("–", "0 of 4")] * 3
    assert table.notes[1:] == (
        "Not ranked: cora with M = 3, 5; pubmed with M = 3, 5 (fedsage, feddep not run yet).",
    )


def test_a_setting_without_any_run_lacks_all_methods():
    (table,) = ranks(source(cells(), lambda c: 0.5 if c["partition.clients"] == 3 else None))
    assert table.notes[-1] == "Not ranked: cora with M = 5 (all methods not run yet)."


def test_only_seeds_that_all_methods_have_count():
    def score(cell):
        if cell["method"] == "fedavg":
            return (0.4, 0.99)[cell["seed"]]
        return None if cell["seed"] else 0.5

    (table,) = ranks(source(cells(clients=(5,)), score))
    assert table.rows[-1] == ("fedavg", "3.00", "1 of 1", "3")

    def never_together(cell):
        return 0.5 if cell["seed"] == (cell["method"] == "fedavg") else None

    (table,) = ranks(source(cells(clients=(5,)), never_together))
    assert "(no seed that all methods have)" in table.notes[-1]


def test_presets_and_splits_are_ranked_apart_and_those_without_any_run_left_out():
    declared = cells() + cells(preset="tuned") + cells(**{"split.kind": "quota"})
    found = list(ranks(source(declared, lambda c: None if "split.kind" in c else 0.5)))
    assert [table.title for table in found] == [
        "Ranks, preset paper, stratified split",
        "Ranks, preset tuned, stratified split",
    ]
    assert [NOTE in table.notes for table in found] == [True, False]


@pytest.mark.parametrize("declared", [[], cells()], ids=["nothing declared", "nothing run"])
def test_without_runs_there_is_no_table(declared):
    assert list(ranks(source(declared, lambda cell: None))) == []


def test_the_declared_sweeps_can_be_ranked():

    for name in ("table1", "quota"):
        declared = declared_sweep(STUDY, name).cells
        rows = [row for table in ranks(source(declared, lambda c: 0.5)) for row in table.rows]
        assert rows
        assert all("12 of 12" in row for row in rows)
