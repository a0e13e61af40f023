"""``paper.toml`` agrees with what the paper's text says about its own tables."""

import tomllib
from statistics import fmean

import pytest

from feddep_study.source import STUDY

PRINTED = tomllib.loads((STUDY / "paper.toml").read_text())
DATASETS = ("cora", "citeseer", "pubmed", "msacademic")
METHODS = {
    *("global", "local", "fedavg", "fedgnn", "fedgraph", "fedgsl", "fedsage"),
    *("feddep-wo-dgen", "feddep-wo-proto", "feddep-wo-nfdp", "feddep"),
}
CLIENTS = ("3", "5", "10")
PLACES = [(dataset, clients) for dataset in DATASETS for clients in CLIENTS]


def gains(method, over):
    """By how many points a method is above another, for each data set and number of clients."""
    table = PRINTED["accuracy"]
    return [100 * (table[d][method][m][0] - table[d][over][m][0]) for d, m in PLACES]


def test_every_entry_of_both_tables_is_there():
    for name, rows in (("accuracy", METHODS), ("clusters", {"3", "5", "10", "15", "20"})):
        assert tuple(PRINTED[name]) == DATASETS
        for table in PRINTED[name].values():
            assert table.keys() == rows
            assert all(tuple(row) == CLIENTS for row in table.values())
            entries = [entry for row in table.values() for entry in row.values()]
            assert all(0.4 < mean < 1 and 0 < deviation < 0.12 for mean, deviation in entries)


@pytest.mark.parametrize(
    ("method", "over", "points"),
    [
        ("feddep", "local", 27.13),
        ("feddep", "fedsage", 1.27),
        ("feddep", "feddep-wo-dgen", 2.49),
        ("feddep-wo-proto", "feddep", 0.52),
        ("feddep", "fedgnn", 0.76),
        ("feddep", "feddep-wo-nfdp", 0.61),
        ("feddep-wo-proto", "fedgnn", 1.28),
        ("feddep-wo-proto", "feddep-wo-nfdp", 1.13),
    ],
)
def test_the_mean_gains_are_those_of_section_4_2(method, over, points):
    assert fmean(gains(method, over)) == pytest.approx(points, abs=0.0051)


@pytest.mark.parametrize(("over", "points"), [("fedsage", 3.84), ("global", 2.99)])
def test_the_largest_gains_are_those_of_section_4_2(over, points):
    assert max(gains("feddep", over)) == pytest.approx(points)


def test_feddep_has_the_best_number_of_clusters_but_where_the_paper_contradicts_itself():
    differing = [
        (dataset, clients)
        for dataset, clients in PLACES
        if PRINTED["accuracy"][dataset]["feddep"][clients]
        != max(row[clients] for row in PRINTED["clusters"][dataset].values())
    ]
    assert differing == [("citeseer", "5"), ("pubmed", "3")]


@pytest.mark.parametrize(("dataset", "clients"), PLACES)
def test_the_data_table_adds_up(dataset, clients):
    table, count = PRINTED["data"][dataset], int(clients)
    inner, lost = table["subgraph_edges"][clients], table["lost_edges"][clients]
    assert inner * count + lost == pytest.approx(table["edges"], abs=count / 2)
    assert table["subgraph_nodes"][clients] * count == pytest.approx(table["nodes"], abs=count / 2)
    assert table["lost_share"][clients] == round(lost / table["edges"], 4)
