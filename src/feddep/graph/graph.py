"""The one graph type: undirected, attributed, labelled, immutable, validated."""

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numba import njit

from feddep.errors import InputError
from feddep.graph.adjacency import adjacency
from feddep.graph.csr import check_sparse
from feddep.graph.flows import check_flows, flows_of, mirrored
from feddep.graph.marks import Marks
from feddep.graph.outside import OutsideLinks
from feddep.graph.schema import Schema

Array = npt.NDArray[Any]
Features = npt.NDArray[np.float32] | sp.csr_array

LARGEST_CLASSES = 65_536
"""More are a mistake, such as account numbers read as labels; each would take memory."""


class Part(IntEnum):
    """What a node is used for. ``NONE`` is a node without a label or outside the split."""

    NONE = 0
    TRAIN = 1
    VAL = 2
    TEST = 3


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph G = (V, E, X) with labels and a split, n nodes, E edges, d features.

    Both directions of an edge are stored; lists are sorted, without self-loops or repeats.

    Attributes:
        indptr: ``(n+1,)`` int64, where each node's neighbour list starts.
        indices: ``(2E,)`` int32, the neighbour lists.
        features: ``(n, d)`` float32, a SciPy CSR array or a dense array. A sparse one stays sparse.
        labels: ``(n,)`` int64 in ``[0, classes)``, or -1 where unknown.
        classes: number of classes.
        node_ids: ``(n,)`` int64 or str, the owner's names for the nodes.
        split: ``(n,)`` int8, a :class:`Part` for every node.
        name: what the graph is called in records.
        outside: links to nodes of other silos, where the owner knows them.
        flows: ``(2E,)`` float32, what goes from a node to each neighbour in its list: the weights
            of the edges in this direction. None where direction and weight are not known.
        schema: what the feature columns and classes mean; None where nobody said.
        marks: what nodes may be divided by besides chance, where the owner says so.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    features: Features
    labels: npt.NDArray[np.int64]
    classes: int
    node_ids: Array
    split: npt.NDArray[np.int8]
    name: str = "graph"
    outside: OutsideLinks | None = None
    schema: Schema | None = None
    marks: Marks | None = None
    flows: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        _check_adjacency(self.indptr, self.indices)
        _check_features(self.features, self.nodes)
        _check_schema(self.schema, self.feature_count, self.classes)
        _check_labels(self.labels, self.split, self.classes, self.nodes)
        if self.node_ids.shape != (self.nodes,):
            raise InputError(
                f"expected one node id per node, {self.nodes} (got shape {self.node_ids.shape})"
            )
        if self.node_ids.dtype.kind not in "iuU":
            raise InputError(f"node ids must be whole numbers or text (got {self.node_ids.dtype})")
        if len(np.unique(self.node_ids)) != self.nodes:
            raise InputError(f"node ids must be unique ({_first_repeat(self.node_ids)!r} repeats)")
        if self.outside is not None:
            self.outside.check(self.nodes)
        if self.marks is not None and len(self.marks) != self.nodes:
            raise InputError(f"expected marks of {self.nodes} nodes (got {len(self.marks)})")
        if self.flows is not None:
            check_flows(self.flows, len(self.indices))
        for array in (self.indptr, self.indices, self.labels, self.node_ids, self.split):
            array.flags.writeable = False
        if isinstance(self.features, np.ndarray):
            self.features.flags.writeable = False
        else:
            for array in (self.features.indptr, self.features.indices, self.features.data):
                array.flags.writeable = False

    @classmethod
    def from_edges(
        cls,
        edges: npt.ArrayLike,
        features: npt.ArrayLike | sp.sparray | sp.spmatrix,
        labels: npt.ArrayLike,
        *,
        classes: int | None = None,
        node_ids: npt.ArrayLike | None = None,
        split: npt.ArrayLike | None = None,
        name: str = "graph",
        outside: OutsideLinks | None = None,
        schema: Schema | None = None,
        marks: Marks | None = None,
        weights: npt.ArrayLike | None = None,
    ) -> Self:
        """Builds a graph from ``(E, 2)`` node numbers; drops self-loops.

        Sparse features stay sparse. ``classes`` defaults to the largest label plus one. Direction
        and repeats are dropped, unless there are ``weights``, ``(E,)`` from the first node to the
        second: then they make the graph's flows.
        """
        matrix = as_features(features)
        nodes = matrix.shape[0]
        pairs = _pairs(edges, nodes)
        indptr, indices = adjacency(pairs, nodes)
        label_array = np.asarray(labels, dtype=np.int64)
        if classes is None:
            classes = int(label_array.max(initial=-1)) + 1
        return cls(
            indptr=indptr,
            indices=indices,
            features=matrix,
            labels=label_array.copy(),
            classes=classes,
            node_ids=np.arange(nodes) if node_ids is None else np.array(node_ids),
            split=np.zeros(nodes, np.int8) if split is None else np.array(split, dtype=np.int8),
            name=name,
            outside=outside,
            schema=schema,
            marks=marks,
            flows=None if weights is None else flows_of(pairs, weights, indptr, indices),
        )

    @property
    def nodes(self) -> int:
        """n = |V|."""
        return len(self.indptr) - 1

    @property
    def edges(self) -> int:
        """|E|, each undirected edge once."""
        return len(self.indices) // 2

    @property
    def feature_count(self) -> int:
        """d, the number of feature columns."""
        return int(self.features.shape[1])

    @cached_property
    def degree_histogram(self) -> tuple[tuple[int, int], ...]:
        """``((degree, nodes), …)``, ascending."""
        values, counts = np.unique(self.degrees, return_counts=True)
        return tuple(zip(values.tolist(), counts.tolist(), strict=True))

    @property
    def degrees(self) -> npt.NDArray[np.int64]:
        """``(n,)`` number of neighbours of each node."""
        return np.diff(self.indptr)

    def members(self, part: Part) -> npt.NDArray[np.int64]:
        """The nodes of one part of the split, in ascending order."""
        return np.flatnonzero(self.split == part)

    def mask(self, part: Part) -> npt.NDArray[np.bool_]:
        """``(n,)`` True where a node belongs to ``part``."""
        mask: npt.NDArray[np.bool_] = self.split == part
        return mask

    def edge_list(self) -> npt.NDArray[np.int32]:
        """``(E, 2)`` node numbers, each undirected edge once with the smaller number first."""
        source = np.repeat(np.arange(self.nodes, dtype=np.int32), self.degrees)
        once = source < self.indices
        return np.stack([source[once], self.indices[once]], axis=1)

    def edge_flows(self) -> npt.NDArray[np.float32]:
        """``(E, 2)`` for each row of :meth:`edge_list`, what goes there and what comes back.

        Raises:
            InputError: the graph does not know.
        """
        if self.flows is None:
            raise InputError(f"{self.name} does not know direction and weight of its edges")
        back = mirrored(self.indptr, self.indices, self.flows)
        once = np.repeat(np.arange(self.nodes), self.degrees) < self.indices
        return np.stack([self.flows[once], back[once]], axis=1)

    def subgraph(self, nodes: npt.ArrayLike, name: str | None = None) -> "Graph":
        """The graph induced by ``nodes``, renumbered in the order given.

        Ids, split, outside links, marks and flows are kept.
        """
        chosen = np.asarray(nodes, dtype=np.int64)
        matrix = _as_matrix(self.indptr, self.indices, self.flows)
        inner = matrix[chosen][:, chosen].tocsr()
        inner.sort_indices()
        return Graph(
            indptr=inner.indptr.astype(np.int64),
            indices=inner.indices.astype(np.int32),
            features=self.features[chosen],
            labels=self.labels[chosen],
            classes=self.classes,
            node_ids=self.node_ids[chosen],
            split=self.split[chosen],
            name=self.name if name is None else name,
            outside=self.outside and self.outside.among(chosen, self.nodes),
            schema=self.schema,
            marks=self.marks and self.marks.among(chosen),
            flows=None if self.flows is None else inner.data,
        )

    def with_edges(self, edges: npt.ArrayLike) -> "Graph":
        """The same nodes with other edges, ``(E, 2)`` node numbers, of unknown weight."""
        indptr, indices = adjacency(_pairs(edges, self.nodes), self.nodes)
        return replace(self, indptr=indptr, indices=indices, flows=None)

    def with_split(self, split: npt.ArrayLike) -> "Graph":
        """The same graph with another split."""
        return replace(self, split=np.array(split, dtype=np.int8))

    @property
    def nbytes(self) -> int:
        """Bytes of the raw arrays."""
        own: list[Array] = [self.indptr, self.indices, self.labels, self.node_ids, self.split]
        if self.flows is not None:
            own.append(self.flows)
        if self.outside is not None:
            own += [self.outside.nodes, self.outside.silos, self.outside.ids]
        if isinstance(self.features, np.ndarray):
            return sum(a.nbytes for a in own) + self.features.nbytes
        sparse = (self.features.indptr, self.features.indices, self.features.data)
        return sum(a.nbytes for a in [*own, *sparse])

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}, nodes={self.nodes}, edges={self.edges}, "
            f"features={self.feature_count}, classes={self.classes})"
        )


