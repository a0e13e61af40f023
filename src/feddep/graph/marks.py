"""What nodes are divided by besides chance: the case that a node belongs to, and when it was known.

A mark is no feature. It never leaves the silo, and no model reads it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from feddep.errors import InputError

Kind = Literal["case", "time"]


@dataclass(frozen=True, eq=False)
class Marks:
    """The marks of n nodes.

    Attributes:
        case: ``(n,)`` str, such as a ring or an alert; empty for a node of no case.
        time: ``(n,)`` float64, NaN where unknown.
    """

    case: npt.NDArray[np.str_]
    time: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.case.shape != self.time.shape or self.case.ndim != 1:
            raise InputError(
                f"marks: expected a case and a time for each node (got {self.case.shape} and "
                f"{self.time.shape})"
            )
        if self.case.dtype.kind != "U" or self.time.dtype != np.float64:
            raise InputError(
                f"marks: expected text and float64 (got {self.case.dtype} and {self.time.dtype})"
            )
        if np.isinf(self.time).any():
            raise InputError("marks: a time is infinite; leave unknown ones empty")
        self.case.flags.writeable = False
        self.time.flags.writeable = False

    @classmethod
    def of(
        cls, nodes: int, case: npt.ArrayLike | None = None, time: npt.ArrayLike | None = None
    ) -> Self:
        """Marks of so many nodes, of which one kind may be unknown."""
        return cls(
            np.zeros(nodes, "<U1") if case is None else np.array(case, np.str_),
            np.full(nodes, np.nan) if time is None else np.array(time, np.float64),
        )

    @classmethod
    def joined(cls, marks: Sequence["Marks | None"], sizes: Sequence[int]) -> "Marks | None":
        """Those of several graphs, one after the other; None if none has any."""
        if not any(one is not None for one in marks):
            return None
        known = [one or cls.of(size) for one, size in zip(marks, sizes, strict=True)]
        return cls(
            np.concatenate([one.case for one in known]), np.concatenate([one.time for one in known])
        )

    def __len__(self) -> int:
        return len(self.case)

    def among(self, chosen: npt.NDArray[np.integer[Any]]) -> Self:
        """The marks of some nodes, in the order given."""
        return type(self)(self.case[chosen], self.time[chosen])

    @property
    def kinds(self) -> list[Kind]:
        """Which marks at least one node has."""
        there: dict[Kind, bool] = {
            "case": bool((self.case != "").any()),
            "time": not np.isnan(self.time).all(),
        }
        return [kind for kind, any_there in there.items() if any_there]
