"""Graphs and shards as folders of plain files: CSV, NumPy arrays, a manifest of hashes. No pickle.

A *graph folder* holds one graph::

    manifest.json   format, counts, and the SHA-256 of every other file
    nodes.csv       id,label,split     (label or split empty where there is none)
    edges.csv       source,target      (ids; every undirected edge once)
    features.npz    the parts of a SciPy CSR array, rows as in nodes.csv; or
    features.npy    a dense float32 array

A *shard collection* holds a partitioned graph, one graph folder per client::

    manifest.json   format, partition, and the SHA-256 of every client's manifest
    client-000/ …   a graph folder each
    order.npy       every node's position in the whole graph, client by client
    lost_edges.csv  source,target      (the edges between clients, see :data:`LOST_EDGES_NOTE`)

Hashes are checked before a file is opened. Folders are written beside their place and then renamed,
so there is never half of one. :func:`read_tables` reads the tables of somebody else.
"""

import csv
import hashlib
import json
import os
import secrets
import shutil
import zipfile
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from feddep.errors import DataError, InputError
from feddep.graph.graph import Array, Features, Graph, Part

AnyPath = str | os.PathLike[str]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

LOST_EDGES_NOTE = (
    "lost_edges.csv lists the edges between clients. Nobody in a real federation has them: the "
    "simulator keeps them here only to compute the score on the whole graph. Without the file, no "
    "such edge is known."
)

_MANIFEST = "manifest.json"
_NODES = "nodes.csv"
_EDGES = "edges.csv"
_SPARSE = "features.npz"
_DENSE = "features.npy"
_ORDER = "order.npy"
_LOST = "lost_edges.csv"

_NODE_COLUMNS = ("id", "label", "split")
_EDGE_COLUMNS = ("source", "target")
_PART_NAMES = {Part.NONE: "", Part.TRAIN: "train", Part.VAL: "val", Part.TEST: "test"}
_ROWS_AT_ONCE = 1 << 16


# --------------------------------------------------------------------------------------------------
# Shards
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Shards:
    """A graph and who owns which of its nodes: what a simulated federation starts from.

    ``shards[3]`` is client 3's graph; ``len(shards)`` and iteration go over the clients.

    Attributes:
        graph: the whole graph, which no client sees.
        owner: ``(n,)`` int32, the client of every node, 0 to M - 1; every client has a node.
        kind: how the graph was partitioned, e.g. ``"louvain"``.
        seed: the seed of the partition.
        split: how the graph was split, e.g. ``"stratified"``.
    """

    graph: Graph
    owner: Ints
    kind: str
    seed: int
    split: str = "stratified"

    def __post_init__(self) -> None:
        owner = np.asarray(self.owner)
        if owner.shape != (self.graph.nodes,) or owner.dtype.kind not in "iu":
            raise InputError(
                f"expected one owner, a whole number, for each of {self.graph.nodes} nodes "
                f"(got {owner.dtype} {owner.shape})"
            )
        if owner.min() < 0:
            raise InputError(f"owners are numbered from 0 (got {owner.min()})")
        without = np.flatnonzero(np.bincount(owner) == 0)
        if len(without):
            raise InputError(f"every client needs a node; client {without[0]} has none")
        owner = owner.astype(np.int32)  # a copy: the caller's array stays writeable
        owner.flags.writeable = False
        object.__setattr__(self, "owner", owner)

    @property
    def clients(self) -> int:
        """M, the number of clients."""
        return int(self.owner.max()) + 1

    def members(self, client: int) -> Longs:
        """The nodes of one client as numbers in the whole graph, in ascending order."""
        if not 0 <= client < self.clients:
            raise InputError(f"clients are 0 to {self.clients - 1} (got {client})")
        return np.flatnonzero(self.owner == client)

    def shard(self, client: int) -> Graph:
        """The graph induced by one client's nodes: edges to other clients are lost."""
        return self.graph.subgraph(self.members(client), name=f"{self.graph.name}/{client}")

    def lost_edges(self) -> Ints:
        """``(L, 2)`` the edges between clients, as node numbers in the whole graph."""
        edges = self.graph.edge_list()
        source_owner, target_owner = self.owner[edges].T
        lost: Ints = edges[source_owner != target_owner]
        return lost

    def __len__(self) -> int:
        return self.clients

    def __getitem__(self, client: int) -> Graph:
        return self.shard(range(self.clients)[client])

    def __iter__(self) -> Iterator[Graph]:
        return (self.shard(client) for client in range(self.clients))

    def __repr__(self) -> str:
        return f"Shards({self.graph!r}, clients={self.clients}, {self.kind!r}, seed={self.seed})"


