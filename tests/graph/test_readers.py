"""The readers, on data sets of a few nodes written out here."""

import io
import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from feddep.errors import DataError
from feddep.graph import readers
from feddep.graph.readers import read_coauthor, read_linqs, read_linqs_cora, read_planetoid


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


class TestLinqs:
    """Papers 70, 5 and 31 are nodes 0, 1 and 2, and described in another order."""

    PAPERS = (70, 5, 31)
    CLASSES = ("Theory", "Rule_Learning")
    CONTENT = b"5\t0\t1\tTheory\r\n31\t0\t0\tTheory\r\n70\t1\t1\tRule_Learning\r\n"
    # 70-5 is cited in both directions, 31 cites itself.
    CITES = b"70\t5\r\n5\t70\r\n31\t31\r\n5\t31\r\n"

    def read(self, content: bytes = CONTENT, cites: bytes = CITES):
        files = {"tiny.content": content, "tiny.cites": cites}
        return read_linqs("tiny", files, papers=list(self.PAPERS), classes=self.CLASSES)

    def test_nodes_stand_in_the_order_asked_for(self):
        graph = self.read()
        assert isinstance(graph.features, sp.csr_array)
        np.testing.assert_array_equal(graph.features.toarray(), [[1, 1], [0, 1], [0, 0]])
        assert graph.labels.tolist() == [1, 0, 0]
        assert graph.classes == 2

    def test_edges_are_undirected_unique_and_without_self_loops(self):
        assert self.read().edge_list().tolist() == [[0, 1], [1, 2]]

    def test_lines_may_end_in_either_way(self):
        graph = self.read(self.CONTENT.replace(b"\r", b""), self.CITES.replace(b"\r", b""))
        assert graph.edges == 2

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            (b"31\t0\t0", b"31\t0\t0\t0", "number of columns changed"),
            (b"31\t0\t0", b"31\t0\tx", "'x'"),
            (b"31\t0\t0", b"31\t0\t2", r"0 or 1 for every word \(got 2\)"),
            (b"31\t0\t0", b"31\t0\t-1", r"0 or 1 for every word \(got -1\)"),
            (b"31\t0\t0", b"31\t0\t\xff", "ascii"),
            (b"Rule_Learning", b"Magic", "'Magic'"),
            (b"31", b"32", r"3 papers of tiny, each once \(got 3 lines on 2 of them\)"),
            (b"31", b"5", r"3 papers of tiny, each once \(got 3 lines on 2 of them\)"),
            (CONTENT, CONTENT * 2, r"each once \(got 6 lines on 3 of them\)"),
        ],
    )
    def test_another_content_is_refused_by_file_name(self, old, new, message):
        with pytest.raises(DataError, match=rf"tiny\.content .*{message}"):
            self.read(content=self.CONTENT.replace(old, new))

    @pytest.mark.parametrize(
        ("cites", "message"),
        [
            (b"70\t5\t31\n", r"two papers per line \(got 3 columns\)"),
            (b"70\t6\n", r"papers of tiny only \(got 6\)"),
            (b"70\tfive\n", "'five'"),
        ],
    )
    def test_other_citations_are_refused_by_file_name(self, cites, message):
        with pytest.raises(DataError, match=rf"tiny\.cites .*{message}"):
            self.read(cites=cites)

    @pytest.mark.parametrize("name", ["content", "cites"])
    def test_an_empty_file_is_refused(self, name):
        with pytest.raises(DataError, match=rf"tiny\.{name} is empty"):
            self.read(**{name: b"\n"})


class TestCoraOrder:
    def test_it_names_each_paper_once(self):
        papers = readers.cora_order()
        assert len(set(papers)) == len(papers) == 2708

    def test_another_order_than_the_released_one_is_refused(self, monkeypatch):
        monkeypatch.setattr(readers, "_CORA_ORDER_SHA256", "0" * 64)
        with pytest.raises(DataError, match=r"cora_order\.npy .*reinstall feddep"):
            read_linqs_cora("cora", {})


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
