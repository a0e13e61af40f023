"""The readers, on data sets of a few nodes written out here."""

import io
import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from feddep.errors import DataError
from feddep.graph.readers import read_coauthor, read_planetoid


def python2_pickle(value: object) -> bytes:
    """A pickle that uses the names which the published files use."""
    text = pickle.dumps(value, protocol=3)
    for new, old in (
        (b"cbuiltins\n", b"c__builtin__\n"),
        (b"numpy._core.multiarray", b"numpy.core.multiarray"),
        (b"scipy.sparse._csr", b"scipy.sparse.csr"),
    ):
        text = text.replace(new, old)
    return text


def neighbour_lists(edges: list[tuple[int, int]]) -> defaultdict[int, list[int]]:
    lists: defaultdict[int, list[int]] = defaultdict(list)
    for source, target in edges:
        lists[source].append(target)
    return lists


@pytest.fixture
def tiny_files() -> dict[str, bytes]:
    """Nodes 0 and 1 come first, 4 and 2 are test nodes in that order, 3 is named by neither."""
    parts = {
        "allx": sp.csr_matrix([[1.0, 0, 0], [0, 2, 0]]),
        "tx": sp.csr_matrix([[0, 0, 4.0], [0, 3, 0]]),
        "ally": np.array([[0, 1], [1, 0]]),
        "ty": np.array([[0, 1], [0, 1]]),
        # 0-1 is listed once, 1-2 twice in one direction, 4 has a self-loop.
        "graph": neighbour_lists([(0, 1), (1, 2), (1, 2), (2, 1), (4, 4), (3, 4)]),
    }
    files = {f"ind.tiny.{part}": python2_pickle(value) for part, value in parts.items()}
    return files | {"ind.tiny.test.index": b"4\n2\n"}


class TestPlanetoid:
    def test_test_rows_go_where_the_index_says_and_gaps_stay_zero(self, tiny_files):
        graph = read_planetoid("tiny", tiny_files)
        expected = [[1, 0, 0], [0, 2, 0], [0, 3, 0], [0, 0, 0], [0, 0, 4]]
        np.testing.assert_array_equal(graph.features.toarray(), expected)

    def test_features_stay_sparse_float32(self, tiny_files):
        graph = read_planetoid("tiny", tiny_files)
        assert isinstance(graph.features, sp.csr_array)
        assert graph.features.dtype == np.float32

    def test_a_gap_has_label_0_like_in_published_loaders(self, tiny_files):
        graph = read_planetoid("tiny", tiny_files)
        assert graph.labels.tolist() == [1, 0, 1, 0, 1]
        assert graph.classes == 2

    def test_edges_are_undirected_unique_and_without_self_loops(self, tiny_files):
        graph = read_planetoid("tiny", tiny_files)
        assert graph.edge_list().tolist() == [[0, 1], [1, 2], [3, 4]]

    @pytest.mark.parametrize("content", [b"", b"garbage", python2_pickle([1, 2])[:-1]])
    def test_what_is_no_pickle_is_refused_by_file_name(self, tiny_files, content):
        tiny_files["ind.tiny.tx"] = content
        with pytest.raises(DataError, match=r"ind\.tiny\.tx is not a readable pickle"):
            read_planetoid("tiny", tiny_files)

    def test_another_type_is_refused(self, tiny_files):
        tiny_files["ind.tiny.ally"] = python2_pickle([1, 2])
        with pytest.raises(DataError, match="must hold a ndarray \\(got list\\)"):
            read_planetoid("tiny", tiny_files)

    def test_an_index_that_holds_words_is_refused(self, tiny_files):
        tiny_files["ind.tiny.test.index"] = b"4\ntwo\n"
        with pytest.raises(DataError, match=r"test\.index must hold one whole number per line"):
            read_planetoid("tiny", tiny_files)


class _TouchesAFile:
    """When unpickled without restriction, creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


class TestHostilePickle:
    def test_it_would_do_harm_elsewhere(self, tmp_path):
        """Guards the next test: the same bytes do act under an unrestricted unpickler."""
        victim = tmp_path / "victim"
        pickle.loads(pickle.dumps(_TouchesAFile(victim)))  # noqa: S301
        assert victim.exists()

    def test_it_is_refused_and_not_executed(self, tiny_files, tmp_path):
        victim = tmp_path / "victim"
        tiny_files["ind.tiny.graph"] = pickle.dumps(_TouchesAFile(victim))
        with pytest.raises(DataError, match=r"ind\.tiny\.graph asks for"):
            read_planetoid("tiny", tiny_files)
        assert not victim.exists()

    @pytest.mark.parametrize(
        ("module", "name"),
        [
            ("os", "system"),
            ("builtins", "eval"),
            ("__builtin__", "getattr"),
            ("numpy", "load"),
            ("numpy.core.multiarray", "fromfile"),
            ("collections", "namedtuple"),
        ],
    )
    def test_any_name_off_the_list_is_named(self, tiny_files, module, name):
        tiny_files["ind.tiny.allx"] = f"c{module}\n{name}\n(S'true'\ntR.".encode()
        with pytest.raises(DataError, match=f"asks for {module}.{name}"):
            read_planetoid("tiny", tiny_files)


def coauthor_archive(**changes: object) -> bytes:
    adjacency = sp.csr_array([[0, 1, 0], [0, 1, 1], [0, 1, 0]], dtype=np.float32)
    counts = sp.csr_array([[105, 0], [1, 2], [0, 0]], dtype=np.float32)
    arrays: dict[str, object] = {"labels": np.array([2, 0, 1])}
    for prefix, matrix in (("adj", adjacency), ("attr", counts)):
        for part in ("data", "indices", "indptr", "shape"):
            arrays[f"{prefix}_{part}"] = getattr(matrix, part)
    file = io.BytesIO()
    np.savez(file, **(arrays | changes))
    return file.getvalue()


class TestCoauthor:
    def test_edges_are_undirected_and_features_binarised(self):
        graph = read_coauthor("tiny", {"tiny.npz": coauthor_archive()})
        assert graph.edge_list().tolist() == [[0, 1], [1, 2]]
        assert graph.labels.tolist() == [2, 0, 1]
        assert isinstance(graph.features, sp.csr_array)
        assert graph.features.dtype == np.float32
        np.testing.assert_array_equal(graph.features.toarray(), [[1, 0], [1, 1], [0, 0]])

    def test_a_pickle_that_is_not_needed_is_not_opened(self):
        archive = coauthor_archive(class_names=np.array([{"a": 1}], dtype=object))
        assert read_coauthor("tiny", {"tiny.npz": archive}).classes == 3

    def test_a_pickle_in_place_of_numbers_is_refused(self):
        archive = coauthor_archive(labels=np.array([2, 0, 1], dtype=object))
        with pytest.raises(DataError, match="allow_pickle=False"):
            read_coauthor("tiny", {"tiny.npz": archive})

    @pytest.mark.parametrize("content", [b"", b"garbage", coauthor_archive()[:-40]])
    def test_what_is_no_archive_is_refused(self, content):
        with pytest.raises(DataError, match=r"tiny\.npz is not a Coauthor archive"):
            read_coauthor("tiny", {"tiny.npz": content})
