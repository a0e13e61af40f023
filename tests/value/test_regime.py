"""Which regime silos are in, under the run's split and under those by marks."""

import numpy as np

from feddep.graph.graph import Graph
from feddep.graph.marks import Marks
from feddep.graph.shard import Shards
from feddep.value.regime import regime_of


def ring(split, marks=None):
    """Six launderers in a circle and two others; silos 0 and 1 hold every second of them."""
    edges = [(i, (i + 1) % 6) for i in range(6)] + [(6, 7)]
    graph = Graph.from_edges(
        edges, np.ones((8, 1)), [1] * 6 + [0] * 2, classes=2, split=split, marks=marks
    )
    shards = Shards(graph, np.array([0, 1] * 4), "given", 0)
    return list(shards), graph


def test_a_counterparty_in_another_silo_counts_where_the_whole_graph_is_known():
    graphs, joined = ring([1, 3, 2, 3, 1, 3, 1, 1])
    found = regime_of(graphs, 1, joined, 0)
    assert found["test_nodes_of_the_class"] == [0, 3]
    assert found["with_confirmed_neighbour_in_the_silo"] == [0, 0]
    assert found["with_confirmed_neighbour_anywhere"] == 3  # 1 beside 0, 3 beside 4, 5 beside both
    assert found["with_confirmed_neighbour_anywhere_by_silo"] == [0, 3]
    assert [counted["split"] for counted in found["splits"]] == ["of the run"]
    alone = regime_of(graphs[1:], 1, None, 0)
    assert "with_confirmed_neighbour_anywhere" not in alone


def test_the_split_by_time_is_counted_beside_the_run_s():
    marks = Marks.of(8, time=[0.0, 1, 2, 3, 8, 9, 4, 5])
    graphs, joined = ring([1, 3, 2, 3, 1, 3, 1, 1], marks)
    ours, later = regime_of(graphs, 1, joined, 0)["splits"]
    assert ours["with_confirmed_neighbour_anywhere"] == 3
    assert later["split"] == "by time"
    assert later["test_nodes_of_the_class"] == [0, 1]  # node 5 is the latest
    assert later["with_confirmed_neighbour_anywhere_by_silo"] == [0, 1]  # it is beside node 0


def test_a_split_that_nobody_could_train_on_is_left_out():
    marks = Marks.of(8, time=[1.0, 1, 1, 1, 1, 1, 9, 9])  # class 0 would only be tested
    graphs, joined = ring([1, 3, 2, 3, 1, 3, 1, 1], marks)
    assert len(regime_of(graphs, 1, joined, 0)["splits"]) == 1
