"""Rows of numbers about linked nodes, from the silo that has a node to those that link to it.

Which links two silos have in common is in their memories (:mod:`feddep.phases.link_matching`).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from feddep.errors import InputError
from feddep.graph.csr import checked_csr
from feddep.graph.graph import Features
from feddep.learning.link_exchange import Place, opened_from_all, sealed_for
from feddep.learning.mending import Memory
from feddep.learning.silo import Silo

Array = npt.NDArray[Any]
Longs = npt.NDArray[np.int64]

log = logging.getLogger("feddep")


@dataclass(frozen=True, eq=False)
class Counterparties:
    """The matched counterparties of a silo's nodes, U of them, and what was said about them.

    Attributes:
        own: ``(L,)`` the own node of each link.
        other: ``(L,)`` the counterparty of each, 0 … U - 1.
        peer: ``(U,)`` the silo that has it.
        rows: ``(U, w)`` what that silo said; 0 where it said nothing.
        answered: ``(U,)`` whether it did.
    """

    own: Longs
    other: Longs
    peer: Longs
    rows: Array
    answered: npt.NDArray[np.bool_]


def met_peers(silo: Silo, memory: Memory) -> list[int]:
    """The silos that took part in the matching.

    All of them are sent something, so that the server does not see who has links in common.
    """
    peers = silo.links.peers if silo.links else []
    return [peer for peer in peers if f"links/{peer}/own" in memory]


def matched_peers(silo: Silo, memory: Memory) -> list[int]:
    """The silos with which this one has links in common."""
    return [peer for peer in met_peers(silo, memory) if len(memory[f"links/{peer}/own"])]


def rows_for_peers(silo: Silo, memory: Memory, rows: Array, place: Place) -> dict[str, Array]:
    """A sealed message for each linked silo: the rows of the nodes that it links to.

    Args:
        silo: the sender.
        memory: its memory.
        rows: ``(n, w)`` a row for each node of the silo.
        place: where in the run.
    """
    return {
        str(peer): sealed_for(silo, peer, rows[memory[f"links/{peer}/shown"]], place)
        for peer in met_peers(silo, memory)
    }


def sums_for_peers(silo: Silo, memory: Memory, place: Place) -> dict[str, Array]:
    """For each linked silo, the sum of this silo's features over the links of each of its nodes."""
    sealed = {}
    for peer in met_peers(silo, memory):
        own, there = memory[f"links/{peer}/own"], memory[f"links/{peer}/place"]
        links = sp.csr_array(
            (np.ones(len(own), np.float32), (there, own)),
            shape=(_count(memory, peer), silo.graph.nodes),
        )
        packed = _packed(sp.csr_array(links @ sp.csr_array(silo.graph.features)))
        sealed[str(peer)] = sealed_for(silo, peer, packed, place)
    return sealed


def tables_for_peers(silo: Silo, memory: Memory, place: Place) -> dict[str, Array]:
    """For each linked silo, the features of the nodes that it links to."""
    features = silo.graph.features
    return {
        str(peer): sealed_for(
            silo, peer, _packed(sp.csr_array(features[memory[f"links/{peer}/shown"]])), place
        )
        for peer in met_peers(silo, memory)
    }


def means_from_peers(silo: Silo, memory: Memory, sealed: Memory, place: Place) -> dict[str, Array]:
    """z̄ from :func:`sums_for_peers`: the mean over all links whose sum arrived, and how many."""
    opened = opened_from_all(silo, sealed, place, np.uint32)
    nodes, columns = silo.graph.nodes, silo.graph.feature_count
    total = np.zeros((nodes, columns), np.float32)
    count = np.zeros(nodes, np.float32)
    for peer in matched_peers(silo, memory):
        shown = memory[f"links/{peer}/shown"]
        sums = _unpacked(silo, peer, opened.get(peer), len(shown), columns)
        if sums is not None:
            total[shown] += sums.toarray()
            count += np.bincount(memory[f"links/{peer}/own"], minlength=nodes)
    mean = total / np.maximum(count, 1)[:, None]
    return {"missing_embeddings": mean, "counts": count}


