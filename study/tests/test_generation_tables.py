"""What is generated, as table, figure and short table, from literal records."""

import pytest

from feddep_study.against_paper import Paper
from feddep_study.batches import full_batch_table
from feddep_study.generation import (
    generated_in_short,
    generation_figure,
    generation_table,
    generation_text,
)
from feddep_study.leads import leads, leads_in_short
from feddep_study.source import Source

TOLD = {
    "count_mean": 1.5,
    "count_sd": 1.0,
    "count_correlation": 0.2,
    "share_mended": 0.8,
    "probe": 0.8,
    "probe_own": 0.9,
    "probe_majority": 0.4,
    "weight_ratio": 0.05,
    "changed": 0.03,
    "dead": [],
}
NOTHING = dict.fromkeys(TOLD) | {"share_mended": 0.0, "dead": [0, 1]}


def row(method, seed, generation, **settings):
    cell = {"dataset": "cora", "method": method, "partition.clients": 5, "seed": seed} | settings
    score = {"test": 0.5 + seed / 100 + (method == "feddep") * 0.02 * (1 + seed)}
    record = {
        "method": method,
        "dataset": cell["dataset"],
        "clients": cell["partition.clients"],
        "seed": seed,
        "preset": cell.get("preset", "paper"),
        "split": "stratified",
        "partition": cell.get("partition.kind", "louvain"),
        "data": {"lost_share": 0.1},
        "scores": {"global": score, "silo": score},
        "generation": generation,
    }
    return cell, record


def source(name, rows):
    return Source(name, [cell for cell, _ in rows], rows, Paper({}))


@pytest.fixture
def table1():
    rows = [row("fedavg", seed, None) for seed in range(2)]
    rows += [row("feddep", 0, TOLD), row("feddep", 1, TOLD | {"probe": 0.84})]
    rows += [row("fedsage", 0, NOTHING)]
    return source("table1", rows)


def test_a_line_for_each_method_that_tells(table1):
    table = generation_table(table1)
    lines = [dict(zip(table.headings, line, strict=True)) for line in table.rows]
    assert [line["method"] for line in lines] == ["feddep", "fedsage"]
    feddep, fedsage = lines
    assert feddep["ñ"] == "1.50 ± 1.00"
    assert feddep["probe of z̄"] == "0.82 [0.57, 1.07]", "t of one degree of freedom, 12.7 · 0.02"
    assert feddep["changed"] == "3.0%", "equal values have no interval"
    assert (feddep["edges lost"], feddep["mended"]) == ("10%", "80%")
    assert (feddep["channel"], feddep["seeds"]) == ("open", "2")
    assert (fedsage["probe of z̄"], fedsage["ñ"], fedsage["channel"]) == ("–", "– ± –", "closed")


def test_the_short_table_has_feddep_in_two_partitions_each_run_once(table1):
    more = [row("feddep", 0, TOLD, **{"partition.kind": "random", "partition.clients": 10})]
    more += [row("feddep", 0, TOLD), row("feddep", 0, TOLD, feature_share=0.1)]
    more += [row("feddep", 0, TOLD, **{"partition.kind": "random", "partition.clients": 3})]
    text = generated_in_short({"table1": table1, "pays": source("pays", more)})
    lines = text.splitlines()[2:]
    assert [line.split(" | ")[1:3] for line in lines] == [["louvain", "5"], ["random", "10"]]
    assert lines[0].endswith("| open | 2 |")


def test_the_figure_has_four_panels_with_a_mark_for_each_setting(table1):
    (figure,) = generation_figure({"table1": table1})
    assert len(figure.panels) == 4
    probe = figure.panels[1]
    (series,) = probe.series  # FedSage's is not known, FedAvg has none
    assert series.keys == ("feddep", "cora", "louvain")
    assert series.points[0].y == pytest.approx((0.8 + 0.84) / 2 / 0.9)
    assert [panel.guide for panel in figure.panels] == [0.0, 0.75, 0.1, 0.02]


def test_without_runs_that_tell_there_is_no_figure_and_the_text_says_so(table1):
    silent = {"table1": source("table1", [row("fedavg", 0, None), row("feddep", 0, None)])}
    assert list(generation_figure(silent)) == []
    assert generated_in_short(silent) == "The runs that tell are not run yet.\n"
    assert leads_in_short({}) == "The runs are not run yet.\n"
    assert generation_text(silent["table1"]) == "None of these runs tells what was generated.\n"


# FedDEP's lead


def test_leads_are_paired_on_both_metrics_and_controls_have_their_own_reference(table1):
    lines = leads({"table1": table1}).rows
    assert [line[2:5] for line in lines] == [("feddep − fedavg", "cora", lines[0][4])]
    assert lines[0][4].startswith("+3.00 [")
    assert lines[0][4] == lines[0][5]
    warm = [row("fedavg-warm", seed, None) for seed in range(2)]
    found = leads({"controls": source("controls", [*table1.rows, *warm])}).rows
    assert [line[2] for line in found] == [
        "feddep − fedavg",
        "feddep − fedavg-warm",
        "fedavg-warm − fedavg",
    ]


# Full batches


def test_full_batches_stand_beside_small_ones_and_the_paper():
    key = "training.batch_size"
    rows = [row("fedavg", seed, None, **{key: size}) for size in (100, 32) for seed in range(2)]
    printed = Paper({"cora": {"fedavg": {"5": [0.7, 0.01]}}})
    table = full_batch_table(Source("full_batch", [cell for cell, _ in rows], rows, printed))
    assert table.headings[3:5] == (
        "one step, the authors' split",
        "batches of 32, the authors' split",
    )
    scored = "0.5050 ± 0.007"
    (line,) = table.rows
    assert line == ("cora", "5", "0.7000 ± 0.010", "not run yet", "not run yet", scored, scored)
