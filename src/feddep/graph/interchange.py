"""Graphs to and from PyTorch Geometric, which is optional: ``pip install 'feddep[pyg]'``."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from feddep.errors import InputError
from feddep.graph.csr import checked_csr
from feddep.graph.graph import Array, Features, Graph, Part
from feddep.graph.outside import OutsideLinks

# torch_geometric's Data; typed as Any because the package may be absent.
PygData = Any

_MASKS = {"train_mask": Part.TRAIN, "val_mask": Part.VAL, "test_mask": Part.TEST}


def from_pyg(
    data: PygData, *, classes: int | None = None, name: str = "graph", flows: bool = False
) -> Graph:
    """A graph from a ``torch_geometric.data.Data``.

    Self-loops are dropped, and so are direction, repeats and weights of edges, unless ``flows``
    are asked for. Sparse ``x`` stays sparse. Absent masks leave nodes outside the split.

    Args:
        data: with ``x`` ``(n, d)``, ``edge_index`` ``(2, E)`` and ``y`` ``(n,)`` or ``(n, 1)``,
            where -1 is unknown; optional ``train_mask``, ``val_mask``, ``test_mask`` ``(n,)`` and
            ``node_ids`` ``(n,)``; for links to other silos ``outside_nodes`` ``(L,)``,
            ``outside_silos`` (their names) and ``outside_ids``.
        classes: number of classes; by default the largest label plus one.
        name: what to call the graph.
        flows: keep direction, and ``edge_weight`` ``(E,)`` as weights; without it, all are 1.
    """
    _check_kind(data)
    x = _tensor(data, "x")
    nodes = x.shape[0]
    node_ids = getattr(data, "node_ids", None)
    return Graph.from_edges(
        _edges(_tensor(data, "edge_index")),
        _features(x),
        _labels(_tensor(data, "y"), nodes),
        classes=classes,
        node_ids=_array(node_ids) if isinstance(node_ids, torch.Tensor) else node_ids,
        split=_split(data, nodes),
        name=name,
        outside=_outside(data),
        weights=_weights(data) if flows else None,
    )


def _weights(data: PygData) -> Array:
    if getattr(data, "edge_weight", None) is None:
        return np.ones(data.edge_index.shape[1], np.float32)
    return _array(_tensor(data, "edge_weight"))


def _outside(data: PygData) -> OutsideLinks | None:
    columns: list[Any] = [
        getattr(data, f"outside_{column}", None) for column in ("nodes", "silos", "ids")
    ]
    if all(column is None for column in columns):
        return None
    nodes, silos, ids = (_array(c) if isinstance(c, torch.Tensor) else c for c in columns)
    return OutsideLinks.of(nodes, silos, ids)


def to_pyg(graph: Graph, *, dense: bool = False) -> PygData:
    """The graph as a ``torch_geometric.data.Data`` that shares no memory with it.

    It has ``x``, ``edge_index`` (both directions), ``y``, ``train_mask``, ``val_mask``,
    ``test_mask`` and, if they are integers, ``node_ids``. Links to other silos are in
    ``outside_nodes``, ``outside_silos`` (a list of names) and ``outside_ids``; flows, if they are
    known, are the ``edge_weight``.

    Args:
        graph: what to convert.
        dense: make sparse features dense. Otherwise ``x`` is a ``torch.sparse_csr_tensor``, which
            most but not all of PyG's layers accept.
    """
    source = np.repeat(np.arange(graph.nodes), graph.degrees)
    data = _data_class()(
        x=_feature_tensor(graph.features, dense),
        edge_index=torch.from_numpy(np.stack([source, graph.indices.astype(np.int64)])),
        y=torch.tensor(graph.labels),
    )
    if graph.flows is not None:
        data.edge_weight = torch.tensor(graph.flows)
    for mask, part in _MASKS.items():
        data[mask] = torch.from_numpy(graph.mask(part))
    if graph.node_ids.dtype.kind in "iu":
        data.node_ids = torch.tensor(graph.node_ids)
    if graph.outside is not None:
        outside = graph.outside
        data.outside_nodes = torch.tensor(outside.nodes, dtype=torch.int64)
        data.outside_silos = outside.silo_names.tolist()
        integers = outside.ids.dtype.kind in "iu"
        data.outside_ids = torch.tensor(outside.ids) if integers else outside.ids.tolist()
    return data


def _data_class() -> Any:
    try:
        from torch_geometric.data import Data
    except ImportError:
        raise InputError(
            "PyTorch Geometric is not installed; run: pip install 'feddep[pyg]'"
        ) from None
    return Data


def _check_kind(data: PygData) -> None:
    expected = _data_class()
    if not isinstance(data, expected):
        raise InputError(
            f"expected a torch_geometric.data.Data, one graph with one kind of node "
            f"(got {type(data).__name__})"
        )


def _tensor(data: PygData, attribute: str) -> torch.Tensor:
    value = getattr(data, attribute, None)
    if not isinstance(value, torch.Tensor):
        raise InputError(f"expected a tensor data.{attribute} (got {type(value).__name__})")
    return value


def _array(tensor: torch.Tensor) -> Array:
    """A view where possible; :meth:`Graph.from_edges` copies."""
    return np.asarray(tensor.detach().cpu().numpy())


def _edges(edge_index: torch.Tensor) -> Array:
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise InputError(f"expected edge_index of shape (2, E) (got {tuple(edge_index.shape)})")
    return _array(edge_index).T


def _features(x: torch.Tensor) -> Features:
    if x.ndim != 2:
        raise InputError(f"expected x of shape (nodes, features) (got {tuple(x.shape)})")
    x = x.to(torch.float32)
    if x.layout == torch.strided:
        return _array(x)
    csr = x.to_sparse_csr()
    data, indices, indptr = map(_array, (csr.values(), csr.col_indices(), csr.crow_indices()))
    return checked_csr(data, indices, indptr, tuple(x.shape))


def _labels(y: torch.Tensor, nodes: int) -> Array:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape != (nodes,) or y.is_floating_point():
        raise InputError(
            f"expected y to hold one class number for each of {nodes} nodes "
            f"(got {y.dtype} of shape {tuple(y.shape)})"
        )
    return _array(y)


def _split(data: PygData, nodes: int) -> npt.NDArray[np.int8]:
    split = np.zeros(nodes, np.int8)
    for name, part in _MASKS.items():
        if getattr(data, name, None) is None:
            continue
        mask = _mask(_tensor(data, name), name, nodes)
        if split[mask].any():
            node = int(np.flatnonzero(mask & (split != Part.NONE))[0])
            raise InputError(f"expected a node in one mask at most (node {node} is in {name} too)")
        split[mask] = part
    return split


def _mask(mask: torch.Tensor, name: str, nodes: int) -> npt.NDArray[np.bool_]:
    if mask.ndim == 2:
        raise InputError(
            f"{name} holds {mask.shape[1]} splits side by side; choose one, "
            f"e.g. data.{name} = data.{name}[:, 0]"
        )
    if mask.shape != (nodes,) or mask.dtype != torch.bool:
        raise InputError(
            f"expected {name} to be bool of shape ({nodes},) "
            f"(got {mask.dtype} of shape {tuple(mask.shape)})"
        )
    return _array(mask)


def _feature_tensor(features: Features, dense: bool) -> torch.Tensor:
    if isinstance(features, np.ndarray):
        return torch.tensor(features)
    if dense:
        return torch.from_numpy(features.toarray())
    return torch.sparse_csr_tensor(
        torch.tensor(features.indptr, dtype=torch.int64),
        torch.tensor(features.indices, dtype=torch.int64),
        torch.tensor(features.data),
        size=features.shape,
        check_invariants=False,  # SciPy's hold; saying so keeps torch from warning
    )
