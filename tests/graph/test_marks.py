"""Cases and times of nodes: kept with the graph, and what splits follow from them."""

import numpy as np
import pytest

from feddep.errors import DataError, InputError
from feddep.graph.folder import read_graph, write_graph
from feddep.graph.graph import Graph, Part
from feddep.graph.marks import Marks
from feddep.graph.shard import Shards, read_shards, write_shards
from feddep.graph.splits import SplitSpec, draw
from feddep.scenario.build import prepare, split_and_partition
from feddep.scenario.spec import RunSpec
from feddep.seeding import Seeds

NAN = float("nan")


def marked(case=None, time=None, labels=None, ids=None):
    count = len(case or time)
    return Graph.from_edges(
        [(0, 1)],
        np.ones((count, 1)),
        [0] * count if labels is None else labels,
        classes=2,
        node_ids=ids,
        marks=Marks.of(count, case, time),
    )


def same(one, other):
    return np.array_equal(one.case, other.case) and np.array_equal(
        one.time, other.time, equal_nan=True
    )


def test_marks_go_with_their_nodes():
    graph = marked(["a", "", "b"], [1.0, NAN, 3.0])
    assert same(graph.subgraph([2, 0]).marks, Marks.of(2, ["b", "a"], [3.0, 1.0]))
    assert graph.marks.kinds == ["case", "time"]
    assert marked(["", ""], [NAN, 1]).marks.kinds == ["time"]


def test_a_folder_keeps_them_to_the_last_digit(tmp_path):
    graph = marked(['with, a comma and "', "", "ä"], [0.1, NAN, 1e300])
    write_graph(graph, tmp_path / "graph")
    assert same(read_graph(tmp_path / "graph").marks, graph.marks)
    (tmp_path / "graph/marks.csv").write_text("case,time\n,\n")
    with pytest.raises(DataError, match=r"marks\.csv"):
        read_graph(tmp_path / "graph")


def test_shards_keep_them_and_a_graph_without_has_no_file(tmp_path):
    graph = marked(["a", "b", "", "c"], labels=[0, 1, 0, 1])
    shards = Shards(graph, np.array([1, 0, 0, 1]), "given", 0)
    write_shards(shards, tmp_path / "shards")
    assert same(read_shards(tmp_path / "shards").graph.marks, graph.marks)
    write_graph(shards[0].with_split([1, 1]), tmp_path / "one")
    assert (tmp_path / "one/marks.csv").read_text() == "case,time\nb,nan\n,nan\n"


@pytest.mark.parametrize(
    ("case", "time", "told"),
    [(["a"], [1.0, 2.0], "for each node"), (["a"], [float("inf")], "infinite")],
)
def test_marks_that_do_not_fit_are_refused(case, time, told):
    with pytest.raises(InputError, match=told):
        Marks.of(1, case, time)
    with pytest.raises(InputError, match="marks of 2 nodes"):
        Graph.from_edges([], np.ones((2, 1)), [0, 0], marks=Marks.of(1))


def test_a_case_is_in_one_part_and_in_the_same_at_every_silo():
    cases = [f"ring-{number // 4}" for number in range(200)]
    labels = [number % 2 for number in range(200)]
    graph = marked([*cases, *[""] * 50], labels=[*labels, *[0] * 50])
    split = draw(graph, SplitSpec(by="case"), Seeds(3))
    parts = {case: set(split[np.array(graph.marks.case) == case]) for case in set(cases)}
    assert all(len(found) == 1 for found in parts.values())
    assert {part for found in parts.values() for part in found} == {1, 2, 3}
    assert set(split[200:]) == {1, 2, 3}  # those of no case are divided at random
    other = marked(cases[40:160], labels=labels[40:160])
    np.testing.assert_array_equal(draw(other, SplitSpec(by="case"), Seeds(3)), split[40:160])
    assert (draw(graph, SplitSpec(by="case"), Seeds(4)) != split).any()


def test_the_latest_are_tested_and_equal_times_stay_together():
    times = [5.0, 1.0, 2.0, 2.0, 3.0, 4.0, NAN, 6.0, 7.0, 8.0, 9.0]
    graph = marked(time=times)
    split = draw(graph, SplitSpec(by="time"), Seeds(0))
    train, val, test = ({times[i] for i in np.flatnonzero(split == part)} for part in (1, 2, 3))
    assert (train, val, test) == ({1, 2, 3, 4, 5}, {6, 7}, {8, 9})
    assert split[6] == Part.NONE


def test_unlabelled_nodes_are_in_no_part():
    graph = marked(["a", "a", "b"], [1, 2, 3], labels=[0, -1, 0])
    for by in ("case", "time"):
        assert draw(graph, SplitSpec(by=by), Seeds(1))[1] == Part.NONE


def test_data_without_the_mark_are_refused_by_name(small_shards):
    with pytest.raises(InputError, match=r'case = "…" in tables\.toml'):
        draw(marked(time=[1.0, 2.0]), SplitSpec(by="case"), Seeds(0))
    with pytest.raises(InputError, match="does not say what time"):
        prepare(small_shards, RunSpec().with_settings({"split.by": "time"}))


def test_a_split_by_marks_takes_the_place_of_one_that_the_data_bring():
    graph = marked(time=[float(i) for i in range(10)], labels=[0, 1] * 5)
    graph = graph.with_split([3] * 4 + [1] * 6)
    spec = RunSpec().with_settings({"split.by": "time", "partition.clients": 2})
    shards = split_and_partition(graph, spec.partition, spec.split, seed=0)
    assert shards.split == "by time"
    assert shards.graph.split.tolist() == [1] * 6 + [2] * 2 + [3] * 2
    own = Shards(graph, np.array([0, 1] * 5), "given", 0)
    assert prepare(own, spec).graph.split.tolist() == [1] * 6 + [2] * 2 + [3] * 2