def tables_from_peers(
    silo: Silo, memory: Memory, sealed: Memory, place: Place
) -> tuple[Counterparties, Features]:
    """The counterparties, and the features of those whose silo showed them."""
    opened = opened_from_all(silo, sealed, place, np.uint32)
    columns = silo.graph.feature_count
    counts = {p: _count(memory, p) for p in matched_peers(silo, memory)}
    tables = {p: _unpacked(silo, p, opened.get(p), counts[p], columns) for p in counts}
    found = _counterparties(
        memory, {p: None if t is None else np.zeros((counts[p], 0)) for p, t in tables.items()}, 0
    )
    shown = [table for table in tables.values() if table is not None]
    nothing = sp.csr_array((0, columns), dtype=np.float32)
    stacked = sp.csr_array(sp.vstack([nothing, *shown], format="csr"))
    dense = isinstance(silo.graph.features, np.ndarray)
    return found, stacked.toarray() if dense else stacked


def _packed(table: sp.csr_array) -> Array:
    """A sparse table as one row of 32-bit words: row starts, columns, values."""
    return np.concatenate(
        [
            table.indptr.astype(np.uint32),
            table.indices.astype(np.uint32),
            table.data.astype(np.float32).view(np.uint32),
        ]
    )


def _unpacked(
    silo: Silo, peer: int, words: Array | None, rows: int, columns: int
) -> sp.csr_array | None:
    """The inverse of :func:`_packed`; None where it is none, or not of so many rows."""
    if words is None:
        return None
    shape = (rows, columns)
    try:
        entries = (len(words) - rows - 1) // 2
        if entries < 0 or len(words) != rows + 1 + 2 * entries:
            raise InputError(f"{len(words)} words are no table of {rows} rows")
        indptr, indices = words[: rows + 1], words[rows + 1 : rows + 1 + entries]
        data = words[rows + 1 + entries :].view(np.float32)
        if not np.isfinite(data).all():
            raise InputError("a value is no number")
        return checked_csr(data.copy(), indices.astype(np.int32), indptr.astype(np.int32), shape)
    except (InputError, ValueError) as error:
        log.warning("what client %d showed client %d is not used: %s", peer, silo.client, error)
        return None


def rows_from_peers(
    silo: Silo, memory: Memory, sealed: Memory, place: Place, dtype: npt.DTypeLike, width: int
) -> Counterparties:
    """What the linked silos said about the counterparties of this silo's nodes.

    A message of another length than there are counterparties counts as none.
    """
    opened = opened_from_all(silo, sealed, place, dtype)
    said: dict[int, Array | None] = {}
    for peer in matched_peers(silo, memory):
        count, rows = _count(memory, peer), opened.get(peer)
        if rows is not None and (rows.size != count * width or not np.isfinite(rows).all()):
            log.warning(
                "client %d answered client %d with %d numbers where %d that are finite belong; "
                "none is used", peer, silo.client, rows.size, count * width,
            )  # fmt: skip
            rows = None
        said[peer] = None if rows is None else rows.reshape(count, width)
    return _counterparties(memory, said, width, dtype)


def _count(memory: Memory, peer: int) -> int:
    """How many counterparties a silo has at a peer."""
    return int(memory[f"links/{peer}/place"].max(initial=-1)) + 1


def _counterparties(
    memory: Memory,
    said: Mapping[int, Array | None],
    width: int,
    dtype: npt.DTypeLike = np.float32,
) -> Counterparties:
    """The counterparties at all peers, one after the other.

    Args:
        memory: of the silo that has the links.
        said: what each peer said about its nodes; None where it said nothing.
        width: of a row.
        dtype: of the rows.
    """
    nothing = np.zeros(0, np.int64)
    own, other, peers = [nothing], [nothing], [nothing]
    rows, answered = [np.zeros((0, width), dtype)], [np.zeros(0, bool)]
    first = 0
    for peer, told in said.items():
        count = _count(memory, peer)
        own.append(memory[f"links/{peer}/own"].astype(np.int64))
        other.append(first + memory[f"links/{peer}/place"].astype(np.int64))
        peers.append(np.full(count, peer))
        rows.append(np.zeros((count, width), dtype) if told is None else told)
        answered.append(np.full(count, told is not None))
        first += count
    columns = (own, other, peers, rows, answered)
    return Counterparties(*(np.concatenate(column) for column in columns))
