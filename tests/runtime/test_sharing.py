"""Graphs that several processes see."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from feddep.graph.graph import Graph, Part
from feddep.runtime import sharing
from feddep.runtime.sharing import open_graph, share_graph, shared_folder


def small(ids, features):
    split = [Part.TRAIN, Part.VAL, Part.NONE]
    return Graph.from_edges(
        [(0, 1), (1, 2)], features, [1, 0, -1], classes=4, node_ids=ids, split=split, name="three"
    )


def same(one, other):
    for name in ("indptr", "indices", "labels", "node_ids", "split"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
        assert getattr(one, name).dtype == getattr(other, name).dtype, name
    assert (one.classes, one.name) == (other.classes, other.name)


@pytest.mark.parametrize("ids", [[7, 5, 3], ["a", "bc", "ü"]])
def test_a_dense_graph_comes_back_as_it_was(tmp_path, ids):
    graph = small(ids, [[1.0, 2.0], [0.0, 0.0], [3.0, 4.0]])
    share_graph(graph, tmp_path / "g")
    found = open_graph(tmp_path / "g")
    same(graph, found)
    assert np.array_equal(graph.features, found.features)


def test_a_sparse_graph_comes_back_sparse(tmp_path, small_shards):
    graph = small_shards[0]
    share_graph(graph, tmp_path / "g")
    found = open_graph(tmp_path / "g")
    same(graph, found)
    assert found.features.shape == graph.features.shape
    assert (found.features != graph.features).nnz == 0


def test_trailing_columns_without_entries_are_kept(tmp_path):
    graph = small([0, 1, 2], sp.csr_array(([1.0], ([0], [0])), shape=(3, 9)))
    share_graph(graph, tmp_path / "g")
    assert open_graph(tmp_path / "g").feature_count == 9


def test_arrays_are_mapped_and_not_copied(tmp_path, small_shards):
    share_graph(small_shards[0], tmp_path / "g")
    found = open_graph(tmp_path / "g")
    for array in (found.indices, found.labels, found.features.data, found.features.indices):
        base = array
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        assert isinstance(base, np.memmap)
        assert type(array) is np.ndarray  # numba compiles for plain arrays only
        assert not array.flags.writeable


def test_a_folder_is_not_written_twice(tmp_path, small_shards):
    share_graph(small_shards[0], tmp_path / "g")
    with pytest.raises(FileExistsError):
        share_graph(small_shards[1], tmp_path / "g")


@pytest.mark.parametrize(("free", "in_memory"), [(100, False), (200, False), (201, True)])
def test_memory_is_used_while_it_has_room_for_twice_as_much(tmp_path, monkeypatch, free, in_memory):
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    monkeypatch.setattr(sharing, "_MEMORY", memory)
    monkeypatch.setattr(sharing.tempfile, "tempdir", str(disk))
    monkeypatch.setattr(sharing.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    found = shared_folder(100)
    assert found.is_dir()
    assert found.parent == (memory if in_memory else disk)


def test_a_system_without_memory_folder_uses_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "_MEMORY", tmp_path / "missing")
    monkeypatch.setattr(sharing.tempfile, "tempdir", str(tmp_path))
    assert shared_folder(1).parent == tmp_path


def test_every_folder_is_a_new_one(tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "_MEMORY", tmp_path)
    assert shared_folder(1) != shared_folder(1)
