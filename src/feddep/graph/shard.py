"""A graph divided among clients, in memory and as a folder.

A *shard collection* is such a folder, with a graph folder (:mod:`feddep.graph.folder`) per client::

    manifest.json   format, partition, and the SHA-256 of every client's manifest
    client-000/ …   a graph folder each
    order.npy       every node's position in the whole graph, client by client
    lost_edges.csv  source,target      (the edges between clients, see :data:`LOST_EDGES_NOTE`)
    lost_flows.npy  what goes along each of them in both directions, if that is known
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from annotated_types import Ge, Le
from pydantic import NonNegativeInt

from feddep.errors import DataError, InputError
from feddep.graph.arranging import arranged
from feddep.graph.files import (
    MANIFEST,
    AnyPath,
    Manifest,
    as_data_error,
    format_of,
    hash_files,
    read_manifest,
    replacing,
    verify_files,
    write_manifest,
)
from feddep.graph.folder import (
    fill_graph_folder,
    numbers_of,
    read_graph,
    read_id_pairs,
    write_id_pairs,
)
from feddep.graph.graph import Array, Features, Graph
from feddep.graph.marks import Marks
from feddep.graph.outside import OutsideLinks
from feddep.graph.schema import Schema

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

LOST_EDGES_NOTE = (
    "lost_edges.csv lists the edges between clients. Nobody in a real federation has them: the "
    "simulator keeps them here only to compute the score on the whole graph. Without the file, no "
    "such edge is known."
)

MOST_CLIENTS = 100_000
"""Of a collection that is read: each is a folder of its own."""

_SLICE = 1 << 16
_ORDER = "order.npy"
_LOST = "lost_edges.csv"
_LOST_FLOWS = "lost_flows.npy"


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
        outside: what each client knows of its links to others; empty if none knows any.
        names: what the clients call each other in their outside links; by default their numbers.
    """

    graph: Graph
    owner: Ints
    kind: str
    seed: int
    split: str = "stratified"
    outside: tuple[OutsideLinks | None, ...] = ()
    names: tuple[str, ...] = ()

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
        for what, given in (("outside links", self.outside), ("names", self.names)):
            if given and len(given) != owner.max() + 1:
                raise InputError(f"expected {what} of {owner.max() + 1} clients (got {len(given)})")
        if len(set(self.names)) < len(self.names):
            raise InputError(f"every client needs a name of its own (got {', '.join(self.names)})")
        owner = owner.astype(np.int32)  # a copy: the caller's array stays writeable
        owner.flags.writeable = False
        object.__setattr__(self, "owner", owner)

    @property
    def whole(self) -> Graph:
        """The whole graph, for measurements that only a simulation can make."""
        return self.graph

    @property
    def name(self) -> str:
        """What the data are called."""
        return self.graph.name

    @property
    def schema(self) -> Schema | None:
        """What columns and classes mean."""
        return self.graph.schema

    @property
    def feature_count(self) -> int:
        """d, the number of feature columns."""
        return self.graph.feature_count

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.graph.classes

    @property
    def nodes(self) -> int:
        """Of the whole graph."""
        return self.graph.nodes

    @property
    def edges(self) -> int:
        """Of the whole graph."""
        return self.graph.edges

    @property
    def nbytes(self) -> int:
        """Bytes of the whole graph."""
        return self.graph.nbytes

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
        """The graph induced by one client's nodes: edges to other clients are lost.

        The client's own list of outside links comes with it if it has one.
        """
        graph = self.graph.subgraph(self.members(client), name=f"{self.graph.name}/{client}")
        return replace(graph, outside=self.outside[client]) if self.outside else graph

    @property
    def links(self) -> Literal["lost", "known"]:
        """Whether any client knows of its links to others."""
        return "known" if any(self.outside) else "lost"

    @property
    def client_names(self) -> tuple[str, ...]:
        """What the clients are called in outside links."""
        return self.names or tuple(map(str, range(self.clients)))

    def lost_edges(self) -> Ints:
        """``(L, 2)`` the edges between clients, as node numbers in the whole graph."""
        edges = self.graph.edge_list()
        source_owner, target_owner = self.owner[edges].T
        lost: Ints = edges[source_owner != target_owner]
        return lost

    def lost_flows(self) -> npt.NDArray[np.float32]:
        """``(L, 2)`` what goes along each lost edge, and what comes back."""
        source_owner, target_owner = self.owner[self.graph.edge_list()].T
        found: npt.NDArray[np.float32] = self.graph.edge_flows()[source_owner != target_owner]
        return found

    @property
    def lost_share(self) -> float:
        """ΔE / |E|, the share of edges between clients; 0 for a graph without edges.

        Counted in slices, so that a large graph needs no second list of its edges.
        """
        graph, lost = self.graph, 0
        for start in range(0, graph.nodes, _SLICE):
            bounds = graph.indptr[start : start + _SLICE + 1]
            here = np.repeat(self.owner[start : start + _SLICE], np.diff(bounds))
            there = self.owner[graph.indices[bounds[0] : bounds[-1]]]
            lost += int(np.count_nonzero(here != there))
        return lost / len(graph.indices) if graph.edges else 0.0

    def crossings(self) -> list[Longs]:
        """For each client ``(k, 3)``: a node of its own, another client, and a neighbour there.

        Nodes are numbered as in their shards; an edge between clients is in two of the lists.
        """
        edges = self.lost_edges()
        ends = np.concatenate([edges, edges[:, ::-1]]).astype(np.int64)
        place = np.empty(self.graph.nodes, np.int64)
        for client in range(self.clients):
            members = self.members(client)
            place[members] = np.arange(len(members))
        rows = np.stack([place[ends[:, 0]], self.owner[ends[:, 1]], place[ends[:, 1]]], axis=1)
        from_client = self.owner[ends[:, 0]]
        return [_sorted_rows(rows[from_client == client]) for client in range(self.clients)]

    def with_known_links(self) -> "Shards":
        """The same shards, in which both ends of every lost edge know of it and nothing more."""
        ids = [self.graph.node_ids[self.members(client)] for client in range(self.clients)]
        start = np.cumsum([0, *map(len, ids)])
        every, names = np.concatenate(ids), np.array(self.client_names, np.str_)
        outside = tuple(
            OutsideLinks.of(own, names[peer], every[start[peer] + there])
            for own, peer, there in (rows.T for rows in self.crossings())
        )
        return replace(self, outside=outside)

    def __len__(self) -> int:
        return self.clients

    def __getitem__(self, client: int) -> Graph:
        return self.shard(range(self.clients)[client])

    def __iter__(self) -> Iterator[Graph]:
        return (self.shard(client) for client in range(self.clients))

    def __repr__(self) -> str:
        return f"Shards({self.graph!r}, clients={self.clients}, {self.kind!r}, seed={self.seed})"


