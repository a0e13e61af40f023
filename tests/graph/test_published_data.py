"""The paper's data sets as they are published, where ``FEDDEP_DATA`` holds them."""

import os
from pathlib import Path

import numpy as np
import pytest

from feddep.errors import DataError
from feddep.graph import datasets
from feddep.graph.datasets import DATASETS
from feddep.graph.graph import Graph
from feddep.graph.readers import CORA_CLASSES, cora_order, read_linqs_cora
from missing import published_folder


@pytest.fixture(params=["cora", "citeseer", "pubmed", "msacademic"])
def published(request) -> str:
    """The name of a published data set, found in the folder that ``FEDDEP_DATA`` names."""
    published_folder(os.environ.get("FEDDEP_DATA"), request.param)
    return request.param


class TestPublished:
    def test_statistics_are_those_of_the_table(self, published):
        graph, entry = datasets.load(published), DATASETS[published]
        found = (graph.nodes, graph.edges, graph.feature_count, graph.classes)
        assert found == (entry.nodes, entry.edges, entry.features, entry.classes)
        assert set(np.unique(graph.labels)) == set(range(entry.classes))
        assert graph.name == published

    @pytest.mark.parametrize("published", ["citeseer"], indirect=True)
    def test_citeseer_keeps_its_fifteen_nodes_without_words(self, published):
        graph = datasets.load(published)
        empty = np.diff(graph.features.indptr) == 0
        assert empty.sum() == 15
        assert (graph.labels[empty] == 0).all()

    @pytest.mark.parametrize("published", ["cora", "citeseer", "msacademic"], indirect=True)
    def test_binary_features_are_binary(self, published):
        assert set(np.unique(datasets.load(published).features.data)) == {1}

    @pytest.mark.parametrize("published", ["cora"], indirect=True)
    def test_one_flipped_bit_is_noticed(self, published, tmp_path, monkeypatch):
        folder, copy = datasets.find(published), tmp_path / "copy" / published
        copy.mkdir(parents=True)
        for file in DATASETS[published].editions[0].files:
            (copy / file.name).write_bytes((folder / file.name).read_bytes())
        content = bytearray((copy / "ind.cora.graph").read_bytes())
        content[1000] ^= 1
        (copy / "ind.cora.graph").write_bytes(content)
        monkeypatch.setenv("FEDDEP_DATA", str(copy.parent))
        with pytest.raises(DataError, match=r"ind\.cora\.graph is damaged"):
            datasets.load(published)


def assert_identical(found: Graph, expected: Graph) -> None:
    """The same graph array by array, in value and type."""
    for name in ("indptr", "indices", "labels", "node_ids", "split"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), strict=True)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(
            getattr(found.features, name), getattr(expected.features, name), strict=True
        )
    assert found.features.shape == expected.features.shape
    assert (found.name, found.classes) == (expected.name, expected.classes)


@pytest.mark.parametrize("published", ["cora"], indirect=True)
class TestCoraEditions:
    def test_the_older_edition_as_it_must_have_been_is_the_same_graph(self, published):
        """Writes ``cora.content`` and ``cora.cites`` by the format's description and the order."""
        graph, papers = datasets.load(published), cora_order()
        words = graph.features.toarray().astype(int)
        lines = [
            "\t".join([str(papers[node]), *map(str, words[node]), CORA_CLASSES[label]])
            for node, label in enumerate(graph.labels)
        ]
        cites = [f"{papers[cited]}\t{papers[citing]}" for cited, citing in graph.edge_list()]
        files = {
            "cora.content": "\r\n".join(sorted(lines)).encode(),
            "cora.cites": "\r\n".join(sorted(cites)).encode(),
        }
        assert_identical(read_linqs_cora("cora", files), graph)

    def test_the_older_edition_as_published_is_the_same_graph(self, published):
        cora, linqs = DATASETS["cora"], DATASETS["cora"].editions[1]
        places = [Path(os.environ["FEDDEP_DATA"], "cora"), datasets.cache_folder(cora)]
        holders = [place for place in places if (place / "cora.content").exists()]
        if not holders:
            pytest.skip("neither FEDDEP_DATA nor the cache holds cora.content")
        graph = linqs.reader("cora", datasets.read_edition(holders[0], cora, linqs))
        assert_identical(graph, datasets.load(published))