def as_features(
    features: npt.ArrayLike | sp.sparray | sp.spmatrix, *, copy: bool = True
) -> Features:
    """Features as float32; a copy, unless nobody else can change them."""
    if sp.issparse(features):
        check_sparse(features)
        matrix = sp.csr_array(features, dtype=np.float32, copy=copy)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix
    try:
        dense = np.array(features, dtype=np.float32, order="C", copy=copy or None)
    except (TypeError, ValueError) as error:
        raise InputError(f"features must be numbers ({error})") from None
    if dense.ndim != 2:
        raise InputError(f"features must be a table of nodes × columns (got shape {dense.shape})")
    return dense


def _pairs(edges: npt.ArrayLike, nodes: int) -> npt.NDArray[np.int32]:
    pairs = np.asarray(edges)
    if pairs.size == 0:
        pairs = np.empty((0, 2), np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"edges must be whole numbers of shape (E, 2) (got {pairs.dtype} {pairs.shape})"
        )
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= nodes):
        bad = pairs[((pairs < 0) | (pairs >= nodes)).any(axis=1)][0]
        raise InputError(
            f"edge ({bad[0]}, {bad[1]}) names an unknown node; nodes are 0 to {nodes - 1}"
        )
    return np.ascontiguousarray(pairs, np.int32)