def _sorted_rows(rows: Longs) -> Longs:
    return rows[np.lexsort(rows.T[::-1])]


class _ShardsManifest(Manifest):
    format: Literal["feddep-shards"] = "feddep-shards"
    version: Literal[1] = 1
    data_set: str
    clients: Annotated[int, Ge(1), Le(MOST_CLIENTS)]
    partition: str
    split: str
    seed: int
    classes: NonNegativeInt
    links: Literal["known"] | None = None
    names: list[str] | None = None
    note: str = LOST_EDGES_NOTE
    files: dict[str, str]


def write_shards(shards: Shards, folder: AnyPath, *, overwrite: bool = False) -> None:
    """Writes a shard collection; ``overwrite`` as in :func:`~feddep.graph.folder.write_graph`."""
    with replacing(Path(folder), overwrite) as draft:
        for client, shard in enumerate(shards):
            fill_graph_folder(shard, draft / client_folder(client))
        order = np.concatenate([shards.members(client) for client in range(shards.clients)])
        np.save(draft / _ORDER, order, allow_pickle=False)
        write_id_pairs(draft / _LOST, shards.lost_edges(), shards.graph.node_ids)
        lost_flows = []
        if shards.graph.flows is not None:
            np.save(draft / _LOST_FLOWS, shards.lost_flows(), allow_pickle=False)
            lost_flows.append(_LOST_FLOWS)
        manifest = _ShardsManifest(
            data_set=shards.graph.name,
            clients=shards.clients,
            partition=shards.kind,
            split=shards.split,
            seed=shards.seed,
            classes=shards.graph.classes,
            links="known" if shards.links == "known" else None,
            names=list(shards.names) or None,
            files=hash_files(
                draft, (*_client_manifests(shards.clients), _ORDER, _LOST, *lost_flows)
            ),
        )
        write_manifest(draft, manifest)


def read_shards(folder: AnyPath) -> Shards:
    """The shards in a collection, exactly as they were written, down to the order of the nodes.

    The whole graph is put together from the clients' folders and the lost edges. Without
    ``lost_edges.csv``, as between real silos, no edge between clients is known.

    Raises:
        DataError: as in :func:`~feddep.graph.folder.read_graph`.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, _ShardsManifest)
    required = {*_client_manifests(manifest.clients), _ORDER}
    verify_files(folder, manifest.files, required, optional={_LOST, _LOST_FLOWS})
    clients = [read_graph(folder / client_folder(i)) for i in range(manifest.clients)]
    order = _read_order(folder / _ORDER, sum(client.nodes for client in clients))
    owner = np.empty(len(order), np.int32)
    owner[order] = np.repeat(np.arange(len(clients)), [client.nodes for client in clients])
    clients = [arranged(client, clients[0].schema, clients[0].name) for client in clients]
    graph = _whole_graph(clients, order, manifest, folder)
    outside = tuple(_as_in_shard(c, order[owner[order] == i]) for i, c in enumerate(clients))
    return Shards(
        graph,
        owner,
        manifest.partition,
        manifest.seed,
        manifest.split,
        outside if any(outside) else (),
        tuple(manifest.names or ()),
    )


def _as_in_shard(client: Graph, order: Ints) -> OutsideLinks | None:
    """A client's outside links in the order that its nodes have in the whole graph."""
    return client.outside and client.outside.among(np.argsort(order), client.nodes)


