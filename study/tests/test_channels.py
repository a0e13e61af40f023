"""A claim about a component is tested only where something passes through the component."""

from dataclasses import replace

import pytest

from feddep_study.against_paper import Paper
from feddep_study.claims.channels import Channel, closed_settings, is_open
from feddep_study.claims.evidence import Evidence
from feddep_study.claims.measures import lead
from feddep_study.claims.rule import Claim, examine
from feddep_study.source import Source

TOLD = {
    "probe": 0.80,
    "probe_own": 0.90,
    "probe_majority": 0.50,
    "weight_ratio": 0.05,
    "changed": 0.03,
}
EVIDENCE = Evidence("table1")
CLAIM = Claim(
    "4.2",
    "DGen improves FedDEP",
    lead("feddep", "feddep-wo-dgen"),
    [EVIDENCE],
    through=(Channel("feddep"),),
)


def record(score=0.5, **generation):
    return {"scores": {"global": {"test": score}}, "generation": TOLD | generation}


@pytest.mark.parametrize(
    ("generation", "opened"),
    [
        ({}, True),
        ({"probe": 0.71}, True),  # more than half of the way, and than 0.675
        ({"probe": 0.69}, False),  # less than half of the way from 0.5 to 0.9
        ({"probe": 0.67, "probe_majority": 0.1}, False),  # less than 75% of 0.9
        ({"probe": 0.68, "probe_majority": 0.1}, True),
        ({"probe": 0.80, "probe_majority": 0.80}, False),  # a constant would do as well
        ({"probe_own": 0.50}, False),  # there is nothing to tell
        ({"changed": 0.019}, False),
        ({"changed": 0.019, "weight_ratio": 0.1}, True),
        ({"changed": None, "weight_ratio": None}, False),
        ({"changed": None, "weight_ratio": 0.1}, True),
        ({"probe": None}, False),
    ],
)
def test_a_channel_is_open_if_rows_tell_the_class_and_f_listens(generation, opened):
    assert is_open([record(**generation)]) is opened


def test_the_mean_over_seeds_counts():
    assert is_open([record(probe=0.69), record(probe=0.75)])
    assert not is_open([record(probe=0.69), record(probe=0.70)])


@pytest.mark.parametrize("silent", [{}, {"generation": None}, {"generation": {}}])
def test_what_is_unknown_is_not_open(silent):
    assert not is_open([{"scores": {}} | silent])
    assert not is_open([record(), {"scores": {}} | silent])


def rows(clients, generation, gain=0.05):
    """Three seeds of a setting in which FedDEP is ahead."""
    for seed in range(3):
        where = {"dataset": "cora", "partition.clients": clients, "seed": seed}
        yield where | {"method": "feddep"}, record(0.5 + gain + seed / 1000, **generation)
        yield where | {"method": "feddep-wo-dgen"}, record(0.5, probe=None)


def finding(*found, claim=CLAIM):
    runs = [run for own in found for run in own]
    source = Source("table1", [cell for cell, _ in runs], runs, Paper({}))
    (one,) = examine(claim, {"table1": source})
    return one


def test_a_claim_is_not_testable_where_all_channels_are_closed():
    closed = finding(rows(3, {"probe": 0.5}), rows(5, {"changed": 0.0}))
    assert str(closed.verdict) == "not testable (nothing passes through)"
    assert closed.numbers[0].startswith("+5.10"), "the difference is shown all the same"
    not_about_it = finding(rows(3, {"probe": 0.5}), claim=replace(CLAIM, through=()))
    assert not_about_it.verdict.word == "supported"


def test_closed_settings_do_not_take_part():
    mixed = finding(rows(3, {}, gain=0.05), rows(5, {"changed": 0.0}, gain=-0.3))
    assert str(mixed.verdict) == "supported (1 setting not testable)"
    assert mixed.numbers[-1] == "1 of 2, 1 decide"
    assert mixed.numbers[0].startswith("+5.10")
    assert finding(rows(3, {}), rows(5, {})).verdict.reason == ""


def test_while_runs_are_missing_it_is_not_testable_so_far():
    runs = list(rows(3, {"changed": 0.0}))
    cells = [cell for cell, _ in (*runs, *rows(5, {}))]
    (one,) = examine(CLAIM, {"table1": Source("table1", cells, runs, Paper({}))})
    assert one.verdict.word == "not testable so far"


def test_each_kind_of_run_must_be_open_and_others_do_not_matter():
    def run(depth, **generation):
        cell = {"dataset": "cora", "method": "feddep", "embedding.depth": depth, "seed": 0}
        return cell, record(**generation)

    deep = Channel("feddep", {"embedding.depth": (1, 2)})

    def closed(*runs):
        return closed_settings([deep], Evidence("hops", apart=()).cases(runs))

    assert closed(run(0, probe=0.5), run(1), run(2)) == set()
    assert closed(run(1), run(2, probe=0.5)) == {("cora",)}
    assert closed(run(0)) == {("cora",)}, "nothing that could be open"
