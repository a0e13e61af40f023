"""Columns and classes are matched by name: order does not matter, anything else is refused."""

from dataclasses import replace

import numpy as np
import pytest

import feddep
from feddep.errors import DataError, InputError
from feddep.graph.arranging import arranged, canonical
from feddep.graph.folder import read_graph, write_graph
from feddep.graph.schema import Column, Schema
from feddep.scenario.build import prepare
from feddep.scenario.spec import RunSpec

ROUNDS = {"model.hidden": 4, "partition.kind": "random"}


@pytest.fixture
def graph():
    rng = np.random.default_rng(5)
    nodes = 60
    labels = rng.integers(0, 2, nodes)
    features = rng.normal(size=(nodes, 3)) + labels[:, None]
    return feddep.Graph.from_edges(
        rng.integers(0, nodes, (150, 2)),
        features,
        labels,
        classes=2,
        schema=Schema.of_numbers(["age", "balance", "turnover"], ["honest", "fraud"]),
        name="bank",
    )


def mixed(graph, columns=(2, 0, 1)):
    """The same graph with its columns and its classes in another order."""
    schema = graph.schema
    return replace(
        graph,
        features=np.ascontiguousarray(graph.features[:, columns]),
        labels=1 - graph.labels,
        schema=Schema(tuple(schema.columns[i] for i in columns), schema.classes[::-1]),
    )


def test_a_category_has_a_feature_for_each_of_its_values():
    kind = Column(name="kind", kind="category", categories=("firm", "person"), flagged=True)
    schema = Schema((Column(name="age"), kind))
    assert schema.features == ("age", "kind = firm", "kind = person", "kind is missing")


def test_the_digest_does_not_see_order_and_sees_everything_else():
    one = Schema((Column(name="a"), Column(name="b", kind="category", categories=("x", "y"))))
    other = Schema((Column(name="b", kind="category", categories=("y", "x")), Column(name="a")))
    assert one.digest() == other.digest()
    different = [
        Schema(one.columns[:1]),
        Schema(one.columns, ("yes", "no")),
        Schema((replace(one.columns[0], log=True), one.columns[1])),
        Schema((one.columns[0], replace(one.columns[1], categories=("x", "z")))),
    ]
    assert len({one.digest(), *(schema.digest() for schema in different)}) == 5


def test_classes_that_are_numbers_are_ordered_as_numbers():
    assert Schema((), ("10", "9", "1")).canonical.classes == ("1", "9", "10")


def test_what_differs_is_named():
    one = Schema.of_numbers(["age", "balance"], ["0", "1"])
    other = Schema((Column(name="age", kind="boolean"), Column(name="saldo")), ("0", "2"))
    told = " ".join(one.differences(other))
    assert "'balance' only in the first" in told
    assert "'saldo' only in the second" in told
    assert "'age' is a number and a boolean" in told
    assert "class '1' only in the first" in told


def test_names_that_repeat_are_refused():
    with pytest.raises(InputError, match="'age' repeats"):
        Schema.of_numbers(["age", "age"])


def test_a_graph_holds_what_its_schema_says(graph):
    with pytest.raises(InputError, match="names 2 feature columns"):
        replace(graph, schema=Schema.of_numbers(["age", "balance"]))
    with pytest.raises(InputError, match="names 3 classes"):
        replace(graph, schema=Schema(graph.schema.columns, ("a", "b", "c")))


def test_arranged_undoes_any_order(graph):
    back = arranged(mixed(graph), graph.schema)
    assert back.schema == graph.schema
    assert np.array_equal(back.features, graph.features)
    assert np.array_equal(back.labels, graph.labels)


def test_unknown_labels_stay_unknown(graph):
    unknown = replace(graph, labels=np.where(np.arange(60) < 9, -1, graph.labels))
    shuffled = replace(mixed(graph), labels=np.where(np.arange(60) < 9, -1, 1 - graph.labels))
    assert np.array_equal(arranged(shuffled, graph.schema).labels, unknown.labels)


def test_a_graph_in_order_is_not_copied(graph):
    ordered = canonical(graph)
    assert canonical(ordered) is ordered
    assert arranged(replace(graph, schema=None), graph.schema).schema is None


