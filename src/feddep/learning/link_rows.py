"""Rows of numbers about linked nodes, from the silo that has a node to those that link to it.

Which links two silos have in common is in their memories (:mod:`feddep.phases.link_matching`).
"""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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


def matched_peers(silo: Silo, memory: Memory) -> list[int]:
    """The silos with which this one has links in common."""
    peers = silo.links.peers if silo.links else []
    return [peer for peer in peers if len(memory.get(f"links/{peer}/own", ()))]


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
        for peer in matched_peers(silo, memory)
    }


def rows_from_peers(
    silo: Silo, memory: Memory, sealed: Memory, place: Place, dtype: npt.DTypeLike, width: int
) -> Counterparties:
    """What the linked silos said about the counterparties of this silo's nodes.

    A message of another length than there are counterparties counts as none.
    """
    opened = opened_from_all(silo, sealed, place, dtype)
    own, other, peers, rows, answered = [], [], [], [], []
    first = 0
    for peer in matched_peers(silo, memory):
        places = memory[f"links/{peer}/place"].astype(np.int64)
        count = int(places.max()) + 1
        said = opened.get(peer)
        if said is not None and said.size != count * width:
            log.warning(
                "client %d answered client %d with %d numbers where %d belong; none is used",
                peer, silo.client, said.size, count * width,
            )  # fmt: skip
            said = None
        own.append(memory[f"links/{peer}/own"].astype(np.int64))
        other.append(first + places)
        peers.append(np.full(count, peer))
        rows.append(np.zeros((count, width), dtype) if said is None else said.reshape(count, width))
        answered.append(np.full(count, said is not None))
        first += count
    nothing = np.zeros(0, np.int64)
    return Counterparties(
        np.concatenate([nothing, *own]),
        np.concatenate([nothing, *other]),
        np.concatenate([nothing, *peers]),
        np.concatenate([np.zeros((0, width), dtype), *rows]),
        np.concatenate([nothing.astype(bool), *answered]),
    )
