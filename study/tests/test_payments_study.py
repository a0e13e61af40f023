"""Banks' tables become shards, and every way is measured on them."""

import pytest

import feddep
from feddep.graph.graph import Part
from feddep_study import payments
from feddep_study.payments import TREES, WITH, banks, measure, missing


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    feddep.make_payments(place / "aml", accounts=600, banks=3, rate=0.1)
    return place


def test_banks_know_their_payments_to_each_other(made):
    shards = banks(made / "aml", "stratified_0", "aml", 0)
    assert shards.client_names == ("bank-0", "bank-1", "bank-2")
    assert shards.links == "known"
    between = shards.lost_edges()
    assert sum(len(graph.outside) for graph in shards) == 2 * len(between)


def test_the_split_is_the_column_that_was_asked_for(made):
    rows = (made / "aml/splits.csv").read_text().splitlines()
    place = rows[0].split(",").index("pattern_1")
    train = sorted(int(row.split(",")[0]) for row in rows[1:] if row.split(",")[place] == "train")
    graph = banks(made / "aml", "pattern_1", "aml", 1).graph
    assert sorted(graph.node_ids[graph.mask(Part.TRAIN)].tolist()) == train


def test_a_way_gives_its_own_row_and_those_of_the_trees_that_use_it(made, monkeypatch):
    monkeypatch.setattr(payments, "RUN", {**payments.RUN, "training.rounds": 2})
    wanted = [
        {"data": "aml", "split": "stratified", "seed": 0, "way": way}
        for way in ("fedavg", "labels, no noise")
    ]
    rows = [row for found in measure(wanted, made) for row in found]
    names = ["fedavg", TREES, "labels, no noise", WITH + "labels, no noise"]
    assert [row["way"] for row in rows] == names
    assert all(0 < row["test"] <= 1 and 0 < row["val"] <= 1 for row in rows)
    assert rows[3]["test"] != rows[1]["test"]  # trees read the further columns
    left = missing(rows, made)
    assert not any(cell in left for cell in wanted)
    assert {"data": "aml", "split": "pattern", "seed": 0, "way": "fedavg"} in left


def test_without_banks_of_one_s_own_the_generated_ones_are_left(tmp_path):
    assert {cell["data"] for cell in missing([], tmp_path)} == {"generated"}
    quick = missing([], tmp_path, quick=True)
    assert {cell["seed"] for cell in quick} == {0}
