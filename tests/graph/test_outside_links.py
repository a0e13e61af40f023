"""Links out of a silo as data: in graphs, folders, shards and PyG."""

from dataclasses import replace

import numpy as np
import pytest
from small_graphs import assert_same, halves, kite, rewrite

from feddep.errors import DataError, InputError
from feddep.graph.fingerprint import fingerprint
from feddep.graph.folder import read_graph, write_graph
from feddep.graph.impair import impair
from feddep.graph.outside import OutsideLinks
from feddep.graph.partition import PartitionSpec
from feddep.graph.shard import read_shards, shard_settings, write_shards
from feddep.graph.splits import SplitSpec
from feddep.runtime.sharing import open_graph, share_graph
from feddep.scenario.build import settings_of, split_and_partition

LINKS = OutsideLinks.of([3, 0, 0, 3], ["b", "b", "a", "b"], ["x,1", "7", "7", "x,1"])


def rows(outside):
    return list(
        zip(outside.nodes.tolist(), outside.silo_names.tolist(), outside.ids.tolist(), strict=True)
    )


class TestOutsideLinks:
    def test_they_are_sorted_and_repeats_merge(self):
        assert rows(LINKS) == [(0, "a", "7"), (0, "b", "7"), (3, "b", "x,1")]
        assert LINKS.names == ("a", "b")
        assert LINKS.counts() == {"a": 1, "b": 2}

    def test_none_at_all(self):
        nothing = OutsideLinks.of([], [], [])
        assert (len(nothing), nothing.names, nothing.counts()) == (0, (), {})

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (([0, 1], ["a"], [5, 6]), "a node, a silo and an id for each link"),
            (([0.5], ["a"], [5]), "nodes must be whole numbers"),
            (([0], [""], [5]), "names no silo"),
            (([0], ["a"], [5.5]), "whole numbers or text"),
        ],
    )
    def test_columns_that_do_not_fit_are_refused(self, columns, message):
        with pytest.raises(InputError, match=message):
            OutsideLinks.of(*columns)

    def test_a_link_of_a_node_that_the_graph_does_not_have(self):
        with pytest.raises(InputError, match="node 5; nodes are 0 to 4"):
            kite(outside=OutsideLinks.of([5], ["a"], [1]))


class TestGraphs:
    def test_a_subgraph_keeps_those_of_its_nodes_under_their_new_numbers(self):
        found = kite(outside=LINKS).subgraph([3, 1]).outside
        assert rows(found) == [(0, "b", "x,1")]
        assert found.names == ("b",)

    def test_an_impaired_graph_keeps_those_of_the_remaining_nodes(self):
        graph = kite(outside=LINKS)
        impaired = impair(graph, np.arange(4), 0.5, np.random.default_rng(0))
        expected = [(graph.node_ids[n], s, i) for n, s, i in rows(LINKS) if n in impaired.remaining]
        found = impaired.graph
        assert [(found.node_ids[n], s, i) for n, s, i in rows(found.outside)] == expected

    def test_they_count_in_a_fingerprint_and_their_absence_does_not(self):
        prints = {fingerprint(kite(outside=o)) for o in (None, LINKS, LINKS.among([0, 1], 5))}
        assert len(prints) == 3

    def test_they_reach_the_workers(self, tmp_path):
        share_graph(kite(outside=LINKS), tmp_path / "graph")
        assert rows(open_graph(tmp_path / "graph").outside) == rows(LINKS)


class TestFolders:
    @pytest.mark.parametrize(
        "outside", [LINKS, OutsideLinks.of([1], ["bank"], [9]), OutsideLinks.of([], [], [])]
    )
    def test_what_is_written_is_read_again(self, tmp_path, outside):
        write_graph(kite(outside=outside), tmp_path / "graph")
        found = read_graph(tmp_path / "graph")
        assert_same(found, kite())
        assert rows(found.outside) == rows(outside)
        assert found.outside.ids.dtype.kind == outside.ids.dtype.kind

    def test_a_graph_without_them_is_stored_as_ever(self, tmp_path):
        write_graph(kite(), tmp_path / "graph")
        assert "outside" not in (tmp_path / "graph" / "manifest.json").read_text()
        assert not (tmp_path / "graph" / "outside.csv").exists()
        assert read_graph(tmp_path / "graph").outside is None

    def test_a_row_about_an_unknown_node_is_named(self, tmp_path):
        write_graph(kite(outside=LINKS), tmp_path / "graph")
        rewrite(tmp_path / "graph", "outside.csv", "node,silo,id\n10,a,1\n11,a,1\n")
        with pytest.raises(DataError, match=r"line 3: expected the id of a node as node .got '11'"):
            read_graph(tmp_path / "graph")


class TestShards:
    def test_known_links_are_at_both_ends_and_name_each_other(self):
        shards = halves().with_known_links()
        # 0-1, 1-2 and 2-3 are lost; client 0 has the nodes 0, 2 and 4, with the ids 10, 30, 2**40.
        assert rows(shards[0].outside) == [(0, "1", -7), (1, "1", -7), (1, "1", 20)]
        assert rows(shards[1].outside) == [(0, "0", 10), (0, "0", 30), (1, "0", 30)]
        assert_same(shards[0], halves()[0])
        assert (halves().links, shards.links) == ("lost", "known")

    def test_a_collection_is_read_as_it_was_written(self, tmp_path):
        shards = replace(halves(), names=("north", "south")).with_known_links()
        write_shards(shards, tmp_path / "shards")
        found = read_shards(tmp_path / "shards")
        assert [rows(g.outside) for g in found] == [rows(g.outside) for g in shards]
        assert found.names == ("north", "south")
        assert shard_settings(tmp_path / "shards")["partition.links"] == "known"
        assert settings_of(found)["partition.links"] == "known"

    def test_by_default_nobody_knows_a_link(self, tmp_path):
        write_shards(halves(), tmp_path / "shards")
        manifest = (tmp_path / "shards" / "manifest.json").read_text()
        assert "links" not in manifest and "names" not in manifest
        assert shard_settings(tmp_path / "shards")["partition.links"] == "lost"
        assert all(graph.outside is None for graph in read_shards(tmp_path / "shards"))

    def test_the_partition_is_the_same_whether_links_are_known_or_not(self, small_graph):
        lost, known = (
            split_and_partition(
                small_graph,
                PartitionSpec(kind="random", clients=3, links=links),
                SplitSpec(),
                seed=1,
            )
            for links in ("lost", "known")
        )
        assert np.array_equal(lost.owner, known.owner)
        assert np.array_equal(lost.graph.split, known.graph.split)
        assert sum(len(graph.outside) for graph in known) == 2 * len(lost.lost_edges())

    @pytest.mark.parametrize(
        "changes", [{"names": ("a",)}, {"names": ("a", "a")}, {"outside": (LINKS,)}]
    )
    def test_every_client_needs_one(self, changes):
        with pytest.raises(InputError, match=r"expected|a name of its own"):
            replace(halves(), **changes)


def test_pyg_and_back():
    pytest.importorskip("torch_geometric")
    from feddep.graph.interchange import from_pyg, to_pyg

    for outside in (LINKS, OutsideLinks.of([1], ["bank"], [9])):
        assert rows(from_pyg(to_pyg(kite(outside=outside))).outside) == rows(outside)
    assert from_pyg(to_pyg(kite())).outside is None
