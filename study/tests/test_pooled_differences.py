"""Differences from FedAvg and FedSage by data set."""

import pytest

from feddep_study.against_paper import Paper
from feddep_study.source import Source
from feddep_study.statistics.pooled_differences import NOTE, gains, pooled_pairs


def run(method, seed, test, silo=0.5, dataset="cora", clients=5, preset="paper"):
    settings = {"method": method, "seed": seed, "dataset": dataset, "preset": preset}
    record = settings | {"split": "quota", "clients": clients}
    record |= {"scores": {"global": {"test": test}, "silo": {"test": silo}}}
    return settings | {"partition.clients": clients}, record


def tables(rows):
    return list(gains(Source("any", [], rows, Paper({}))))


def lines(rows):
    return [row for table in tables(rows) for row in table.rows]


FEDAVG = [run("fedavg", seed, 0.80) for seed in (0, 1)]
FEDDEP = [run("feddep", seed, score, 0.47) for seed, score in enumerate((0.819, 0.821))]


def test_both_metrics_stand_against_both_references_with_their_pairs():
    fedsage = [run("fedsage", 0, 0.81), run("fedsage", 2, 0.1)]
    (table,) = tables([*FEDAVG, *FEDDEP, *fedsage])
    assert table.title == "Pooled differences, preset paper, quota split"
    assert table.headings == (
        *("method", "data", "− fedavg, global", "− fedavg, silo"),
        *("− fedsage, global", "− fedsage, silo", "pairs"),
    )
    assert table.rows == [
        ("fedavg", "cora", "–", "–", "−1.00", "+0.00", "– / 1"),
        ("fedsage", "cora", "+1.00", "+0.00", "–", "–", "1 / –"),
        *[
            (
                *("feddep", "cora", "+2.00 [+0.73, +3.27] above", "−3.00"),
                *("+0.90", "−3.00", "2 / 1"),
            )
        ],
    ]


def test_numbers_of_clients_are_pooled_and_data_sets_shown_before_all():
    more = [run(m, s, 0.7 + (m == "feddep") * 0.04, clients=10) for m in METHODS for s in (0, 1)]
    other = [run("fedavg", seed, 0.9, dataset="pubmed") for seed in (0, 1)]
    other += [run("feddep", seed, 0.89 + seed / 50, dataset="pubmed") for seed in (0, 1)]
    found = lines([*FEDAVG, *FEDDEP, *more, *other])
    assert [(row[1], row[2].split()[0], row[-1]) for row in found] == [
        ("cora", "+3.00", "4 / –"),
        ("pubmed", "+0.00", "2 / –"),
        ("all", "+1.50", "6 / –"),
    ]


def test_all_are_the_same_data_sets_for_every_method():
    def runs(method, dataset, seeds, gain):
        return [run(method, s, 0.8 + gain + s / 1000, dataset=dataset) for s in range(seeds)]

    base = [run("fedavg", s, 0.8, dataset=d) for s in range(3) for d in ("cora", "pubmed")]
    both = runs("feddep", "cora", 3, 0.02) + runs("feddep", "pubmed", 3, 0.06)
    early = runs("oracle", "cora", 3, 0.01) + runs("oracle", "pubmed", 1, 0.5)
    shown = {(row[0], row[1]): row[2].split()[0] for row in lines([*base, *both, *early])}
    assert shown["feddep", "all"] == shown["feddep", "cora"] == "+2.10"
    assert shown["oracle†", "all"] == "+1.10"
    alone = {row[1]: row[2].split()[0] for row in lines([*base, *both])}
    assert alone["all"] == "+4.10"


def test_all_are_the_same_data_sets_by_metric():
    def runs(method, dataset, *silo):
        return [run(method, s, 0.8 + s / 1000, own, dataset) for s, own in enumerate(silo)]

    names = ("cora", "pubmed")
    base = [run("fedavg", s, 0.8, 0.5, name) for s in range(3) for name in names]
    # Equal differences have no interval, so with them PubMed does not decide on the own silo.
    feddep = runs("feddep", "cora", 0.6, 0.601, 0.602) + runs("feddep", "pubmed", 0.7, 0.7, 0.7)
    oracle = [own for name in names for own in runs("oracle", name, 0.55, 0.551, 0.552)]
    silo = {(row[0], row[1]): row[3].split()[0] for row in lines([*base, *feddep, *oracle])}
    assert silo["feddep", "all"] == silo["feddep", "cora"] == "+10.10"
    assert silo["oracle†", "all"] == silo["oracle†", "cora"] == "+5.10"


def test_a_line_counts_the_pairs_that_it_uses():
    # Cora with 10 clients lacks seed 1; PubMed has one seed and so no part in all.
    more = [run(m, s, 0.7, clients=10) for m in METHODS for s in (0, 2)]
    more += [run("fedavg", 2, 0.8), run("feddep", 2, 0.83)]
    other = [run(m, 0, 0.9, dataset="pubmed") for m in METHODS]
    found = lines([*FEDAVG, *FEDDEP, *more, *other])
    # seeds 0 and 2: (1.9 + 0) / 2 and (3 + 0) / 2
    assert [(row[1], row[2].split()[0], row[-1]) for row in found] == [
        ("cora", "+1.22", "4 / –"),
        ("pubmed", "+0.00", "1 / –"),
        ("all", "+1.22", "4 / –"),
    ]


METHODS = ("fedavg", "feddep")


def test_presets_have_tables_of_their_own_and_the_first_says_how_to_read_it():
    tuned = [run(method, 0, 0.8, preset="tuned") for method in METHODS]
    found = tables([*FEDAVG, *FEDDEP, *tuned])
    assert [table.title for table in found] == [
        "Pooled differences, preset paper, quota split",
        "Pooled differences, preset tuned, quota split",
    ]
    assert [list(table.notes) for table in found] == [[NOTE], []]


@pytest.mark.parametrize("rows", [[], FEDAVG, [*FEDAVG, run("feddep", 9, 0.8)]], ids=len)
def test_without_pairs_there_is_no_table(rows):
    assert lines(rows) == []


def test_pooled_pairs_know_their_data_set_and_count():
    found = list(pooled_pairs([*FEDAVG, *FEDDEP]))
    assert [(pair.setting, pair.method, pair.pairs) for pair in found] == [(("cora",), "feddep", 2)]
