"""Links that lead out of a silo: the silo knows that they exist and to whom, and nothing else.

A payment, a referral or a call stands in the tables of both ends. So a silo can name a link's
counterparty, a silo and an id there, though it knows neither its features nor its label.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from feddep.errors import InputError


@dataclass(frozen=True, eq=False)
class OutsideLinks:
    """The links of a silo's nodes to nodes of other silos, L of them.

    Rows are sorted by node, silo and id, without repeats; :meth:`of` puts them in order.

    Attributes:
        nodes: ``(L,)`` int32, a node of the silo's own graph.
        silos: ``(L,)`` int32, the number in ``names`` of the silo that has the other end.
        ids: ``(L,)`` int64 or str, what that silo calls the other end.
        names: the silos that are named, sorted; each has a link.
    """

    nodes: npt.NDArray[np.int32]
    silos: npt.NDArray[np.int32]
    ids: npt.NDArray[Any]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        count = len(self.nodes)
        for name, array in (("nodes", self.nodes), ("silos", self.silos), ("ids", self.ids)):
            if array.shape != (count,):
                raise InputError(
                    f"outside links: expected {count} {name}, one for each link "
                    f"(got shape {array.shape})"
                )
            array.flags.writeable = False
        if self.ids.dtype.kind not in "iuU":
            raise InputError(
                f"ids of counterparties must be whole numbers or text (got {self.ids.dtype})"
            )
        if not np.array_equal(np.unique(self.silos), np.arange(len(self.names))):
            raise InputError(
                f"outside links: expected silos numbered 0 to {len(self.names) - 1}, each with a "
                f"link; use OutsideLinks.of"
            )

    @classmethod
    def of(
        cls, nodes: npt.ArrayLike, silos: npt.ArrayLike | Sequence[str], ids: npt.ArrayLike
    ) -> Self:
        """Links as columns: own node number, name of the other silo, id there; repeats merge."""
        own, names, others = np.asarray(nodes), np.asarray(silos, np.str_), np.array(ids)
        if not own.shape == names.shape == others.shape == (len(own),):
            raise InputError(
                "outside links: expected a node, a silo and an id for each link "
                f"(got {own.shape}, {names.shape} and {others.shape})"
            )
        if len(own) and own.dtype.kind not in "iu":
            raise InputError(f"outside links: nodes must be whole numbers (got {own.dtype})")
        if not len(own):
            nothing = np.zeros(0, np.int32)
            return cls(nothing, nothing.copy(), np.zeros(0, np.int64), ())
        if (names == "").any():
            raise InputError("an outside link names no silo; give each the name of one")
        known, numbers = np.unique(names, return_inverse=True)
        order = np.lexsort((others, numbers, own))
        own, numbers, others = own[order], numbers[order], others[order]
        new = np.ones(len(own), bool)
        new[1:] = (np.diff(own) != 0) | (np.diff(numbers) != 0) | (others[1:] != others[:-1])
        return cls(
            own[new].astype(np.int32),
            numbers[new].astype(np.int32),
            others[new],
            tuple(known.tolist()),
        )

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def silo_names(self) -> npt.NDArray[np.str_]:
        """``(L,)`` the name of the other silo of every link."""
        return np.array(self.names, np.str_)[self.silos] if self.names else np.zeros(0, "<U1")

    def counts(self) -> dict[str, int]:
        """How many links lead to each silo."""
        found = np.bincount(self.silos, minlength=len(self.names))
        return dict(zip(self.names, found.tolist(), strict=True))

    def among(self, chosen: npt.NDArray[np.integer[Any]], nodes: int) -> Self:
        """The links of some nodes, which are numbered anew in the order given.

        Args:
            chosen: the nodes that stay.
            nodes: how many there were.
        """
        place = np.full(nodes, -1, np.int32)
        place[chosen] = np.arange(len(chosen), dtype=np.int32)
        kept = place[self.nodes] >= 0
        return type(self).of(place[self.nodes][kept], self.silo_names[kept], self.ids[kept])

    def check(self, nodes: int) -> None:
        """Refuses links of nodes that a graph of so many nodes does not have."""
        wrong = (self.nodes < 0) | (self.nodes >= nodes)
        if wrong.any():
            raise InputError(
                f"an outside link is of node {self.nodes[wrong][0]}; nodes are 0 to {nodes - 1}"
            )

    def __repr__(self) -> str:
        return f"OutsideLinks({len(self)} links to {len(self.names)} silos)"
