"""Graphs of silos that name each other's nodes, as the shards of a simulation."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from feddep.errors import InputError
from feddep.graph.arranging import arranged
from feddep.graph.graph import Graph, Part
from feddep.graph.shard import Shards, whole_graph

Ints = npt.NDArray[np.int32]


def joined(
    graphs: Sequence[Graph], names: Sequence[str], name: str = "silos", *, seed: int = 0
) -> Shards:
    """The shards that silos are of a graph in which outside links that lead to a node are edges.

    Args:
        graphs: of the silos, with the same columns and classes, and a split.
        names: what the silos call each other in their outside links.
        name: of the whole graph.
        seed: of runs on the shards.

    Raises:
        InputError: two silos give the same id to a node, or their columns differ.
    """
    if len(graphs) != len(names) or not graphs:
        raise InputError(f"expected a name for each of {len(graphs)} silos (got {len(names)})")
    first = graphs[0]
    graphs = [arranged(graph, first.schema, first.name) for graph in graphs]
    if len({(graph.classes, graph.node_ids.dtype.kind) for graph in graphs}) > 1:
        raise InputError("the silos differ in their classes, or in whether ids are whole numbers")
    ids = np.concatenate([graph.node_ids for graph in graphs])
    if len(np.unique(ids)) < len(ids):
        raise InputError(
            "two silos give the same id to a node; put a name of the silo before its ids"
        )
    order = np.arange(len(ids), dtype=np.int32)
    between = _between(graphs, names, ids)
    outside = tuple(graph.outside for graph in graphs)
    return Shards(
        whole_graph(graphs, order, between, first.classes, name),
        np.repeat(np.arange(len(graphs)), [graph.nodes for graph in graphs]),
        "given",
        seed,
        "given",
        outside if any(outside) else (),
        tuple(names),
    )


def with_split_of(shards: Shards, parts: npt.NDArray[np.int8]) -> Shards:
    """The shards with another split of their nodes, ``(n,)``; without a label there is none."""
    labelled = np.where(shards.graph.labels < 0, Part.NONE, parts)
    return replace(shards, graph=shards.graph.with_split(labelled))


def _between(graphs: Sequence[Graph], names: Sequence[str], ids: npt.NDArray[np.generic]) -> Ints:
    """``(L, 2)`` the outside links whose other end is a node of the silo that they name."""
    starts = np.cumsum([0, *(graph.nodes for graph in graphs)])
    owner = np.repeat(np.arange(len(graphs)), np.diff(starts))
    by_id = np.argsort(ids)
    found = [np.zeros((0, 2), np.int32)]
    for graph, start in zip(graphs, starts, strict=False):
        links = graph.outside
        if links is None or not len(links):
            continue
        number = {silo: i for i, silo in enumerate(names)}
        there = np.array([number.get(silo, -1) for silo in links.names])[links.silos]
        place = np.searchsorted(ids, links.ids, sorter=by_id)
        other = by_id[np.minimum(place, len(ids) - 1)]
        known = (ids[other] == links.ids) & (owner[other] == there)
        found.append(np.stack([start + links.nodes, other], axis=1)[known].astype(np.int32))
    return np.concatenate(found)