def test_a_folder_keeps_the_schema(graph, tmp_path):
    write_graph(graph, tmp_path / "own")
    assert read_graph(tmp_path / "own").schema == graph.schema
    write_graph(replace(graph, schema=None), tmp_path / "bare")
    assert read_graph(tmp_path / "bare").schema is None
    assert "columns" not in (tmp_path / "bare" / "manifest.json").read_text()


def test_reordered_columns_give_the_same_model_to_the_last_digit(graph, tmp_path):
    runs = [
        feddep.run("fedavg", feddep.partition(data, 2, kind="random"), rounds=2, settings=ROUNDS)
        for data in (graph, mixed(graph))
    ]
    first, second = (run.model for run in runs)
    assert first.schema == second.schema == graph.schema.canonical
    assert all(np.array_equal(first.weights[name], second.weights[name]) for name in first.weights)
    runs[0].save(tmp_path / "run")
    assert feddep.open_run(tmp_path / "run") == runs[0]


def test_a_model_reads_columns_by_name_and_answers_in_the_graphs_own_classes(graph):
    shards = feddep.partition(graph, 2, kind="random")
    result = feddep.run("fedavg", shards, rounds=2, settings=ROUNDS)
    own, other = result.model.predict(graph), result.model.predict(mixed(graph))
    assert np.array_equal(own, 1 - other)
    assert np.array_equal(result.predict(graph), result.predict(mixed(graph))[:, ::-1])
    renamed = replace(graph, schema=Schema.of_numbers(["age", "saldo", "turnover"]))
    with pytest.raises(InputError, match="'saldo'"):
        result.predict(renamed)


def test_a_run_has_columns_in_the_order_of_their_names(graph):
    shards = feddep.partition(mixed(graph), 2, kind="random")
    assert prepare(shards, RunSpec()).graph.schema == graph.schema.canonical


def test_a_schema_from_elsewhere_is_checked():
    schema = Schema((Column(name="a", log=True, mean=0.5),), ("x",))
    assert Schema.from_plain(schema.to_plain()) == schema
    for wrong in ({}, {"columns": [{"name": 7}]}, {"columns": [{"name": "a", "kind": "poem"}]}):
        with pytest.raises(InputError, match="schema"):
            Schema.from_plain(wrong)


def test_a_label_that_is_an_account_number_does_not_allocate(graph):
    with pytest.raises(InputError, match="4000000001 classes"):
        feddep.Graph.from_edges([], [[1.0]], [4_000_000_000])


def test_a_damaged_schema_of_a_model_is_refused(graph, tmp_path):
    from feddep.runs.weight_files import read_arrays, schema_in, write_model

    write_model(tmp_path / "m", [{"w": np.zeros(1, np.float32)}], graph.schema)
    _, about = read_arrays(tmp_path / "m")
    assert schema_in(tmp_path / "m", about) == graph.schema
    with pytest.raises(DataError, match="schema"):
        schema_in(tmp_path / "m", {"schema": "[]"})


class TestLabelsOfTables:
    def read(self, tmp_path, labels):
        rows = "".join(f"{i},{label},{i}\n" for i, label in enumerate(labels))
        (tmp_path / "nodes.csv").write_text("id,label,x\n" + rows)
        (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
        return feddep.read_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv")

    def test_numbers_are_ordered_as_numbers_even_where_one_is_missing(self, tmp_path):
        graph = self.read(tmp_path, ["1.5", "10", "9", "NA", "nan", ""])
        assert graph.schema.classes == ("1.5", "9", "10")
        assert graph.labels.tolist() == [0, 2, 1, -1, -1, -1]

    def test_small_whole_numbers_are_kept_so_that_a_silo_may_lack_a_class(self, tmp_path):
        graph = self.read(tmp_path, ["0", "3", "NA"])
        assert graph.labels.tolist() == [0, 3, -1]
        assert graph.classes == 4

    def test_a_huge_number_is_a_name(self, tmp_path):
        graph = self.read(tmp_path, ["4000000000", "7", "7"])
        assert graph.schema.classes == ("7", "4000000000")
        assert graph.labels.tolist() == [1, 0, 0]

    def test_a_column_without_a_name_is_no_feature(self, tmp_path):
        (tmp_path / "nodes.csv").write_text(",id,x\n0,a,1\n1,b,2\n")
        (tmp_path / "edges.csv").write_text("source,target\na,b\n")
        graph = feddep.read_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv")
        assert graph.schema.features == ("x",)
