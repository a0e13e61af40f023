"""One graph as a folder of plain files: CSV, NumPy arrays, a manifest of hashes. No pickle.

A *graph folder* holds::

    manifest.json   format, counts, and the SHA-256 of every other file
    nodes.csv       id,label,split     (label or split empty where there is none)
    edges.csv       source,target      (ids; every undirected edge once)
    features.npz    the parts of a SciPy CSR array, rows as in nodes.csv; or
    features.npy    a dense float32 array
    outside.csv     node,silo,id       (links to nodes of other silos, if the owner knows them)
    marks.csv       case,time          (what nodes may be divided by, rows as in nodes.csv)
    flows.npy       what goes from source to target and what comes back, a row for each of
                    edges.csv, if direction and weight are kept
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import NonNegativeInt, PositiveInt

from feddep.errors import DataError, InputError
from feddep.graph.adjacency import adjacency
from feddep.graph.csr import checked_csr
from feddep.graph.files import (
    AnyPath,
    Manifest,
    as_data_error,
    csv_slices,
    expected_at,
    format_of,
    hash_files,
    read_csv,
    read_manifest,
    replacing,
    verify_files,
    write_csv,
    write_manifest,
)
from feddep.graph.flows import flows_of
from feddep.graph.graph import Array, Features, Graph, Part, as_features
from feddep.graph.marks import Marks
from feddep.graph.outside import OutsideLinks
from feddep.graph.schema import Column, Schema
from feddep.reading import check_unpacked, is_plain

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

NODE_COLUMNS = ("id", "label", "split")
EDGE_COLUMNS = ("source", "target")
OUTSIDE_COLUMNS = ("node", "silo", "id")
MARK_COLUMNS = ("case", "time")
PART_NAMES = {Part.NONE: "", Part.TRAIN: "train", Part.VAL: "val", Part.TEST: "test"}

_NODES = "nodes.csv"
_EDGES = "edges.csv"
_OUTSIDE = "outside.csv"
_MARKS = "marks.csv"
_FLOWS = "flows.npy"
_SPARSE = "features.npz"
_DENSE = "features.npy"


class _GraphManifest(Manifest):
    format: Literal["feddep-graph"] = "feddep-graph"
    version: Literal[1] = 1
    name: str
    nodes: PositiveInt
    edges: NonNegativeInt
    feature_count: PositiveInt
    classes: NonNegativeInt
    ids: Literal["integer", "text"]  # "7" may be either
    outside_ids: Literal["integer", "text"] | None = None
    columns: tuple[Column, ...] | None = None
    class_names: tuple[str, ...] | None = None
    files: dict[str, str]

    @property
    def known_schema(self) -> Schema | None:
        """What the columns and classes mean, if the folder says so."""
        if self.columns is None:
            return None
        return Schema(self.columns, self.class_names or ())


def write_graph(graph: Graph, folder: AnyPath, *, overwrite: bool = False) -> None:
    """Writes a graph folder.

    Args:
        graph: what to write.
        folder: where; a folder that holds something else is refused.
        overwrite: replace a graph folder or shard collection that is already there.
    """
    with replacing(Path(folder), overwrite) as draft:
        fill_graph_folder(graph, draft)


def read_graph(folder: AnyPath) -> Graph:
    """The graph in a graph folder, exactly as it was written.

    Raises:
        DataError: a file is missing, does not match the manifest, or its content is not a valid
            graph.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, _GraphManifest)
    features = _SPARSE if _SPARSE in manifest.files else _DENSE
    more = {_OUTSIDE} if manifest.outside_ids else set()
    more |= {_MARKS, _FLOWS} & manifest.files.keys()
    verify_files(folder, manifest.files, required={_NODES, _EDGES, features} | more)
    ids, labels, split = _read_nodes(folder / _NODES, manifest.ids)
    _check_count(folder, "nodes", len(ids), manifest.nodes)
    edges = _read_edges(folder / _EDGES, manifest.ids, ids)
    outside = None
    if manifest.outside_ids:
        outside = _read_outside(folder / _OUTSIDE, ids, manifest.outside_ids)
    with as_data_error(folder):
        indptr, indices = adjacency(edges, len(ids))
        flows = read_flows(folder / _FLOWS, edges, indptr, indices) if _FLOWS in more else None
        del edges
        graph = Graph(
            indptr=indptr,
            indices=indices,
            features=as_features(read_features(folder / features), copy=False),
            labels=labels,
            classes=manifest.classes,
            node_ids=ids,
            split=split,
            name=manifest.name,
            outside=outside,
            schema=manifest.known_schema,
            marks=_read_marks(folder / _MARKS) if _MARKS in more else None,
            flows=flows,
        )
    _check_count(folder, "edges", graph.edges, manifest.edges)
    _check_count(folder, "feature columns", graph.feature_count, manifest.feature_count)
    return graph