# --------------------------------------------------------------------------------------------------
# Graph folders
# --------------------------------------------------------------------------------------------------


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _GraphManifest(_Manifest):
    format: Literal["feddep-graph"] = "feddep-graph"
    version: Literal[1] = 1
    name: str
    nodes: PositiveInt
    edges: NonNegativeInt
    feature_count: PositiveInt
    classes: NonNegativeInt
    ids: Literal["integer", "text"]  # "7" may be either
    files: dict[str, str]


def write_graph(graph: Graph, folder: AnyPath, *, overwrite: bool = False) -> None:
    """Writes a graph folder.

    Args:
        graph: what to write.
        folder: where; a folder that holds something else is refused.
        overwrite: replace a graph folder or shard collection that is already there.
    """
    with _replacing(Path(folder), overwrite) as draft:
        _fill_graph_folder(graph, draft)


def read_graph(folder: AnyPath) -> Graph:
    """The graph in a graph folder, exactly as it was written.

    Raises:
        DataError: a file is missing, is not the one that the manifest describes, or its content
            makes no graph.
    """
    folder = Path(folder)
    manifest = _read_manifest(folder, _GraphManifest)
    features = _SPARSE if _SPARSE in manifest.files else _DENSE
    _verify_files(folder, manifest.files, required={_NODES, _EDGES, features})
    ids, labels, split = _read_nodes(folder / _NODES, manifest.ids)
    _check_count(folder, "nodes", len(ids), manifest.nodes)
    pairs = _read_id_pairs(folder / _EDGES, manifest.ids)
    edges = _numbers_of(pairs, ids, folder / _EDGES)
    with _as_data_error(folder):
        graph = Graph.from_edges(
            edges,
            _read_features(folder / features),
            labels,
            classes=manifest.classes,
            node_ids=ids,
            split=split,
            name=manifest.name,
        )
    _check_count(folder, "edges", graph.edges, manifest.edges)
    _check_count(folder, "feature columns", graph.feature_count, manifest.feature_count)
    return graph


def is_graph_folder(folder: AnyPath) -> bool:
    """Whether a graph folder stands here, by its manifest's format name."""
    return _format_of(Path(folder)) == "feddep-graph"


