"""To PyTorch Geometric and back."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from feddep.errors import InputError
from feddep.graph.graph import Graph, Part
from feddep.graph.interchange import from_pyg, to_pyg

pyg = pytest.importorskip("torch_geometric.data")

FEATURES = np.array([[1, 0], [0, 2], [0, 0]], np.float32)
SPLIT = [Part.TRAIN, Part.TEST, Part.VAL]

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")


def path(**changes: object) -> Graph:
    """The path 0-1-2."""
    given = {
        "edges": [(0, 1), (1, 2)],
        "features": sp.csr_array(FEATURES),
        "labels": [0, 1, 0],
        "node_ids": [7, 8, 9],
        "split": SPLIT,
    }
    return Graph.from_edges(**(given | changes))  # type: ignore[arg-type]


def data(**changes: object):
    given = {
        "x": torch.tensor(FEATURES),
        "edge_index": torch.tensor([[0, 1], [1, 2]]),
        "y": torch.tensor([0, 1, 0]),
    }
    return pyg.Data(**(given | changes))


def bools(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool)


def test_to_pyg():
    found = to_pyg(path())
    assert found.x.layout == torch.sparse_csr
    assert found.x.to_dense().tolist() == FEATURES.tolist()
    assert found.edge_index.dtype == torch.int64
    assert found.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert found.y.tolist() == [0, 1, 0]
    assert found.train_mask.tolist() == [True, False, False]
    assert found.val_mask.tolist() == [False, False, True]
    assert found.test_mask.tolist() == [False, True, False]
    assert found.node_ids.tolist() == [7, 8, 9]
    assert (found.num_nodes, found.num_edges, found.is_undirected()) == (3, 4, True)
    assert found.validate()


def test_dense_on_request_and_when_dense_already():
    assert to_pyg(path(), dense=True).x.tolist() == FEATURES.tolist()
    assert to_pyg(path(features=FEATURES)).x.tolist() == FEATURES.tolist()


def test_text_ids_are_left_out():
    assert "node_ids" not in to_pyg(path(node_ids=["a", "b", "c"]))


def test_changing_the_data_does_not_change_the_graph():
    graph = path(features=FEATURES)
    found = to_pyg(graph)
    for tensor in (found.x, found.y, found.edge_index, found.node_ids):
        tensor.fill_(5)
    assert graph.features.tolist() == FEATURES.tolist()
    assert graph.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("features", [FEATURES, sp.csr_array(FEATURES)])
def test_there_and_back(features):
    graph = path(features=features)
    found = from_pyg(to_pyg(graph))
    for array in ("indptr", "indices", "labels", "node_ids", "split"):
        assert np.array_equal(getattr(found, array), getattr(graph, array)), array
    assert type(found.features) is type(graph.features)
    difference = found.features - graph.features
    assert abs(difference).sum() == 0


@pytest.mark.parametrize("layout", ["to_dense", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc"])
def test_from_pyg_takes_every_layout(layout):
    x = torch.tensor(FEATURES)
    graph = from_pyg(data(x=x if layout == "to_dense" else getattr(x, layout)()), name="mine")
    rows = graph.features if layout == "to_dense" else graph.features.toarray()
    assert rows.tolist() == FEATURES.tolist()
    assert graph.name == "mine"
    assert graph.edge_list().tolist() == [[0, 1], [1, 2]]


def test_absent_masks_mean_no_split():
    assert from_pyg(data()).split.tolist() == [0, 0, 0]
    assert from_pyg(data(train_mask=bools(1, 0, 0))).split.tolist() == [1, 0, 0]


def test_a_column_of_labels_and_half_precision_are_taken():
    graph = from_pyg(
        data(y=torch.tensor([[0], [1], [0]]), x=torch.tensor(FEATURES, dtype=torch.bfloat16)),
        classes=4,
    )
    assert graph.labels.tolist() == [0, 1, 0]
    assert graph.classes == 4
    assert graph.features.tolist() == FEATURES.tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, r"expected a tensor data\.y \(got NoneType\)"),
        ({"x": None}, r"expected a tensor data\.x"),
        ({"edge_index": None}, r"expected a tensor data\.edge_index"),
        ({"x": torch.ones(3)}, r"expected x of shape \(nodes, features\) \(got \(3,\)\)"),
        ({"edge_index": torch.tensor([[0, 1, 2]])}, r"shape \(2, E\) \(got \(1, 3\)\)"),
        ({"y": torch.ones(3)}, r"one class number .* 3 nodes \(got torch.float32"),
        ({"y": torch.ones(3, 4, dtype=torch.int64)}, r"shape \(3, 4\)"),
        ({"train_mask": torch.ones(3, 10, dtype=torch.bool)}, r"10 splits .*train_mask\[:, 0\]"),
        ({"val_mask": torch.tensor([0, 2])}, r"val_mask to be bool of shape \(3,\)"),
        (
            {"train_mask": bools(1, 1, 0), "test_mask": bools(0, 1, 1)},
            r"one mask at most \(node 1 is in test_mask too\)",
        ),
        ({"y": torch.tensor([0, -1, 0]), "train_mask": bools(1, 1, 0)}, "node 1 has no label"),
    ],
)
def test_what_makes_no_graph_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        from_pyg(data(**changes))


def test_other_kinds_of_data_are_refused():
    with pytest.raises(InputError, match=r"one kind of node \(got HeteroData\)"):
        from_pyg(pyg.HeteroData())


@pytest.mark.parametrize("call", [lambda: to_pyg(path()), lambda: from_pyg(object())])
def test_without_torch_geometric_the_error_says_how_to_get_it(monkeypatch, call):
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(InputError, match=r"pip install 'feddep\[pyg\]'"):
        call()
