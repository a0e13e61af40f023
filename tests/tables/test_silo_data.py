"""Silos from folders, graphs and data frames stand side by side and are never joined."""

import numpy as np
import pytest

import feddep
from feddep.errors import InputError
from feddep.graph.folder import write_graph
from feddep.graph.graph import Graph, Part
from feddep.tables.importing import import_folder
from feddep.tables.silo_data import open_silos
from tables.banks import write_numbered_bank

SETTINGS = {"training.rounds": 10, "model.hidden": 8}


def test_tables_are_encoded_by_the_joined_schema(banks):
    silos = open_silos(banks)
    assert silos.names == ("north", "south")
    assert silos.schema.features == ("age", "kind = club", "kind = firm", "kind = person")
    assert [graph.schema for graph in silos] == [silos.schema] * 2
    assert [encoder.schema for encoder in silos.encoders] == [silos.schema] * 2
    assert silos.whole is None
    assert silos.lost_share is None
    assert (silos.nodes, silos.clients) == (80, 2)


def test_equal_account_numbers_are_told_apart(banks):
    """Both banks have an account 7; a run holds all 80 and joins none of them."""
    result = feddep.run("fedavg", feddep.shards(banks), settings=SETTINGS, workers=1)
    assert result.record["data"]["nodes"] == 80
    assert result.record["measures"]["pooled"]["test"]["nodes"] == sum(
        len(graph.members(Part.TEST)) for graph in open_silos(banks)
    )


def test_a_run_on_silos_has_no_score_on_a_whole_graph(banks, tmp_path):
    result = feddep.run(
        "fedavg", feddep.shards(banks), settings=SETTINGS, workers=1, out=tmp_path / "run"
    )
    assert result.record["scores"]["global"] == {"test": None, "val": None, "test_last": None}
    assert result.record["scores"]["silo"]["test"] > 0.9
    opened = feddep.open_run(tmp_path / "run")
    assert opened.record == result.record
    assert opened.clients == result.clients
    assert opened.spec.silos == tuple(map(str, banks))


def test_processes_do_not_change_the_result(banks):
    one, two = (
        feddep.run(method, feddep.shards(banks), settings=SETTINGS, workers=workers)
        for method, workers in (("local", 1), ("local", 2))
    )
    for mine, theirs in zip(one.models, two.models, strict=True):
        assert all(np.array_equal(mine.weights[k], theirs.weights[k]) for k in mine.weights)


def test_reordered_columns_give_the_same_model_to_the_last_digit(banks, tmp_path):
    turned = write_numbered_bank(
        tmp_path / "turned" / "south", 1, kinds=("person", "club"), columns="label,age,id,kind"
    )
    one, other = (
        feddep.run("fedavg", feddep.shards([banks[0], south]), settings=SETTINGS, workers=1)
        for south in (banks[1], turned)
    )
    weights, theirs = one.model.weights, other.model.weights
    assert all(np.array_equal(weights[name], theirs[name]) for name in weights)


@pytest.mark.parametrize(
    ("columns", "told"),
    [("id,kind,years,label", "north has no column 'years'"), ("id,kind,label", "'age'")],
)
def test_other_columns_are_refused_by_name(banks, tmp_path, columns, told):
    other = tmp_path / "west"
    write_numbered_bank(other, 2)
    text = (other / "nodes.csv").read_text().splitlines()
    wanted = columns.replace("years", "age").split(",")
    places = [["id", "kind", "age", "label"].index(name) for name in wanted]
    rows = [[line.split(",")[place] for place in places] for line in text[1:]]
    (other / "nodes.csv").write_text("\n".join([columns, *map(",".join, rows)]) + "\n")
    with pytest.raises(InputError, match=told):
        open_silos([banks[0], other])


def test_class_names_that_differ_are_refused(banks, tmp_path):
    import_folder(banks[0], tmp_path / "one")
    text = (banks[1] / "nodes.csv").read_text().replace("club", "firm")
    (banks[1] / "nodes.csv").write_text(text.replace(",a\n", ",c\n"))
    import_folder(banks[1], tmp_path / "two")
    with pytest.raises(InputError, match=r"columns of two are not those of one: class 'c' only"):
        open_silos([tmp_path / "one", tmp_path / "two"])


def test_a_bank_without_labels_takes_part(banks):
    lines = (banks[1] / "nodes.csv").read_text().splitlines()
    bare = "\n".join(line.rpartition(",")[0] for line in lines) + "\n"
    (banks[1] / "nodes.csv").write_text(bare)
    silos = open_silos(banks)
    assert [graph.classes for graph in silos] == [2, 2]
    result = feddep.run("fedavg", silos, settings=SETTINGS, workers=1)
    assert result.record["scores"]["silo"]["test"] > 0.9


def test_tables_join_a_silo_that_brings_its_graph(banks, tmp_path):
    silos = open_silos(banks)
    write_graph(silos[0], tmp_path / "graph")
    mixed = open_silos([tmp_path / "graph", banks[1]], names=["north", "south"])
    assert np.array_equal(mixed[1].features, silos[1].features)
    assert mixed.encoders[0] is None


def test_data_frames_are_silos(banks):
    def frames(folder):
        tables = []
        for name in ("nodes", "edges"):
            header, *rows = (line.split(",") for line in (folder / f"{name}.csv").open())
            columns = zip(*rows, strict=True)
            tables.append(
                {
                    key.strip(): [int(c) if c.strip().isdigit() else c.strip() for c in column]
                    for key, column in zip(header, columns, strict=True)
                }
            )
        return tuple(tables)

    framed = feddep.shards([frames(bank) for bank in banks], names=["north", "south"])
    for mine, theirs in zip(framed, open_silos(banks), strict=True):
        assert np.array_equal(mine.features, theirs.features)
        assert np.array_equal(mine.indices, theirs.indices)


def test_what_needs_the_whole_graph_is_refused(banks):
    for method in ("global", "oracle"):
        with pytest.raises(InputError, match="silos are never joined"):
            feddep.run(method, feddep.shards(banks), settings=SETTINGS, workers=1)


def test_silos_draw_their_own_splits():
    graph = Graph.from_edges([[0, 1]], np.eye(10), [0, 1] * 5)
    silos = open_silos([graph, graph], names=["a", "b"])
    assert all(own.mask(Part.TRAIN).sum() == 6 for own in silos)


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        ([], "at least one silo"),
        (["nowhere"], "holds neither a graph"),
        ([({"id": [1]},)], "a pair of data frames"),
    ],
)
def test_what_is_no_silo_is_refused(sources, told):
    with pytest.raises(InputError, match=told):
        open_silos(sources)


def test_a_result_in_memory_predicts_for_tables(banks):
    result = feddep.run("fedavg", feddep.shards(banks), settings=SETTINGS, workers=1)
    found = result.predict_table(banks[1])
    assert found.silo == 1
    expected = result.predict(open_silos(banks)[1], client=1)
    assert np.array_equal(found.probabilities, expected)