def _as_matrix(indptr: Array, indices: Array, flows: Array | None) -> sp.csr_array:
    nodes = len(indptr) - 1
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)  # or SciPy widens the much longer indices to int64
    content = np.ones(len(indices), np.bool_) if flows is None else flows
    return sp.csr_array((content, indices, indptr), (nodes, nodes))


def _check_adjacency(indptr: Array, indices: Array) -> None:
    nodes = len(indptr) - 1
    if nodes < 1:
        raise InputError("a graph needs at least one node (got none)")
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise InputError("indptr must rise from 0 to the number of list entries")
    if len(indices) == 0:
        return
    if indices.min() < 0 or indices.max() >= nodes:
        raise InputError(f"an edge names a node that does not exist; nodes are 0 to {nodes - 1}")
    fault = _fault(np.asarray(indptr), np.asarray(indices))
    if fault:
        raise InputError(_FAULTS[fault])


_FAULTS = {
    1: "neighbour lists must be sorted and without repeats",
    2: "self-loops are not allowed; the model looks at the node itself anyway",
    3: "every edge must be stored in both directions; use Graph.from_edges",
}


@njit(cache=True)
def _fault(indptr: Array, indices: Array) -> int:
    """The first of :data:`_FAULTS` in an adjacency, 0 for none; makes no copy of it."""
    nodes = len(indptr) - 1
    for u in range(nodes):
        for place in range(indptr[u] + 1, indptr[u + 1]):
            if indices[place - 1] >= indices[place]:
                return 1
    for u in range(nodes):
        for place in range(indptr[u], indptr[u + 1]):
            if indices[place] == u:
                return 2
    # Nodes are met in ascending order, so each list must name them in just this order.
    next_place = indptr[:-1].copy()
    for u in range(nodes):
        for place in range(indptr[u], indptr[u + 1]):
            v = indices[place]
            if next_place[v] == indptr[v + 1] or indices[next_place[v]] != u:
                return 3
            next_place[v] += 1
    return 0


def _check_features(features: Features, nodes: int) -> None:
    if features.ndim != 2 or features.shape[0] != nodes or features.shape[1] < 1:
        raise InputError(f"expected features of {nodes} nodes (got shape {features.shape})")
    if features.dtype != np.float32:
        raise InputError(f"features must be float32 (got {features.dtype})")
    values = features if isinstance(features, np.ndarray) else features.data
    bad = ~np.isfinite(values)
    if bad.any():
        position = np.flatnonzero(bad.ravel())[0]
        if isinstance(features, np.ndarray):
            row = position // features.shape[1]
        else:
            row = np.searchsorted(features.indptr, position, side="right") - 1
        raise InputError(
            f"features must be finite: {int(bad.sum())} values are NaN or infinite, "
            f"the first in row {row}; replace or drop them"
        )


def _check_schema(schema: Schema | None, columns: int, classes: int) -> None:
    if schema is None:
        return
    if len(schema.features) != columns:
        raise InputError(
            f"the schema names {len(schema.features)} feature columns (got {columns} of them)"
        )
    if schema.classes and len(schema.classes) != classes:
        raise InputError(f"the schema names {len(schema.classes)} classes (got {classes})")


def _check_labels(labels: Array, split: Array, classes: int, nodes: int) -> None:
    if labels.shape != (nodes,) or split.shape != (nodes,):
        raise InputError(
            f"expected a label and a part for each of {nodes} nodes "
            f"(got {labels.shape} and {split.shape})"
        )
    if classes > LARGEST_CLASSES:
        raise InputError(
            f"a label of {classes - 1} would make {classes} classes, of which at most "
            f"{LARGEST_CLASSES} are possible; number the classes from 0"
        )
    if labels.min() < -1 or labels.max() >= classes:
        raise InputError(
            f"labels must be 0 to {classes - 1}, or -1 where unknown "
            f"(got {labels.min()} to {labels.max()})"
        )
    if split.min() < Part.NONE or split.max() > Part.TEST:
        raise InputError(f"the split must hold 0 to 3 (got {split.min()} to {split.max()})")
    if ((labels < 0) & (split != Part.NONE)).any():
        row = np.flatnonzero((labels < 0) & (split != Part.NONE))[0]
        raise InputError(f"node {row} has no label but is in the split; take it out of the split")


def _first_repeat(ids: Array) -> object:
    values, counts = np.unique(ids, return_counts=True)
    return values[counts > 1][0].item()
