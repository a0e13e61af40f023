"""The paper's formulas for what a generator costs, with a run's numbers."""

import pytest

import feddep
from feddep_study.cost_formulas import costs_page, price

# 60 features and 3 classes, see small_graph.
M, D_X, H, D_Z, P, E_G, BATCH = 2, 60, 4, 3, 5, 2, 10
SETTINGS = {
    "model.hidden": H,
    "embedding.width": D_Z,
    "embedding.epochs": 1,
    "embedding.clusters": 1,  # so no client can release fewer
    "generator.epochs": E_G,
    "generator.batch_size": BATCH,
}


@pytest.fixture(scope="module")
def records(small_graph):
    """A tiny run of each method that the paper prices, and of two that it does not."""
    shards = feddep.partition(small_graph, clients=M, seed=0)
    names = ("fedavg", "fedsage", "feddep-wo-proto", "feddep", "fedgnn")
    return {
        name: feddep.run(name, shards, rounds=1, settings=SETTINGS, workers=1).record
        for name in names
    }


def priced(record):
    return {entry.what: entry for entry in price(record)}


def test_feddep_s_prototypes_are_what_the_paper_says_for_each_client(records):
    found = priced(records["feddep"])
    assert found["bytes an epoch"].value == found["bytes an epoch"].measured == 0
    assert found["bytes an epoch"].ratio is None
    assert found["bytes in all"].formula == "M·C·d_z × M"
    assert found["bytes in all"].numbers == "2·1·3 × 2"
    assert found["bytes in all"].ratio == 1
    assert found["operations"].value == M * 1 * D_Z * 60 * E_G, "60 of 120 nodes remain"


def test_without_prototypes_rows_go_out_and_gradients_come_back(records):
    found, rows = priced(records["feddep-wo-proto"]), 60 * P * D_Z
    assert found["bytes an epoch"].numbers == "2·5·3 × 60"
    assert found["bytes an epoch"].value == 4 * M * rows
    assert found["bytes an epoch"].ratio == pytest.approx(2, rel=0.01)
    assert found["bytes in all"].value == E_G * found["bytes an epoch"].value
    assert found["bytes in all"].measured == E_G * found["bytes an epoch"].measured


def test_fedsage_s_formula_multiplies_the_generator_by_what_it_starts_from(records):
    found, theta = priced(records["fedsage"]), H * H + H + (H + 1) * P * D_X
    assert found["bytes an epoch"].value == 4 * M * theta * H * M * BATCH
    assert found["operations"].value == 120 * P * D_X * M * BATCH * E_G


@pytest.mark.parametrize("method", ["fedavg", "fedgnn"])
def test_other_methods_have_no_formulas(records, method):
    assert price(records[method]) == ()


def test_silos_that_do_not_tell_their_sizes_have_no_formulas(records):
    known = {name: records["feddep"]["data"][name] for name in ("nodes", "features", "classes")}
    assert price(records["feddep"] | {"data": known}) == ()


def test_the_page_has_both_tables_and_says_how_to_read_them(records):
    page = costs_page(list(records.values()))
    lines = page.splitlines()
    assert lines[0] == "# Costs: synthetic, 2 clients, 1 rounds, seed 0"
    assert "| feddep | bytes in all | M·C·d_z × M | 2·1·3 × 2 | 48 B | 48 B | 1.00 |" in lines
    assert "- Symbols: M clients" in page
    tables = [line for line in lines if line.startswith("| ")]
    assert {line.count("|") for line in tables} == {8, 12}, "no symbol is taken for a border"


def test_a_page_of_fedavg_alone_has_no_formulas(records):
    assert "## The paper's formulas" not in costs_page([records["fedavg"]])
