"""Reads the published file formats into a :class:`Graph`.

A reader takes bytes, not paths: exactly the bytes whose hash was checked, so that nothing can
change between checking and opening.
"""

import hashlib
import io
import pickle
from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib import resources
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from feddep.errors import DataError, InputError
from feddep.graph.csr import checked_csr
from feddep.graph.graph import Graph

Reader = Callable[[str, Mapping[str, bytes]], Graph]
"""Takes a data set's name and the content of its files by file name."""

T = TypeVar("T")

# Every name that occurs in the published planetoid files, and what it stands for today. Looking a
# name up here, instead of importing it, leaves a hostile file nothing else to call.
_ADMITTED: dict[tuple[str, str], Any] = {
    ("__builtin__", "list"): list,
    ("collections", "defaultdict"): defaultdict,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    # NumPy has moved this function before; an array knows where its own is.
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("scipy.sparse.csr", "csr_matrix"): sp.csr_matrix,
}

# In the order of the columns of the planetoid edition's label rows.
CORA_CLASSES = (
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)
_CORA_ORDER_SHA256 = "35eebaf1dce73fa3176a3bbf1879a42968fe310f0563590cc3aead4b32b27e58"


def read_planetoid(name: str, files: Mapping[str, bytes]) -> Graph:
    """Reads ``ind.<name>.{allx,ally,tx,ty,graph,test.index}``: Cora, CiteSeer or PubMed.

    ``allx`` holds the first nodes in order. Row j of ``tx`` belongs to the node on line j of
    ``test.index``. CiteSeer names 15 nodes in neither: they have no words and no published label.
    They stay in the graph, with a zero feature row and label 0, as in the published loaders (PyG
    takes the argmax of a zero label row), so that node counts and splits agree with the literature.

    ``x`` and ``y`` repeat the first rows of ``allx`` and ``ally`` and are not read. The published
    split is not read either. Self-loops are dropped.

    Source: Yang, Cohen, Salakhutdinov, "Revisiting Semi-Supervised Learning with Graph
    Embeddings", ICML 2016.

    Raises:
        DataError: a file is not what the format says, or names something not on the allow-list.
    """

    def opened(part: str, kind: type[T]) -> T:
        file = f"ind.{name}.{part}"
        return _unpickle(file, files[file], kind)

    first, tested = _csr(opened("allx", sp.csr_matrix)), _csr(opened("tx", sp.csr_matrix))
    test_nodes = _whole_numbers(f"ind.{name}.test.index", files[f"ind.{name}.test.index"])
    rows = _stacked_row_of_node(first.shape[0], test_nodes)

    features = sp.vstack([first, tested, sp.csr_array((1, first.shape[1]))], format="csr")[rows]
    first_labels, test_labels = opened("ally", np.ndarray), opened("ty", np.ndarray)
    classes = first_labels.shape[1]
    one_hot = np.vstack([first_labels, test_labels, np.zeros((1, classes))])[rows]
    return Graph.from_edges(
        _edges_of_lists(opened("graph", dict)),
        features,
        one_hot.argmax(axis=1),
        classes=classes,
        name=name,
    )


def read_linqs_cora(name: str, files: Mapping[str, bytes]) -> Graph:
    """Reads ``cora.content`` and ``cora.cites`` into the graph of the planetoid edition.

    The two editions hold the same papers in another order. The planetoid edition's order, as paper
    ids, is kept beside this module in ``cora_order.npy``. It was found by comparing the editions:
    a node is the paper with the same words, class and, where papers repeat each other, neighbours.
    That leaves ten groups, of 25 papers, that agree in all three. Their papers stand in ascending
    order; any other order would give the same graph.

    Source: Sen et al., "Collective Classification in Network Data", AI Magazine 2008.

    Raises:
        DataError: a file is not what the format says, or the installed order is damaged.
    """
    return read_linqs(name, files, papers=cora_order(), classes=CORA_CLASSES)


def read_linqs(
    name: str, files: Mapping[str, bytes], *, papers: list[int], classes: tuple[str, ...]
) -> Graph:
    """Reads ``<name>.content`` and ``<name>.cites``, two text tables.

    A line of the first is a paper's id, a 0 or 1 for each word, and its class. A line of the second
    is two papers, the cited and the citing one. Both are read as text and numbers only.

    Args:
        name: the data set's name.
        files: the content of its files, by file name.
        papers: the id of each node's paper.
        classes: the class of each label.

    Raises:
        DataError: a file is not what the format says, or has other papers or classes.
    """
    content, cites = f"{name}.content", f"{name}.cites"
    described = _text_table(content, files[content], {-1: classes.index})
    citations = _text_table(cites, files[cites])

    if citations.shape[1] != 2:
        raise DataError(f"{cites} must hold two papers per line (got {citations.shape[1]} columns)")
    row_of = {paper: row for row, paper in enumerate(described[:, 0].tolist())}
    node_of = {paper: node for node, paper in enumerate(papers)}
    if len(described) != len(papers) or row_of.keys() != node_of.keys():
        raise DataError(
            f"{content} must describe the {len(papers)} papers of {name}, each once "
            f"(got {len(described)} lines on {len(row_of.keys() & node_of.keys())} of them)"
        )
    strangers = set(citations.ravel().tolist()) - node_of.keys()
    if strangers:
        raise DataError(f"{cites} must name papers of {name} only (got {min(strangers)})")

    in_order = described[[row_of[paper] for paper in papers]]
    words, labels = in_order[:, 1:-1], in_order[:, -1]
    other = words[(words != 0) & (words != 1)]
    if len(other):
        raise DataError(f"{content} must hold 0 or 1 for every word (got {other[0]})")
    edges = [[node_of[cited], node_of[citing]] for cited, citing in citations.tolist()]
    return Graph.from_edges(edges, sp.csr_array(words), labels, classes=len(classes), name=name)


