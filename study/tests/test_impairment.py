"""What can be learnt from an impaired graph, on graphs where the answer is known."""

import numpy as np
import pytest

from feddep.graph.graph import Graph
from feddep.graph.partition import PartitionSpec
from feddep_study import impairment
from feddep_study.impairment import Task, columns, correlation, impairment_table

STAR = Graph.from_edges([[0, 1], [0, 2], [0, 3]], np.eye(4, dtype=np.float32), [0, 0, 0, 0])


def test_columns_of_a_star():
    found = columns(STAR, np.array([[1.0], [2.0], [4.0], [6.0]]))
    assert found.tolist() == [
        [3, 1, 3, 1, 4],
        [1, 3, 3, 2, 1],
        [1, 3, 3, 4, 1],
        [1, 3, 3, 6, 1],
    ]


def test_a_node_without_neighbours_shows_zeros():
    alone = Graph.from_edges(np.empty((0, 2), int), np.eye(2, dtype=np.float32), [0, 0])
    assert columns(alone, np.ones((2, 1)))[0].tolist() == [0, 0, 0, 1, 0]


def test_trees_learn_what_the_degree_tells_and_nothing_without_it():
    rng = np.random.default_rng(0)
    degrees, noise = rng.integers(1, 6, 400), rng.random((400, 3))
    task = Task(np.column_stack([degrees, noise[:, :2], noise]), degrees.astype(float))
    assert correlation(task.learnt(0).predict(task.shown), task.lacking) > 0.95
    fresh = Task(np.column_stack([degrees, rng.random((400, 5))]), degrees.astype(float))
    blind = task.without_degrees().learnt(0).predict(fresh.without_degrees().shown)
    assert abs(correlation(blind, fresh.lacking)) < 0.2


def test_no_correlation_with_a_constant():
    assert correlation(np.ones(3), np.arange(3.0)) is None
    assert correlation(np.arange(3.0), np.array([0.0, 2.0, 4.0])) == 1


def test_rows_of_the_embedded_data(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(impairment, "PARTITIONS", [PartitionSpec(kind="random", clients=10)])
    monkeypatch.setattr(impairment, "TOPICS", 2)
    (row,) = impairment.measure(["synthetic"], [0])
    assert 0.85 < row["lost_share"] < 0.95
    assert row["degree"] > 0.4, "a random partition takes its share of every node's edges"
    assert list(impairment.measure(["synthetic"], [0])) == [row]


def test_the_table_means_over_seeds_and_leaves_out_what_is_unknown():
    keys = dict.fromkeys(("degree", "hidden", "lost", "lost_without_degrees"), 0.5)
    where = {"dataset": "cora", "partition": "louvain", "clients": 3, "lost_share": 0.08}
    rows = [where | keys | {"seed": seed, "told": told} for seed, told in enumerate((0.2, 0.4))]
    table = impairment_table([*rows, where | keys | {"seed": 2, "told": None}])
    assert table.rows == [["cora", "louvain", "3", "8%", "0.50", "0.50", "0.50", "0.50", "0.30"]]
    assert "3 seeds" in table.notes[0]
