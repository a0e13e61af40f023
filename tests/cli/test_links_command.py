"""`feddep links table`: private counts and means of each own node's counterparties."""

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import feddep as library
from agreement import assert_agree
from calls import Feddep
from feddep.graph.folder import write_graph
from feddep.runs.clients import ClientPart
from feddep.runs.link_table import link_table

SETTINGS = {"training.rounds": 2, "model.hidden": 8, "seed": 0}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, small_shards):
    """Runs of three clients: with noise, without, with counterparties as nodes, without codes."""
    place = tmp_path_factory.mktemp("links")
    plain = {**SETTINGS, "links.noise": "none", "links.code": "confirmed"}
    told = {
        "noised": ("feddep-linked", SETTINGS),
        "plain": ("feddep-linked", plain),
        "nodes": ("linked-nodes", SETTINGS | {"links.code": "both"}),
        "fedavg": ("fedavg", SETTINGS),
    }
    for name, (method, settings) in told.items():
        library.run(method, small_shards, settings=settings, workers=1, out=place / name)
    write_graph(small_shards[1], place / "graph-1")
    return place


def table_of(runs, name: str, **options):
    return link_table(library.open_run(runs / name), runs / "graph-1", "1", **options)


def test_without_noise_counts_are_those_of_the_confirmed_counterparties(runs, small_shards):
    found = table_of(runs, "plain").columns
    graph, there = small_shards[1], small_shards.graph
    place = {one: number for number, one in enumerate(there.node_ids.tolist())}
    wanted = np.zeros((graph.nodes, there.classes + 1))
    for node, other in zip(graph.outside.nodes, graph.outside.ids.tolist(), strict=True):
        known = there.split[place[other]] == 1
        wanted[node, there.labels[place[other]] if known else there.classes] += 1
    names = [*(f"count_confirmed_{c}" for c in range(there.classes)), "count_confirmed_unknown"]
    counts = np.stack([found[name] for name in names], axis=1)
    assert_agree(np.log1p(counts), np.log1p(wanted), terms=8, precision=np.float32)
    assert found["answered"].tolist() == wanted.sum(axis=1).tolist()
    assert found["id"].tolist() == graph.node_ids.tolist()


def test_a_file_says_what_its_columns_cost(runs, feddep: Feddep):
    out = runs / "table.csv"
    told = feddep("links", "table", runs / "noised", "--out", out, "--data", runs / "graph-1",
                  "--silo", "1")  # fmt: skip
    assert "nodes" in told.out
    lines = out.read_text().splitlines()
    assert lines[0].startswith("# What linked silos were told: the class of nodes")
    assert "epsilon = 4 for each node" in lines[1]
    assert "whoever knows the seed can remove the noise" in lines[1]
    skip = pyarrow.csv.ReadOptions(skip_rows=2)
    read = pyarrow.csv.read_csv(out, read_options=skip)
    assert read.column_names[:3] == ["id", "answered", "count_labels_0"]
    feddep("links", "table", runs / "noised", "--out", runs / "table.parquet", "--silo", "1",
           "--data", runs / "graph-1")  # fmt: skip
    parquet = pyarrow.parquet.read_table(runs / "table.parquet")
    assert b"epsilon = 4" in parquet.schema.metadata[b"feddep"]
    assert parquet.column_names == read.column_names
    assert parquet["mean_labels_0"].to_pylist() == read["mean_labels_0"].to_pylist()


def test_no_noise_has_no_price(runs):
    assert "none is given" in table_of(runs, "plain").price


def test_counterparties_as_nodes_are_heard_as_codes_too(runs, small_shards):
    found = table_of(runs, "nodes").columns
    classes = small_shards.graph.classes
    assert len(found) == 2 + 2 * (classes + 1 + 4 * classes)
    assert "count_score_0_1of4" in found and "mean_confirmed_unknown" in found
    shares = sum(found[f"mean_confirmed_{c}"] for c in [*range(classes), "unknown"])
    there = shares[found["answered"] > 0]
    assert_agree(there, np.ones_like(there), terms=2 * classes + 8, precision=np.float32)


def test_what_cannot_be_made_a_table_is_refused(runs, feddep: Feddep, small_shards):
    def refused(*arguments) -> str:
        found = feddep("links", "table", *arguments)
        assert found.code == 2
        assert not list(runs.glob("never*"))
        return found.err

    never = ("--out", runs / "never.csv")
    assert "nobody heard codes" in refused(runs / "fedavg", *never)
    assert "ends in .csv or .parquet" in refused(runs / "noised", "--out", runs / "never.txt")
    assert "silos are 0, 1, 2" in refused(runs / "noised", *never, "--silo", "7")
    data = ("--data", runs / "graph-1")
    assert "say which of 0, 1, 2" in refused(runs / "noised", *never, *data)
    assert "not the data" in refused(runs / "noised", *never, *data, "--silo", "0")


def test_a_damaged_file_is_named(runs, tmp_path, small_shards):
    result = library.open_run(runs / "noised")
    part = result.clients[1]
    part.write(tmp_path)
    learning = result.model.spec
    assert ClientPart.read(tmp_path, learning) == part
    ClientPart(part.graph, part.mending, heard=part.heard[:, :-1].copy()).write(tmp_path)
    with pytest.raises(library.FeddepError, match=r"links\.safetensors does not fit"):
        ClientPart.read(tmp_path, learning)