def read_coauthor(name: str, files: Mapping[str, bytes]) -> Graph:
    """Reads the one ``.npz`` file of a Coauthor graph: MSAcademic (Coauthor-CS).

    The published features count keywords, 1 to 105. They are binarised (1 where a keyword occurs),
    as PyG's loader does: three counts in four are 1, and the few large ones are out of scale for
    plain SGD with a learning rate of 0.1.

    Source: Shchur et al., "Pitfalls of Graph Neural Network Evaluation", 2018.

    Raises:
        DataError: the file is not what the format says.
    """
    [(file, content)] = files.items()
    try:
        # The class names, which we do not need, are the only member that would require pickle.
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            adjacency = _csr_parts(arrays, "adj")
            counts = _csr_parts(arrays, "attr")
            labels = arrays["labels"]
    except Exception as error:  # a damaged zip archive fails in many ways
        raise DataError(f"{file} is not a Coauthor archive ({error})") from error
    present = sp.csr_array((counts.data > 0, counts.indices, counts.indptr), shape=counts.shape)
    edges = np.stack(adjacency.nonzero(), axis=1)
    return Graph.from_edges(edges, present, labels, name=name)


class _RestrictedUnpickler(pickle.Unpickler):
    """Opens Python 2 pickles that consist of admitted names only."""

    def __init__(self, file: str, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="latin1")
        self._file = file

    def find_class(self, module: str, name: str) -> Any:
        """What an admitted name stands for; any other name is refused without being imported."""
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise DataError(
                f"{self._file} asks for {module}.{name}, which no published data set needs; "
                "it was not opened. Get the file from its publisher"
            ) from None


def _unpickle(file: str, content: bytes, kind: type[T]) -> T:
    try:
        found = _RestrictedUnpickler(file, content).load()
    except DataError:
        raise
    except Exception as error:  # by its documentation, unpickling garbage may raise anything
        raise DataError(f"{file} is not a readable pickle ({error})") from error
    if not isinstance(found, kind):
        raise DataError(f"{file} must hold a {kind.__name__} (got {type(found).__name__})")
    return found


def _csr(unpickled: sp.csr_matrix) -> sp.csr_array:
    """Rebuilds an unpickled matrix, because unpickling sets its parts without checking them."""
    try:
        parts = (unpickled.data, unpickled.indices, unpickled.indptr)
        data, indices, indptr = (np.asarray(part) for part in parts)
        return checked_csr(data, indices, indptr, unpickled.shape)
    except (AttributeError, InputError) as error:
        raise DataError(f"a table in the file is damaged ({error})") from None


def _csr_parts(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> sp.csr_array:
    data, indices, indptr = (arrays[f"{prefix}_{part}"] for part in ("data", "indices", "indptr"))
    return checked_csr(data, indices, indptr, arrays[f"{prefix}_shape"])


def cora_order() -> list[int]:
    """The paper id of each node of Cora, from the package's own file."""
    file = resources.files("feddep.graph") / "cora_order.npy"
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != _CORA_ORDER_SHA256:
        raise DataError(f"{file} is not the file that feddep was released with; reinstall feddep")
    papers: list[int] = np.load(io.BytesIO(content), allow_pickle=False).tolist()
    return papers


def _text_table(
    file: str, content: bytes, converters: Mapping[int | str, Callable[[str], int]] | None = None
) -> npt.NDArray[np.int32]:
    """The whole numbers in a text table; ``converters`` turn a column's words into numbers."""
    if not content.strip():
        raise DataError(f"{file} is empty")
    try:
        return np.loadtxt(
            io.BytesIO(content),
            dtype=np.int32,
            comments=None,
            converters=converters,
            encoding="ascii",
            ndmin=2,
        )
    except ValueError as error:
        raise DataError(f"{file} is not a table as published ({error})") from error


def _whole_numbers(file: str, content: bytes) -> npt.NDArray[np.int64]:
    try:
        return np.array([int(word) for word in content.split()], dtype=np.int64)
    except ValueError as error:
        raise DataError(f"{file} must hold one whole number per line ({error})") from None


def _stacked_row_of_node(first: int, test_nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each node's row stands in the stack of ``first`` rows, test rows and one zero row."""
    nodes = max(first, int(test_nodes.max(initial=-1)) + 1)
    zero_row = first + len(test_nodes)
    rows = np.full(nodes, zero_row)
    rows[:first] = np.arange(first)
    rows[test_nodes] = first + np.arange(len(test_nodes))
    return rows


def _edges_of_lists(neighbours: Mapping[int, list[int]]) -> npt.NDArray[np.int64]:
    """``(E, 2)`` node numbers from neighbour lists, as they stand: both directions, self-loops."""
    counts = [len(targets) for targets in neighbours.values()]
    source = np.repeat(np.fromiter(neighbours, np.int64), counts)
    target = np.fromiter(chain.from_iterable(neighbours.values()), np.int64)
    return np.stack([source, target], axis=1)