def is_graph_folder(folder: AnyPath) -> bool:
    """Whether this is a graph folder, by the format named in its manifest."""
    return format_of(Path(folder)) == "feddep-graph"


def fill_graph_folder(graph: Graph, folder: Path) -> None:
    """Writes the files of a graph folder into ``folder``, creating it if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    _check_ids_can_be_written(graph.node_ids)
    _write_nodes(folder / _NODES, graph)
    write_id_pairs(folder / _EDGES, graph.edge_list(), graph.node_ids)
    files = [_NODES, _EDGES, _write_features(folder, graph.features)]
    if graph.flows is not None:
        np.save(folder / _FLOWS, graph.edge_flows(), allow_pickle=False)
        files.append(_FLOWS)
    if graph.outside is not None:
        _write_outside(folder / _OUTSIDE, graph.outside, graph.node_ids)
        files.append(_OUTSIDE)
    if graph.marks is not None:
        _check_ids_can_be_written(graph.marks.case)
        case, time = graph.marks.case, graph.marks.time
        write_csv(folder / _MARKS, MARK_COLUMNS, graph.nodes, lambda rows: [case[rows], time[rows]])
        files.append(_MARKS)
    manifest = _GraphManifest(
        name=graph.name,
        nodes=graph.nodes,
        edges=graph.edges,
        feature_count=graph.feature_count,
        classes=graph.classes,
        ids=_kind(graph.node_ids),
        outside_ids=None if graph.outside is None else _kind(graph.outside.ids),
        columns=None if graph.schema is None else graph.schema.columns,
        class_names=None if graph.schema is None else graph.schema.classes,
        files=hash_files(folder, files),
    )
    write_manifest(folder, manifest)


def _write_nodes(path: Path, graph: Graph) -> None:
    parts = np.array([PART_NAMES[part] for part in Part])

    def columns(rows: slice) -> tuple[Array, ...]:
        labels = graph.labels[rows]
        texts = np.where(labels < 0, "", labels.astype(np.str_))
        return graph.node_ids[rows], texts, parts[graph.split[rows]]

    write_csv(path, NODE_COLUMNS, graph.nodes, columns)


def _check_ids_can_be_written(node_ids: Array) -> None:
    if node_ids.dtype.kind in "iu":
        return
    if node_ids.dtype.kind != "U":
        raise InputError(f"node ids must be whole numbers or text (got {node_ids.dtype})")
    broken = (np.strings.find(node_ids, "\n") >= 0) | (np.strings.find(node_ids, "\r") >= 0)
    if broken.any():
        raise InputError(f"a node id must be one line (got {node_ids[broken][0].item()!r})")


def _read_nodes(path: Path, ids: str) -> tuple[Array, Longs, npt.NDArray[np.int8]]:
    """Ids, labels and split of a nodes.csv of our own."""
    found: list[tuple[Array, Longs, npt.NDArray[np.int8]]] = []
    line = 2
    for table in csv_slices(path, NODE_COLUMNS, np.str_):
        names, labels, parts = table.T
        split = np.full(len(table), -1, np.int8)
        for part, name in PART_NAMES.items():
            split[parts == name] = part
        if (split < 0).any():
            row = int(np.flatnonzero(split < 0)[0])
            expectation = "a split of train, val, test or none"
            raise DataError(expected_at(path, line + row, expectation, parts[row]))
        with as_data_error(path):
            numbers = np.where(labels == "", "-1", labels).astype(np.int64)
            named = names.astype(np.int64) if ids == "integer" else names.copy()
        found.append((named, numbers, split))
        line += len(table)
    named, numbers, split = (np.concatenate(column) for column in zip(*found, strict=True))
    return named, numbers, split


def _read_edges(path: Path, ids: str, node_ids: Array) -> Ints:
    """``(E, 2)`` node numbers, from a file of our own."""
    order = np.argsort(node_ids)
    found, line = [np.empty((0, 2), np.int32)], 2
    for pairs in csv_slices(path, EDGE_COLUMNS, np.int64 if ids == "integer" else np.str_):
        found.append(numbers_of(pairs, node_ids, path, order=order, line=line))
        line += len(pairs)
    return np.concatenate(found)


def read_flows(path: Path, edges: Ints, indptr: Longs, indices: Ints) -> npt.NDArray[np.float32]:
    """The flows of edges, from a file with both directions of each.

    Raises:
        InputError: it does not fit them.
    """
    there = np.load(path, allow_pickle=False)
    if there.dtype != np.float32 or there.shape != (len(edges), 2):
        raise InputError(
            f"{path}: expected float32 of shape {(len(edges), 2)} (got {there.dtype} {there.shape})"
        )
    forth = flows_of(edges, there[:, 0], indptr, indices)
    return forth + flows_of(edges[:, ::-1], there[:, 1], indptr, indices)


def write_id_pairs(path: Path, edges: Ints, node_ids: Array) -> None:
    """Writes edges, given as node numbers, as pairs of ids."""
    write_csv(path, EDGE_COLUMNS, len(edges), lambda rows: tuple(node_ids[edges[rows]].T))


def read_id_pairs(path: Path, ids: str) -> Array:
    """``(E, 2)`` pairs of ids; ``ids`` says which, "integer" or "text"."""
    return read_csv(path, EDGE_COLUMNS, np.int64 if ids == "integer" else np.str_)


def _kind(ids: Array) -> Literal["integer", "text"]:
    return "integer" if ids.dtype.kind in "iu" else "text"


def _write_outside(path: Path, outside: OutsideLinks, node_ids: Array) -> None:
    """Writes outside links, the own nodes by their ids."""
    _check_ids_can_be_written(outside.ids)
    _check_ids_can_be_written(np.array(outside.names, np.str_))
    columns = (node_ids[outside.nodes], outside.silo_names, outside.ids)
    write_csv(path, OUTSIDE_COLUMNS, len(outside), lambda rows: [own[rows] for own in columns])


def _read_marks(path: Path) -> Marks:
    """The marks in a file of our own."""
    table = read_csv(path, MARK_COLUMNS, np.str_)
    with as_data_error(path):
        return Marks(table[:, 0], table[:, 1].astype(np.float64))


def _read_outside(path: Path, node_ids: Array, ids: str) -> OutsideLinks:
    """The outside links in a file of our own; ``ids`` says how other silos name their nodes."""
    table = read_csv(path, OUTSIDE_COLUMNS, np.str_)
    with as_data_error(path):
        own = table[:, :1].astype(np.int64) if node_ids.dtype.kind in "iu" else table[:, :1]
        nodes = numbers_of(own, node_ids, path, OUTSIDE_COLUMNS)[:, 0]
        silos, others = table[:, 1], table[:, 2]
        return OutsideLinks.of(
            nodes, silos, others.astype(np.int64) if ids == "integer" else others
        )


def numbers_of(
    pairs: Array,
    node_ids: Array,
    path: Path,
    columns: Sequence[str] = EDGE_COLUMNS,
    *,
    order: Longs | None = None,
    line: int = 2,
) -> Ints:
    """The node numbers of pairs of ids, read from ``path``; an unknown id is an error.

    Args:
        pairs: of ids.
        node_ids: of all nodes.
        path: the file, for messages.
        columns: its header, for messages.
        order: what sorts the ids of all nodes, if it is known.
        line: where the pairs begin in the file.
    """
    order = np.argsort(node_ids) if order is None else order
    place = np.searchsorted(node_ids, pairs, sorter=order)
    number = order.astype(np.int32)[np.minimum(place, len(order) - 1)]
    unknown = node_ids[number] != pairs
    if unknown.any():
        row, column = np.argwhere(unknown)[0]
        expectation = f"the id of a node as {columns[column]}"
        raise DataError(expected_at(path, line + row, expectation, pairs[row, column]))
    return number


def _write_features(folder: Path, features: Features) -> str:
    """Writes the features and returns the name of the file."""
    if isinstance(features, np.ndarray):
        np.save(folder / _DENSE, features, allow_pickle=False)
        return _DENSE
    np.savez(
        folder / _SPARSE,
        indptr=features.indptr,
        indices=features.indices,
        data=features.data,
        shape=np.array(features.shape, np.int64),
    )
    return _SPARSE


def read_features(path: Path) -> Features:
    """Features from a dense .npy or from the CSR parts in an .npz, e.g. of ``scipy.save_npz``."""
    if path.suffix not in (".npz", ".npy"):
        raise InputError(f"expected features in an .npz or .npy file (got {path.name!r})")
    if path.exists() and not is_plain(path):
        raise DataError(f"{path} is not a plain file")
    with as_data_error(path):
        if path.suffix == ".npz":
            check_unpacked(path)
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            if loaded.ndim != 2 or loaded.dtype.kind not in "biuf":
                raise InputError(
                    f"expected a table of numbers (got {loaded.dtype} of shape {loaded.shape})"
                )
            return loaded.astype(np.float32, copy=False)
        with loaded:
            return _csr_from(loaded)


def _csr_from(parts: np.lib.npyio.NpzFile) -> sp.csr_array:
    names = {"indptr", "indices", "data", "shape"}
    layout = parts["format"].item() if "format" in parts else b"csr"  # SciPy says which it is
    if not names <= set(parts.files) or layout != b"csr":
        raise InputError(
            f"expected the arrays {', '.join(sorted(names))} of a CSR array "
            f"(got {', '.join(sorted(parts.files))}, format {layout!r})"
        )
    data, indices, indptr = (parts[name] for name in ("data", "indices", "indptr"))
    table = checked_csr(data, indices, indptr, parts["shape"])
    return table.astype(np.float32, copy=False)


def _check_count(folder: Path, what: str, found: int, promised: int) -> None:
    if found != promised:
        raise DataError(f"{folder}: the manifest promises {promised} {what} (got {found})")
