"""Parts of sparse tables that do not fit together: refused before SciPy's loops run over them."""

import io

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import kite, rewrite

from feddep.errors import DataError, InputError
from feddep.graph.csr import check_sparse, checked_csr
from feddep.graph.folder import read_features, read_graph, write_graph
from feddep.graph.graph import Graph
from feddep.graph.readers import read_coauthor
from feddep.learning.expansion import features_from

ONES = np.ones(4, np.float32)
COLUMNS = np.array([0, 1, 0, 1], np.int32)
SHAPE = (3, 2)

# Each is the red team's own or a neighbour of it; [0, N, 0, 0] ended the process by a signal.
BROKEN = {
    "falls to 0": [0, 4, 0, 0],
    "falls far": [0, 2**31 - 1, 0, 0],
    "falls within": [0, 3, 1, 4],
    "does not begin with 0": [1, 2, 3, 4],
    "ends too early": [0, 1, 2, 3],
    "ends too late": [0, 1, 2, 5],
    "is negative": [0, -1, 2, 4],
    "is too short": [0, 4],
    "is too long": [0, 1, 2, 3, 4],
}


@pytest.mark.parametrize("indptr", BROKEN.values(), ids=BROKEN)
def test_ends_that_do_not_fit(indptr, tmp_path):
    parts = {"indptr": np.array(indptr), "indices": COLUMNS, "data": ONES}
    with pytest.raises(InputError, match="not a sparse table"):
        checked_csr(ONES, COLUMNS, parts["indptr"], SHAPE)
    np.savez(tmp_path / "features.npz", **parts, shape=np.array(SHAPE))
    with pytest.raises(DataError, match="not a sparse table"):
        read_features(tmp_path / "features.npz")
    with pytest.raises(DataError, match="not a Coauthor archive"):
        read_coauthor("coauthor", {"coauthor.npz": coauthor(parts)})
    if len(indptr) == 4:
        with pytest.raises(InputError, match="not a sparse table"):
            features_from(parts, 2)
        with pytest.raises(InputError, match="not a sparse table"):
            Graph.from_edges([], altered(parts), [0, 0, 0])


def coauthor(attributes: dict[str, np.ndarray]) -> bytes:
    file, square = io.BytesIO(), sp.csr_array(np.ones((3, 3)))
    adjacency = {f"adj_{part}": getattr(square, part) for part in ("indptr", "indices", "data")}
    np.savez(
        file,
        **adjacency,
        **{f"attr_{part}": array for part, array in attributes.items()},
        adj_shape=np.array((3, 3)),
        attr_shape=np.array(SHAPE),
        labels=np.zeros(3, np.int64),
    )
    return file.getvalue()


def altered(parts: dict[str, np.ndarray]) -> sp.csr_array:
    """What a caller can make of a valid table: SciPy does not look when a part is replaced."""
    table = sp.csr_array((ONES, COLUMNS, np.array([0, 1, 2, 4])), shape=SHAPE)
    table.indptr = parts["indptr"]
    return table


@pytest.mark.parametrize("column", [-1, 2, 2**31 - 1])
def test_columns_beyond_the_table(column):
    columns = COLUMNS.copy()
    columns[2] = column
    with pytest.raises(InputError, match="columns from 0 to 1"):
        checked_csr(ONES, columns, np.array([0, 1, 2, 4]), SHAPE)


@pytest.mark.parametrize(
    "shape", [(3,), (3, 2, 1), (-3, 2), (10**18, 2), (3, 2**40), (3.0, 2.0), ("3", "2"), [[3, 2]]]
)
def test_shapes_that_are_none(shape):
    with pytest.raises(InputError):
        checked_csr(ONES, COLUMNS, np.array([0, 1, 2, 4]), shape)


@pytest.mark.parametrize("data", [np.array([None] * 4), np.array(["a"] * 4), np.ones((2, 2))])
def test_values_that_are_no_numbers(data):
    with pytest.raises(InputError, match="not a sparse table"):
        checked_csr(data, COLUMNS, np.array([0, 1, 2, 4]), SHAPE)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr", "dok", "lil"])
def test_tables_of_every_layout_are_taken(layout):
    table = sp.random_array((6, 4), density=0.5, rng=0, format=layout)
    check_sparse(table)
    graph = Graph.from_edges([], table, [0] * 6)
    assert np.array_equal(graph.features.toarray(), table.toarray().astype(np.float32))


@pytest.mark.parametrize("layout", ["csc", "bsr"])
def test_other_layouts_are_checked_too(layout):
    table = sp.random_array((6, 4), density=1.0, rng=0, format=layout)
    table.indptr = np.array([0, len(table.indices), *([0] * (len(table.indptr) - 2))])
    with pytest.raises(InputError, match="not a sparse table"):
        Graph.from_edges([], table, [0] * 6)


def test_entries_outside_of_a_list_of_entries():
    table = sp.coo_array((ONES[:1], (np.array([0]), np.array([0]))), shape=SHAPE)
    table.coords = (np.array([7]), np.array([0]))
    with pytest.raises(InputError, match="outside of its 3 rows"):
        check_sparse(table)


def test_a_graph_folder_with_such_a_table(tmp_path):
    write_graph(kite(), tmp_path / "kite")
    file = io.BytesIO()
    np.savez(file, indptr=np.array([0, 5, 0, 0, 0, 0]), indices=np.zeros(5, np.int32),
             data=np.ones(5, np.float32), shape=np.array([5, 2]))  # fmt: skip
    rewrite(tmp_path / "kite", "features.npz", file.getvalue())
    with pytest.raises(DataError, match="never fall"):
        read_graph(tmp_path / "kite")


@given(
    st.lists(st.integers(-1, 5), max_size=5),
    st.lists(st.integers(-1, 3), max_size=5),
    st.integers(0, 4),
    st.integers(0, 3),
)
def test_what_is_taken_is_safe_to_use(indptr, indices, rows, columns):
    values = np.ones(len(indices), np.float32)
    try:
        table = checked_csr(values, np.array(indices, int), np.array(indptr, int), (rows, columns))
    except InputError:
        return
    dense = np.zeros((rows, columns), np.float32)
    for row in range(rows):
        for column in indices[indptr[row] : indptr[row + 1]]:
            dense[row, column] += 1
    assert np.array_equal(table.toarray(), dense)
