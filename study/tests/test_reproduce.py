"""The paper's parts as declared sweeps, their quick versions, and the data table."""

import json

import pytest

from feddep.errors import InputError
from feddep.sweeps.sweep import Sweep
from feddep_study import data_table
from feddep_study.reproduce import PARTS, seconds_left, sweeps_of
from feddep_study.source import STUDY

METHODS_OF_TABLE_1 = 13


@pytest.fixture(scope="module")
def declared():
    return sweeps_of(list(PARTS), STUDY, quick=False)


def test_every_part_of_the_paper_is_declared(declared):
    sweeps = ["table1", "quota", "table2", "hops", "privacy", "curves", "costs", "pays"]
    assert list(PARTS) == ["data", "impairment", "payments", *sweeps]
    assert list(declared) == [*sweeps, "longer"]


def test_table_1_has_every_cell_of_the_paper(declared):
    cells = declared["table1"].cells
    found = {
        (c["dataset"], c["partition.clients"], c["method"]) for c in cells if c["preset"] == "paper"
    }
    assert len(found) == 4 * 3 * METHODS_OF_TABLE_1
    seeds = {(c["dataset"], c["seed"]) for c in cells}
    assert {seed for name, seed in seeds if name == "cora"} == {0, 1, 2, 3, 4}
    assert {seed for name, seed in seeds if name == "pubmed"} == {0, 1, 2}


def test_the_quick_version_is_a_small_one(declared):
    quick = sweeps_of(list(PARTS), STUDY, quick=True)
    for name, sweep in quick.items():
        assert 0 < len(sweep.cells) <= 80, name
        assert sweep.results.parent.name == "quick"
        assert {cell["seed"] for cell in sweep.cells} == {0}
    assert quick["table1"].cells[0]["training.rounds"] == 10


def write(folder, name, text):
    (folder / f"{name}.toml").write_text(text)
    return Sweep.read(folder / f"{name}.toml")


def test_several_grids_may_overlap(tmp_path):
    sweep = write(
        tmp_path,
        "two",
        '[[grid]]\nmethod = ["fedavg", "local"]\nseed = [0]\n'
        '[[grid]]\nmethod = ["fedavg"]\nseed = [0, 1]\n',
    )
    found = [(cell["method"], cell["seed"]) for cell in sweep.cells]
    assert found == [("fedavg", 0), ("local", 0), ("fedavg", 1)]


def row(settings, seconds=10.0):
    times = {"total": seconds, "loading": 0, "setup": 0, "measuring": 0}
    return json.dumps({"settings": settings, "record": {"seconds": times}}) + "\n"


def test_a_run_of_another_sweep_serves_too(tmp_path):
    one = write(tmp_path, "one", '[grid]\nmethod = ["fedavg"]\nseed = [0]\n')
    other = write(tmp_path, "other", '[grid]\nmethod = ["fedavg"]\nseed = [0, 1]\n')
    one.results.parent.mkdir()
    one.results.write_text(row({"method": "fedavg", "seed": 0}))
    assert [cell["seed"] for cell in other.missing()] == [1]


def test_the_time_left_is_guessed_from_runs_like_the_missing_ones(tmp_path):
    sweep = write(tmp_path, "s", '[grid]\nmethod = ["fedavg", "feddep", "local"]\nseed = [0, 1]\n')
    assert seconds_left(sweep, 2) is None
    sweep.results.parent.mkdir()
    sweep.results.write_text(
        row({"method": "fedavg", "seed": 0}, 10.0) + row({"method": "feddep", "seed": 0}, 30.0)
    )
    # Missing: fedavg 10, feddep 30, and twice local, of which nothing is known: the mean, 20.
    assert seconds_left(sweep, 2) == pytest.approx((10 + 30 + 20 + 20) / 2)


def test_the_data_table_stands_beside_the_paper_s():
    rows = [
        {
            "dataset": "cora",
            "clients": 3,
            "seed": seed,
            "subgraph_nodes": 902.7,
            "subgraph_edges": 1600.0,
            "lost_edges": lost,
            "lost_share": lost / 5278,
        }
        for seed, lost in enumerate((446, 497))
    ]
    printed = {
        "cora": {
            "nodes": 2708,
            "subgraph_nodes": {"3": 903},
            "subgraph_edges": {"3": 1594},
            "lost_edges": {"3": 496},
            "lost_share": {"3": 0.094},
        }
    }
    assert data_table.beside_paper(rows, printed) == [
        ("cora", "3", "903 / 903", "1600 / 1594", "472 / 496", "0.0893 / 0.0940", "-5%")
    ]


def test_the_data_table_is_stored_as_json(tmp_path):
    data_table.store([{"a": 1}, {"a": 2}], tmp_path / "x" / "data.json")
    assert json.loads((tmp_path / "x" / "data.json").read_text()) == [{"a": 1}, {"a": 2}]


def test_an_unknown_method_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(InputError, match="unknown method 'fedmagic'"):
        write(tmp_path, "s", '[grid]\nmethod = ["fedavg", "fedmagic"]\nseed = [0]\n')