def _fill_graph_folder(graph: Graph, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _check_ids_can_be_written(graph.node_ids)
    labels = np.where(graph.labels < 0, "", graph.labels.astype(np.str_))
    parts = np.array([_PART_NAMES[part] for part in Part])[graph.split]
    _write_csv(folder / _NODES, _NODE_COLUMNS, (graph.node_ids, labels, parts))
    _write_id_pairs(folder / _EDGES, graph.edge_list(), graph.node_ids)
    features = _write_features(folder, graph.features)
    manifest = _GraphManifest(
        name=graph.name,
        nodes=graph.nodes,
        edges=graph.edges,
        feature_count=graph.feature_count,
        classes=graph.classes,
        ids="integer" if graph.node_ids.dtype.kind in "iu" else "text",
        files=_hashes(folder, (_NODES, _EDGES, features)),
    )
    _write_manifest(folder, manifest)


def _read_nodes(path: Path, ids: str) -> tuple[Array, Longs, npt.NDArray[np.int8]]:
    """Ids, labels and split of a nodes.csv of our own."""
    table = _read_csv(path, _NODE_COLUMNS, np.str_)
    names, labels, parts = table.T
    split = np.full(len(table), -1, np.int8)
    for part, name in _PART_NAMES.items():
        split[parts == name] = part
    if (split < 0).any():
        row = int(np.flatnonzero(split < 0)[0])
        raise DataError(_expected(path, row + 2, "a split of train, val, test or none", parts[row]))
    with _as_data_error(path):
        numbers = np.where(labels == "", "-1", labels).astype(np.int64)
        return (names.astype(np.int64) if ids == "integer" else names), numbers, split


def _write_id_pairs(path: Path, edges: Ints, node_ids: Array) -> None:
    _write_csv(path, _EDGE_COLUMNS, (node_ids[edges[:, 0]], node_ids[edges[:, 1]]))


def _read_id_pairs(path: Path, ids: str) -> Array:
    return _read_csv(path, _EDGE_COLUMNS, np.int64 if ids == "integer" else np.str_)


def _numbers_of(pairs: Array, node_ids: Array, path: Path) -> Ints:
    """The node numbers of pairs of ids, read from ``path``; an id that no node has is an error."""
    order = np.argsort(node_ids)
    place = np.searchsorted(node_ids, pairs, sorter=order)
    number = order.astype(np.int32)[np.minimum(place, len(order) - 1)]
    unknown = node_ids[number] != pairs
    if unknown.any():
        row, column = np.argwhere(unknown)[0]
        expectation = f"the id of a node as {_EDGE_COLUMNS[column]}"
        raise DataError(_expected(path, row + 2, expectation, pairs[row, column]))
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


def _read_features(path: Path) -> Features:
    """Features from a dense .npy or from the CSR parts in an .npz, e.g. of ``scipy.save_npz``."""
    if path.suffix not in (".npz", ".npy"):
        raise InputError(f"expected features in an .npz or .npy file (got {path.name!r})")
    with _as_data_error(path):
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
    rows, columns = (int(size) for size in parts["shape"])
    matrix = sp.csr_array(
        (parts["data"].astype(np.float32), parts["indices"], parts["indptr"]), shape=(rows, columns)
    )
    matrix.check_format(full_check=True)
    return matrix


def _check_count(folder: Path, what: str, found: int, promised: int) -> None:
    if found != promised:
        raise DataError(f"{folder}: the manifest promises {promised} {what} (got {found})")


# --------------------------------------------------------------------------------------------------
# Shard collections
# --------------------------------------------------------------------------------------------------


class _ShardsManifest(_Manifest):
    format: Literal["feddep-shards"] = "feddep-shards"
    version: Literal[1] = 1
    data_set: str
    clients: PositiveInt
    partition: str
    split: str
    seed: int
    classes: NonNegativeInt
    note: str = LOST_EDGES_NOTE
    files: dict[str, str]


def write_shards(shards: Shards, folder: AnyPath, *, overwrite: bool = False) -> None:
    """Writes a shard collection; ``overwrite`` as in :func:`write_graph`."""
    with _replacing(Path(folder), overwrite) as draft:
        for client, shard in enumerate(shards):
            _fill_graph_folder(shard, draft / _client_folder(client))
        order = np.concatenate([shards.members(client) for client in range(shards.clients)])
        np.save(draft / _ORDER, order, allow_pickle=False)
        _write_id_pairs(draft / _LOST, shards.lost_edges(), shards.graph.node_ids)
        manifest = _ShardsManifest(
            data_set=shards.graph.name,
            clients=shards.clients,
            partition=shards.kind,
            split=shards.split,
            seed=shards.seed,
            classes=shards.graph.classes,
            files=_hashes(draft, (*_client_manifests(shards.clients), _ORDER, _LOST)),
        )
        _write_manifest(draft, manifest)


def read_shards(folder: AnyPath) -> Shards:
    """The shards in a collection, exactly as they were written, down to the order of the nodes.

    The whole graph is put together from the clients' folders and the lost edges. Without
    ``lost_edges.csv``, as between real silos, no edge between clients is known.

    Raises:
        DataError: as in :func:`read_graph`.
    """
    folder = Path(folder)
    manifest = _read_manifest(folder, _ShardsManifest)
    required = {*_client_manifests(manifest.clients), _ORDER}
    _verify_files(folder, manifest.files, required, optional={_LOST})
    clients = [read_graph(folder / _client_folder(i)) for i in range(manifest.clients)]
    order = _read_order(folder / _ORDER, sum(client.nodes for client in clients))
    owner = np.empty(len(order), np.int32)
    owner[order] = np.repeat(np.arange(len(clients)), [client.nodes for client in clients])
    graph = _whole_graph(clients, order, manifest, folder)
    return Shards(graph, owner, manifest.partition, manifest.seed, manifest.split)


def shard_settings(folder: AnyPath) -> dict[str, int | str]:
    """What a collection's manifest says of a run's spec, without reading the shards."""
    manifest = _read_manifest(Path(folder), _ShardsManifest)
    return {
        "partition.clients": manifest.clients,
        "partition.kind": manifest.partition,
        "split.kind": manifest.split,
    }


def is_shard_collection(folder: AnyPath) -> bool:
    """Whether a shard collection stands here, by its manifest's format name."""
    return _format_of(Path(folder)) == "feddep-shards"


def _client_folder(client: int) -> str:
    return f"client-{client:03d}"


def _client_manifests(clients: int) -> list[str]:
    return [f"{_client_folder(client)}/{_MANIFEST}" for client in range(clients)]


def _read_order(path: Path, nodes: int) -> Ints:
    """Every node's position in the whole graph, in the order of the clients' files."""
    with _as_data_error(path):
        order: Array = np.load(path, allow_pickle=False)
        if not np.array_equal(np.sort(order), np.arange(nodes)):
            raise InputError(f"expected the positions 0 to {nodes - 1}, each once")
        return order.astype(np.int32)


def _whole_graph(
    clients: Sequence[Graph], order: Ints, manifest: _ShardsManifest, folder: Path
) -> Graph:
    """Puts the clients' graphs and the lost edges together, in the order of :func:`_read_order`."""
    row_of = np.argsort(order)
    if len({client.node_ids.dtype.kind for client in clients}) > 1:
        raise DataError(f"{folder}: some clients name nodes by integers and some by text")
    ids = np.concatenate([client.node_ids for client in clients])[row_of]
    starts = np.cumsum([0, *(client.nodes for client in clients)])
    edges = [order[start + c.edge_list()] for start, c in zip(starts, clients, strict=False)]
    if (folder / _LOST).exists():
        pairs = _read_id_pairs(folder / _LOST, "integer" if ids.dtype.kind == "i" else "text")
        edges.append(_numbers_of(pairs, ids, folder / _LOST))
    with _as_data_error(folder):
        return Graph.from_edges(
            np.concatenate(edges),
            _stack([client.features for client in clients])[row_of],
            np.concatenate([client.labels for client in clients])[row_of],
            classes=manifest.classes,
            node_ids=ids,
            split=np.concatenate([client.split for client in clients])[row_of],
            name=manifest.data_set,
        )


def _stack(parts: Sequence[Features]) -> Features:
    dense = [part for part in parts if isinstance(part, np.ndarray)]
    sparse = [part for part in parts if not isinstance(part, np.ndarray)]
    if dense and sparse:
        raise InputError("some clients have dense features and some sparse ones")
    return np.concatenate(dense) if dense else sp.csr_array(sp.vstack(sparse, format="csr"))


# --------------------------------------------------------------------------------------------------
# Files, hashes and manifests
# --------------------------------------------------------------------------------------------------

_AnyManifest = TypeVar("_AnyManifest", bound=_Manifest)


def _write_manifest(folder: Path, manifest: _Manifest) -> None:
    (folder / _MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _read_manifest(folder: Path, kind: type[_AnyManifest]) -> _AnyManifest:
    path = folder / _MANIFEST
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"]) or "content"
        raise DataError(f"{path}: {where}: {first['msg']} (got {first['input']!r:.80})") from None


def _format_of(folder: Path) -> str | None:
    """The format named in a folder's manifest, or None where there is no such thing."""
    try:
        content = json.loads((folder / _MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    return content.get("format") if isinstance(content, dict) else None


def _hashes(folder: Path, names: Sequence[str]) -> dict[str, str]:
    return {name: _sha256(folder / name) for name in names}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify_files(
    folder: Path,
    hashes: dict[str, str],
    required: set[str],
    optional: frozenset[str] | set[str] = frozenset(),
) -> None:
    """Holds every file to its hash in the manifest; an optional file may be absent."""
    if not required <= hashes.keys() <= required | optional:
        odd = sorted((hashes.keys() ^ required) - optional)
        raise DataError(f"{folder / _MANIFEST}: files: missing or not expected: {', '.join(odd)}")
    for name, expected in hashes.items():
        path = folder / name
        if name in optional and not path.exists():
            continue
        if not path.is_file():
            raise DataError(f"{path} is missing, though the manifest lists it")
        found = _sha256(path)
        if found != expected:
            raise DataError(
                f"{path} is not the file its manifest describes: expected SHA-256 {expected} "
                f"(got {found}); restore the file or write the folder again"
            )


def _write_csv(path: Path, header: Sequence[str], columns: Sequence[Array]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        # In slices, because Python's numbers and strings take many times the room of an array's.
        for start in range(0, len(columns[0]), _ROWS_AT_ONCE):
            slices = (column[start : start + _ROWS_AT_ONCE].tolist() for column in columns)
            writer.writerows(zip(*slices, strict=True))


def _read_csv(path: Path, header: Sequence[str], dtype: type[np.generic]) -> Array:
    """``(rows, columns)`` the content of a CSV file of our own."""
    first_line = (",".join(header) + "\n").encode()
    with path.open("rb") as file:
        found = file.readline()
        empty = not file.read(1)
    if found != first_line:
        raise DataError(_expected(path, 1, ",".join(header), found[:80].decode(errors="replace")))
    if empty:
        return np.empty((0, len(header)), dtype)
    with _as_data_error(path):
        return np.loadtxt(
            path,
            dtype=dtype,
            delimiter=",",
            skiprows=1,
            quotechar='"',
            comments=None,
            encoding="utf-8",
            ndmin=2,
        )


def _check_ids_can_be_written(node_ids: Array) -> None:
    if node_ids.dtype.kind in "iu":
        return
    if node_ids.dtype.kind != "U":
        raise InputError(f"node ids must be whole numbers or text (got {node_ids.dtype})")
    broken = (np.strings.find(node_ids, "\n") >= 0) | (np.strings.find(node_ids, "\r") >= 0)
    if broken.any():
        raise InputError(f"a node id must be one line (got {node_ids[broken][0].item()!r})")


@contextmanager
def _as_data_error(path: Path) -> Iterator[None]:
    """Turns what a broken file provokes into an error that names the file."""
    try:
        yield
    except DataError:
        raise
    except (InputError, OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: {error}") from None


@contextmanager
def _replacing(folder: Path, overwrite: bool) -> Iterator[Path]:
    """A draft folder to fill; it takes the place of ``folder`` when all went well."""
    target = folder.resolve()
    _refuse_to_lose(target, overwrite)
    draft = _sibling(target)
    draft.mkdir(parents=True)
    try:
        yield draft
        _put_in_place(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _refuse_to_lose(target: Path, overwrite: bool) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{target} is a file; name a folder")
    if not any(target.iterdir()):
        return
    if not (is_graph_folder(target) or is_shard_collection(target)):
        raise InputError(
            f"{target} holds something other than a graph or shards; name a new or empty folder"
        )
    if not overwrite:
        raise InputError(f"{target} exists already; name another folder, or ask to overwrite it")


def _put_in_place(draft: Path, target: Path) -> None:
    if not target.exists():
        draft.rename(target)
        return
    previous = _sibling(target)
    target.rename(previous)
    draft.rename(target)
    shutil.rmtree(previous)


def _sibling(target: Path) -> Path:
    """A name beside ``target``: renaming is atomic only on the same file system."""
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}")


# --------------------------------------------------------------------------------------------------
# Somebody else's tables
# --------------------------------------------------------------------------------------------------


def read_tables(
    nodes: AnyPath,
    edges: AnyPath,
    *,
    features: AnyPath | None = None,
    class_names: Sequence[str] | None = None,
    name: str = "graph",
) -> Graph:
    """A graph from two CSV tables with a header line each.

    Args:
        nodes: a table with a column ``id`` (whole numbers or text). Optional: ``label``, where
            whole numbers are kept and other labels are numbered in sorted order, empty is unknown;
            and ``split``, train, val, test or empty. All other columns are numeric features.
        edges: a table with columns ``source`` and ``target``, else its first two columns are taken.
            Direction, repeats and self-loops are dropped; further columns are ignored.
        features: an .npy table, or an .npz as from ``scipy.sparse.save_npz``, with a row per row of
            ``nodes``; then the other columns of ``nodes`` are ignored.
        class_names: all labels in the order of their numbers. Silos must agree on it where a silo
            may lack a class.
        name: what to call the graph.

    Raises:
        InputError: names the file, the line, what was expected and what came.
    """
    nodes_path, edges_path = Path(nodes), Path(edges)
    table = _read_node_table(nodes_path, with_features=features is None)
    labels, classes = _number_labels(table, class_names)
    split = _part_codes(table)
    matrix = table.feature_matrix() if features is None else _read_features(Path(features))
    if matrix.shape[0] != len(table.ids):
        raise InputError(
            f"{features}: expected a row for each of {len(table.ids)} nodes in {nodes_path} "
            f"(got {matrix.shape[0]})"
        )
    pairs = _read_edge_table(edges_path, table)
    numbers = _whole_numbers(table.ids)
    return Graph.from_edges(
        pairs,
        matrix,
        labels,
        classes=classes,
        node_ids=np.array(table.ids) if numbers is None else numbers,
        split=split,
        name=name,
    )


@dataclass
class _NodeTable:
    """The cells of somebody's nodes.csv, a list entry per row."""

    path: Path
    feature_names: list[str]
    lines: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    features: "array[float]" = field(default_factory=lambda: array("f"))

    def add_features(self, line: int, cells: Sequence[str]) -> None:
        try:
            self.features.extend(map(float, cells))
        except ValueError:
            named = zip(self.feature_names, cells, strict=True)
            column, cell = next((n, c) for n, c in named if not _is_number(c))
            raise InputError(
                _expected(self.path, line, f"a number as feature {column!r}", cell)
            ) from None

    def feature_matrix(self) -> npt.NDArray[np.float32]:
        """``(n, d)``; NaN and infinity are refused."""
        matrix = np.frombuffer(self.features, np.float32).reshape(len(self.ids), -1)
        bad = np.argwhere(~np.isfinite(matrix))
        if len(bad):
            row, column = bad[0]
            expectation = f"a finite number as feature {self.feature_names[column]!r}"
            raise InputError(
                _expected(self.path, self.lines[row], expectation, matrix[row, column])
            )
        return matrix


def _read_node_table(path: Path, *, with_features: bool) -> _NodeTable:
    rows = _read_rows(path, "id,label,split and the names of the features")
    _, header = next(rows)
    place = {column: header.index(column) for column in _NODE_COLUMNS if column in header}
    if "id" not in place:
        raise InputError(_expected(path, 1, "a column 'id'", ",".join(header)))
    if len(set(header)) != len(header):
        raise InputError(_expected(path, 1, "different names for all columns", ",".join(header)))
    others = [i for i, column in enumerate(header) if column not in place] if with_features else []
    if with_features and not others:
        raise InputError(
            f"{path} has no feature columns; add some, or give a file of features "
            f"(got {','.join(header)})"
        )
    table = _NodeTable(path, [header[i] for i in others])
    for line, row in rows:
        table.lines.append(line)
        table.ids.append(row[place["id"]])
        table.labels.append(row[place["label"]] if "label" in place else "")
        table.parts.append(row[place["split"]] if "split" in place else "")
        table.add_features(line, [row[i] for i in others])
    _check_ids(table)
    return table


def _check_ids(table: _NodeTable) -> None:
    if not table.ids:
        raise InputError(f"{table.path} has a header but no nodes")
    first_line: dict[str, int] = {}
    for line, node_id in zip(table.lines, table.ids, strict=True):
        if not node_id:
            raise InputError(_expected(table.path, line, "an id", node_id))
        if first_line.setdefault(node_id, line) != line:
            unique = f"an id that line {first_line[node_id]} does not have"
            raise InputError(_expected(table.path, line, unique, node_id))


def _number_labels(
    table: _NodeTable, class_names: Sequence[str] | None
) -> tuple[Longs, int | None]:
    """Labels as class numbers, -1 where empty, and the number of classes if the names tell it."""
    known = [label for label in table.labels if label]
    if class_names is None:
        numbers = _whole_numbers(known)
        if numbers is not None:
            return _fill_known(table.labels, numbers), None
        class_names = sorted(set(known))
    number_of = {name: number for number, name in enumerate(class_names)}
    for line, label in zip(table.lines, table.labels, strict=True):
        if label and label not in number_of:
            names = f"a label of {', '.join(class_names)}"
            raise InputError(_expected(table.path, line, names, label))
    codes = np.array([number_of[label] for label in known], np.int64)
    return _fill_known(table.labels, codes), len(class_names)


def _fill_known(labels: Sequence[str], numbers: Longs) -> Longs:
    filled = np.full(len(labels), -1, np.int64)
    filled[[bool(label) for label in labels]] = numbers
    return filled


def _part_codes(table: _NodeTable) -> npt.NDArray[np.int8]:
    code_of = {name: part for part, name in _PART_NAMES.items()}
    for line, part, label in zip(table.lines, table.parts, table.labels, strict=True):
        if part not in code_of:
            raise InputError(
                _expected(table.path, line, "a split of train, val, test or nothing", part)
            )
        if part and not label:
            raise InputError(_expected(table.path, line, "no split for a node without label", part))
    return np.array([code_of[part] for part in table.parts], np.int8)


def _read_edge_table(path: Path, table: _NodeTable) -> Ints:
    """``(E, 2)`` node numbers."""
    rows = _read_rows(path, "source,target")
    _, header = next(rows)
    number_of = {node_id: number for number, node_id in enumerate(table.ids)}
    if len(header) < 2:
        raise InputError(_expected(path, 1, "two columns, source,target", ",".join(header)))
    if header[0] in number_of and header[1] in number_of:
        raise InputError(_expected(path, 1, "the names source,target", ",".join(header)))
    named = all(column in header for column in _EDGE_COLUMNS)
    columns = [header.index(column) for column in _EDGE_COLUMNS] if named else [0, 1]
    numbers = array("i")
    for line, row in rows:
        for column in columns:
            number = number_of.get(row[column])
            if number is None:
                raise InputError(_expected(path, line, f"an id from {table.path}", row[column]))
            numbers.append(number)
    return np.frombuffer(numbers, np.int32).reshape(-1, 2)


def _read_rows(path: Path, header: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every row that is not blank, the header first."""
    width = None
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, skipinitialspace=True, strict=True)
            for cells in reader:
                if not cells:
                    continue
                width = width or len(cells)
                if len(cells) != width:
                    raise InputError(_expected(path, reader.line_num, f"{width} cells", len(cells)))
                yield reader.line_num, [cell.strip() for cell in cells]
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a CSV file in UTF-8 ({error})") from None
    if width is None:
        raise InputError(f"{path} is empty; expected a first line with {header}")


def _whole_numbers(texts: Sequence[str]) -> Longs | None:
    """The texts as integers if all are, written as Python would: "007" is a name, not 7."""
    written = np.array(texts, np.str_)
    try:
        numbers = written.astype(np.int64)
    except (ValueError, OverflowError):
        return None
    return numbers if (numbers.astype(np.str_) == written).all() else None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _expected(path: Path, line: int, expectation: str, got: object) -> str:
    return f"{path}, line {line}: expected {expectation} (got {str(got)!r})"