def shard_settings(folder: AnyPath) -> dict[str, int | str]:
    """The settings of a run that a collection's manifest fixes, without reading the shards."""
    manifest = read_manifest(Path(folder), _ShardsManifest)
    return {
        "seed": manifest.seed,
        "partition.clients": manifest.clients,
        "partition.kind": manifest.partition,
        "split.kind": manifest.split,
        "partition.links": manifest.links or "lost",
    }


def is_shard_collection(folder: AnyPath) -> bool:
    """Whether this is a shard collection, by the format named in its manifest."""
    return format_of(Path(folder)) == "feddep-shards"


def client_folder(client: int) -> str:
    """The name of one client's graph folder in a collection."""
    return f"client-{client:03d}"


def _client_manifests(clients: int) -> list[str]:
    return [f"{client_folder(client)}/{MANIFEST}" for client in range(clients)]


def _read_order(path: Path, nodes: int) -> Ints:
    """Every node's position in the whole graph, in the order of the clients' files."""
    with as_data_error(path):
        order: Array = np.load(path, allow_pickle=False)
        if not np.array_equal(np.sort(order), np.arange(nodes)):
            raise InputError(f"expected the positions 0 to {nodes - 1}, each once")
        return order.astype(np.int32)


def _whole_graph(
    clients: Sequence[Graph], order: Ints, manifest: _ShardsManifest, folder: Path
) -> Graph:
    """Puts the clients' graphs and the lost edges together, in the order of :func:`_read_order`."""
    if len({client.node_ids.dtype.kind for client in clients}) > 1:
        raise DataError(f"{folder}: some clients name nodes by integers and some by text")
    between, flows = np.zeros((0, 2), np.int32), np.zeros((0, 2), np.float32)
    if (folder / _LOST).exists():
        ids = np.concatenate([client.node_ids for client in clients])[np.argsort(order)]
        pairs = read_id_pairs(folder / _LOST, "integer" if ids.dtype.kind == "i" else "text")
        between = numbers_of(pairs, ids, folder / _LOST)
        if any(client.flows is not None for client in clients):
            with as_data_error(folder / _LOST_FLOWS):
                flows = np.load(folder / _LOST_FLOWS, allow_pickle=False)
    with as_data_error(folder):
        return whole_graph(clients, order, between, manifest.classes, manifest.data_set, flows)


def whole_graph(
    clients: Sequence[Graph],
    order: Ints,
    between: Ints,
    classes: int,
    name: str,
    flows: npt.NDArray[np.float32] | None = None,
) -> Graph:
    """The graph of which the clients have parts.

    Args:
        clients: their graphs, with the same columns.
        order: ``(n,)`` the place in the whole graph of every node, client by client.
        between: ``(L, 2)`` the edges between clients, as node numbers in the whole graph.
        classes: their number.
        name: of the whole graph.
        flows: ``(L, 2)`` what goes from the first node to the second and what comes back; without
            it the whole graph has no flows.
    """
    row_of = np.argsort(order)
    sizes = [client.nodes for client in clients]
    starts = np.cumsum([0, *sizes])
    marks = Marks.joined([client.marks for client in clients], sizes)
    edges = [order[start + c.edge_list()] for start, c in zip(starts, clients, strict=False)]
    pairs, weights = np.concatenate([*edges, between]), None
    inside = [client.edge_flows() for client in clients if client.flows is not None]
    if inside and flows is not None:
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
        weights = np.concatenate([*inside, flows]).T.ravel()
    return Graph.from_edges(
        pairs,
        _stack([client.features for client in clients])[row_of],
        np.concatenate([client.labels for client in clients])[row_of],
        classes=classes,
        node_ids=np.concatenate([client.node_ids for client in clients])[row_of],
        split=np.concatenate([client.split for client in clients])[row_of],
        name=name,
        schema=clients[0].schema,
        marks=marks and marks.among(row_of),
        weights=weights,
    )


def _stack(parts: Sequence[Features]) -> Features:
    dense = [part for part in parts if isinstance(part, np.ndarray)]
    sparse = [part for part in parts if not isinstance(part, np.ndarray)]
    if dense and sparse:
        raise InputError("some clients have dense features and some sparse ones")
    return np.concatenate(dense) if dense else sp.csr_array(sp.vstack(sparse, format="csr"))
