"""Direction and weight of edges travel with a graph: worked numbers, folders, shards, exchange."""

import json

import numpy as np
import pytest

from feddep.errors import DataError, InputError
from feddep.graph.fingerprint import fingerprint
from feddep.graph.flows import shares_of, ways
from feddep.graph.folder import read_graph, write_graph
from feddep.graph.graph import Graph
from feddep.graph.impair import impair
from feddep.graph.sampling import NeighbourSampler, full_ego_graphs
from feddep.graph.shard import Shards, read_shards, write_shards
from feddep.runtime.sharing import open_graph, share_graph

# 0 pays 1 twice, 1 pays back, 1 pays 2, 2 pays 3 nothing, and 3 pays itself.
ROWS = [[0, 1], [0, 1], [1, 0], [1, 2], [2, 3], [3, 3]]
AMOUNTS = [10.0, 2.5, 1.0, 4.0, 0.0, 9.0]


def payments(**more):
    return Graph.from_edges(ROWS, np.eye(4), [0, 1, 0, 1], weights=AMOUNTS, **more)


def by_edge(graph):
    rows = zip(graph.edge_list().tolist(), graph.edge_flows().tolist(), strict=True)
    ids = graph.node_ids.tolist()
    return {(ids[u], ids[v]): tuple(flow) for (u, v), flow in rows}


FLOWS = {(0, 1): (12.5, 1.0), (1, 2): (4.0, 0.0), (2, 3): (0.0, 0.0)}


def test_repeated_edges_add_up_in_each_direction():
    graph = payments()
    assert by_edge(graph) == FLOWS
    assert graph.indices.tolist() == [1, 0, 2, 1, 3, 2]
    assert graph.flows.tolist() == [12.5, 1.0, 4.0, 0.0, 0.0, 0.0]


def test_what_counts_in_which_mean():
    graph = payments()

    def found(directions, weighted):
        lists = (graph.indptr, graph.indices, graph.flows)
        return ways(*lists, directions, weighted=weighted).tolist()

    assert found("both", True) == [[13.5, 13.5, 4.0, 4.0, 0.0, 0.0]]
    assert found("apart", True) == [[12.5, 1, 4, 0, 0, 0], [1, 12.5, 0, 4, 0, 0]]
    assert found("apart", False) == [[1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0]]


def test_shares_of_a_list_add_up_to_one_or_are_all_zero():
    counts = np.array([[3, 1, 0, 0, 2]], np.float32)
    assert shares_of(np.array([0, 2, 4, 5]), counts).tolist() == [[0.75, 0.25, 0, 0, 1]]


def test_full_lists_and_drawn_ones_have_the_shares_of_their_entries():
    graph = payments()
    both = ways(graph.indptr, graph.indices, graph.flows, "both", weighted=True)
    block = full_ego_graphs(graph, np.array([1]), 1, ways=both).blocks[0]
    assert block.shares.tolist() == [[np.float32(13.5 / 17.5), np.float32(4 / 17.5)]]
    plain = NeighbourSampler(graph, 3, 1).sample(np.array([1, 3]), np.random.default_rng(0))
    drawn = NeighbourSampler(graph, 3, 1, both).sample(np.array([1, 3]), np.random.default_rng(0))
    mine, same = drawn.blocks[0], plain.blocks[0]
    assert np.array_equal(drawn.nodes, plain.nodes)
    assert np.array_equal(mine.indices, same.indices)
    assert same.shares is None
    amounts = np.array([{0: 13.5, 2: 4.0}[node] for node in drawn.nodes[mine.indices[:3]]])
    assert mine.shares[0, :3].tolist() == (amounts / amounts.sum()).astype(np.float32).tolist()
    assert mine.shares[0, 3:].tolist() == [0.0] * 3  # nothing goes between 2 and 3


def test_parts_of_a_graph_keep_their_flows():
    part = payments().subgraph([2, 1, 0])
    assert by_edge(part) == {(1, 0): (1.0, 12.5), (2, 1): (0.0, 4.0)}
    left = impair(payments(), np.array([3]), 1.0, np.random.default_rng(0)).graph
    assert by_edge(left) == {edge: flow for edge, flow in FLOWS.items() if 3 not in edge}
    assert payments().with_edges([[0, 3]]).flows is None


def test_the_fingerprint_sees_flows_and_is_as_before_without():
    plain = Graph.from_edges(ROWS, np.eye(4), [0, 1, 0, 1])
    assert fingerprint(plain) != fingerprint(payments())
    assert fingerprint(plain) == fingerprint(plain.with_edges(ROWS))


def test_a_folder_keeps_flows_and_one_without_is_as_it_always_was(tmp_path):
    write_graph(payments(node_ids=["d", "c", "b", "a"]), tmp_path / "paid")
    graph = read_graph(tmp_path / "paid")
    assert graph.flows.tolist() == payments().flows.tolist()
    write_graph(Graph.from_edges(ROWS, np.eye(4), [0, 1, 0, 1]), tmp_path / "plain")
    assert "flows.npy" not in json.loads((tmp_path / "plain/manifest.json").read_text())["files"]


def test_flows_that_do_not_fit_their_edges_are_refused(tmp_path):
    write_graph(payments(), tmp_path / "paid")
    np.save(tmp_path / "paid/flows.npy", np.zeros((2, 2), np.float32))
    manifest = json.loads((tmp_path / "paid/manifest.json").read_text())
    from feddep.graph.files import hash_files

    manifest["files"] |= hash_files(tmp_path / "paid", ["flows.npy"])
    (tmp_path / "paid/manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"flows\.npy: expected float32 of shape \(3, 2\)"):
        read_graph(tmp_path / "paid")


def test_shards_keep_flows_also_those_between_clients(tmp_path):
    shards = Shards(payments(), np.array([0, 1, 1, 0]), "given", 0)
    assert by_edge(shards[1]) == {(1, 2): (4.0, 0.0)}
    assert shards.lost_flows().tolist() == [[12.5, 1.0], [0.0, 0.0]]
    write_shards(shards, tmp_path / "shards")
    assert by_edge(read_shards(tmp_path / "shards").graph) == FLOWS


def test_workers_share_flows(tmp_path):
    share_graph(payments(), tmp_path / "shared")
    assert open_graph(tmp_path / "shared").flows.tolist() == payments().flows.tolist()


def test_the_exchange_with_pyg_keeps_flows():
    pytest.importorskip("torch_geometric")
    from feddep.graph.interchange import from_pyg, to_pyg

    data = to_pyg(payments())
    assert data.edge_weight.tolist() == payments().flows.tolist()
    assert by_edge(from_pyg(data, flows=True)) == FLOWS
    assert from_pyg(data).flows is None


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ([1.0], "one number as weight of each of 6 edges"),
        ([1, 2, 3, -1, 0, 0], "finite and not negative"),
        ([1, 2, 3, float("nan"), 0, 0], "finite and not negative"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights, told):
    with pytest.raises(InputError, match=told):
        Graph.from_edges(ROWS, np.eye(4), [0, 1, 0, 1], weights=weights)
