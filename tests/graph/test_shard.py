"""Shards are the clients' graphs, and a collection of them on disk comes back as it was."""

import json

import numpy as np
import pytest
from small_graphs import DENSE, assert_same, halves, kite, rewrite

from feddep.errors import DataError, InputError
from feddep.graph.folder import read_graph, write_graph
from feddep.graph.graph import Graph
from feddep.graph.partition import statistics
from feddep.graph.shard import Shards, read_shards, shard_settings, write_shards
from feddep.graph.synthetic import SyntheticSpec, generate
from feddep.seeding import Seeds


def test_shards_are_the_clients_graphs():
    shards = halves()
    assert shards.clients == len(shards) == 2
    assert shards[0].node_ids.tolist() == [10, 30, 2**40]
    assert shards[0].edge_list().tolist() == [[0, 1]]
    assert shards[-1].node_ids.tolist() == shards.shard(1).node_ids.tolist() == [-7, 20]
    assert [shard.name for shard in shards] == ["kite/0", "kite/1"]
    assert shards.lost_edges().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert shards.lost_share == 3 / shards.graph.edges
    assert "clients=2" in repr(shards)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_the_lost_share_is_counted_in_slices(monkeypatch, small_shards, size):
    monkeypatch.setattr("feddep.graph.shard._SLICE", size)
    for shards in (small_shards, halves()):
        assert shards.lost_share == statistics(shards.graph, shards.owner).lost_share


def test_without_edges_none_is_lost():
    graph = Graph.from_edges(np.empty((0, 2), np.int64), np.eye(2), [0, 1])
    assert Shards(graph, np.array([0, 1]), "random", 0).lost_share == 0.0


def test_shards_have_an_end():
    with pytest.raises(IndexError):
        halves()[2]
    with pytest.raises(InputError, match=r"clients are 0 to 1 \(got 2\)"):
        halves().shard(2)


def test_owner_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        halves().owner[0] = 1


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        ([0, 1], r"for each of 5 nodes \(got int64 \(2,\)\)"),
        ([0.0, 1.0, 0.0, 0.0, 0.0], "a whole number"),
        ([0, -1, 0, 0, 0], r"numbered from 0 \(got -1\)"),
        ([0, 2, 0, 2, 2], "client 1 has none"),
    ],
)
def test_owners_are_checked(owner, message):
    with pytest.raises(InputError, match=message):
        Shards(kite(), np.array(owner), kind="given", seed=0)


def synthetic_shards() -> Shards:
    spec = SyntheticSpec(nodes=400, classes=4, feature_count=120)
    graph = generate(spec, Seeds(5))
    stream = np.random.default_rng(0)
    graph = graph.with_split(stream.integers(0, 4, graph.nodes))
    return Shards(graph, stream.integers(0, 7, graph.nodes), kind="random", seed=5)


@pytest.mark.parametrize("make", [halves, synthetic_shards])
def test_shards_come_back_as_they_were(tmp_path, make):
    shards = make()
    write_shards(shards, tmp_path / "shards")
    found = read_shards(tmp_path / "shards")
    assert_same(found.graph, shards.graph)
    assert np.array_equal(found.owner, shards.owner)
    assert (found.kind, found.seed, found.split) == (shards.kind, shards.seed, shards.split)
    for left, right in zip(found, shards, strict=True):
        assert_same(left, right)


@pytest.mark.parametrize("changes", [{"features": DENSE}, {"node_ids": list("zyxwv")}])
def test_dense_and_text_shards_come_back(tmp_path, changes):
    shards = Shards(kite(**changes), np.array([1, 0, 1, 0, 2]), kind="given", seed=0)
    write_shards(shards, tmp_path / "shards")
    assert_same(read_shards(tmp_path / "shards").graph, shards.graph)


def test_settings_are_known_without_reading_the_shards(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    (tmp_path / "shards" / "order.npy").unlink()
    settings = shard_settings(tmp_path / "shards")
    assert (settings["partition.clients"], settings["partition.kind"]) == (2, "random")


def test_a_clients_folder_is_a_graph_folder(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    assert_same(read_graph(tmp_path / "shards" / "client-001"), halves()[1])


def test_the_collection_says_what_the_lost_edges_are_for(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    manifest = json.loads((tmp_path / "shards" / "manifest.json").read_text())
    assert manifest["format"] == "feddep-shards"
    assert (manifest["clients"], manifest["partition"], manifest["seed"]) == (2, "random", 3)
    assert "Nobody in a real federation has them" in manifest["note"]
    lost = (tmp_path / "shards" / "lost_edges.csv").read_text()
    assert lost == "source,target\n10,-7\n-7,30\n30,20\n"


def test_real_silos_have_no_lost_edges(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    (tmp_path / "shards" / "lost_edges.csv").unlink()
    found = read_shards(tmp_path / "shards")
    assert found.graph.edge_list().tolist() == [[0, 2]]
    assert found.graph.node_ids.tolist() == kite().node_ids.tolist()
    assert_same(found[0], halves()[0])


@pytest.mark.parametrize(
    "name", ["client-001/manifest.json", "order.npy", "lost_edges.csv", "client-000/nodes.csv"]
)
def test_a_changed_file_of_a_collection_is_named(tmp_path, name):
    write_shards(halves(), tmp_path / "shards")
    path = tmp_path / "shards" / name
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(DataError, match=f"{name}.*expected SHA-256"):
        read_shards(tmp_path / "shards")


def test_a_missing_client_is_named(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    (tmp_path / "shards" / "client-001" / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"client-001/manifest\.json is missing"):
        read_shards(tmp_path / "shards")


def test_a_wrong_order_is_refused(tmp_path):
    write_shards(halves(), tmp_path / "shards")
    np.save(tmp_path / "order.npy", np.array([0, 0, 1, 2, 3]))
    rewrite(tmp_path / "shards", "order.npy", (tmp_path / "order.npy").read_bytes())
    with pytest.raises(DataError, match="positions 0 to 4, each once"):
        read_shards(tmp_path / "shards")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_ids": list("abcde")}, "some by text"),
        ({"features": DENSE}, "some clients have dense features"),
        ({"features": np.ones((5, 7))}, "some clients have dense|columns|dimension"),
        ({"node_ids": [1, 10, 2, 30, 3]}, "10 repeats"),
    ],
)
def test_clients_that_do_not_fit_together_are_refused(tmp_path, changes, message):
    folder = tmp_path / "shards"
    write_shards(halves(), folder)
    odd = Shards(kite(**changes), halves().owner, kind="random", seed=3)
    (folder / "lost_edges.csv").unlink()
    write_graph(odd[1], folder / "client-001", overwrite=True)
    name = "client-001/manifest.json"
    rewrite(folder, name, (folder / name).read_bytes())
    with pytest.raises(DataError, match=message):
        read_shards(folder)
