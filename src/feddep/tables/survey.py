"""What the columns of a table of nodes are, found by looking at every cell once."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from feddep.errors import InputError
from feddep.graph.schema import Column, in_order
from feddep.tables import cells as cells_of
from feddep.tables.files import SiloTables
from feddep.tables.moments import Moments
from feddep.tables.nodes import Nodes

Found = Literal["number", "boolean", "category", "text", "empty"]

_SKEWED = 2.0


@dataclass
class Look:
    """One column, as far as it has been seen.

    Attributes:
        name: the column's.
        declared: whether the owner says that its numbers are codes.
        limit: more values than this are no categories.
        rows: how many cells were seen.
        missing: how many of them hold nothing.
        moments: of its numbers, on training nodes.
    """

    name: str
    declared: bool
    limit: int
    rows: int = 0
    missing: int = 0
    moments: Moments = field(default_factory=Moments)
    values: set[str] = field(default_factory=set)
    _number: bool = True
    _boolean: bool = True
    _codes: bool = False

    def add(self, cells: pa.Array, training: npt.NDArray[np.bool_], *, comma: bool) -> None:
        """Takes in a batch."""
        self.rows += len(cells)
        kind = cells.type
        if pa.types.is_boolean(kind) or (not cells_of.is_text(kind) and not self.declared):
            self._add_typed(cells, training)
            return
        written = cells_of.texts(cells)
        self.missing += written.null_count
        if len(self.values) <= self.limit:
            self.values.update(pc.unique(written.drop_null()).to_pylist())
        self._boolean = self._boolean and cells_of.says_yes_or_no(written)
        self._codes = self._codes or self.declared or cells_of.has_codes(written)
        if self._number and not self._codes:
            found = cells_of.as_numbers(cells_of.with_point(written) if comma else written)
            self._number = found is not None
            if found is not None:
                self._moments(found, training)

    def _add_typed(self, cells: pa.Array, training: npt.NDArray[np.bool_]) -> None:
        self._boolean = self._boolean and pa.types.is_boolean(cells.type)
        if not pa.types.is_boolean(cells.type):
            cells = pc.if_else(_is_nan(cells), pa.scalar(None, cells.type), cells)
            if not pa.types.is_temporal(cells.type) and not pa.types.is_null(cells.type):
                self._moments(cells.cast(pa.float64(), safe=False), training)
        self.missing += cells.null_count

    def _moments(self, found: pa.Array, training: npt.NDArray[np.bool_]) -> None:
        with np.errstate(over="ignore"):
            values = found.to_numpy(zero_copy_only=False).astype(np.float32)
        self.moments.add(values[training & np.isfinite(values)])

    @property
    def kind(self) -> Found:
        """What the column is."""
        if self.missing == self.rows:
            return "empty"
        if self.declared or self._codes or not (self._number or self._boolean):
            return "category" if len(self.values) <= self.limit else "text"
        return "boolean" if self._boolean else "number"

    @property
    def skewed(self) -> bool:
        """Whether its numbers are never negative and pile up near the least."""
        found = self.moments
        return not found.binary and found.least >= 0 and found.skewness > _SKEWED

    def column(self, log: bool) -> Column:
        """How it becomes features."""
        kind = self.kind
        assert kind in ("number", "boolean", "category")
        categories = tuple(in_order(self.values)) if kind == "category" else ()
        return Column(
            name=self.name,
            kind=kind,
            categories=categories,
            flagged=self.missing > 0,
            log=kind == "number" and log,
        )


def looks(tables: SiloTables, nodes: Nodes) -> list[Look]:
    """Every column of the table of nodes that may become a feature, seen once."""
    settings, table = tables.settings, tables.nodes
    named = feature_names(tables)
    _refuse_unknown(tables, (*settings.drop, *settings.categories, *_logged(settings.log)))
    found = [Look(name, name in settings.categories, settings.most_categories) for name in named]
    if not named:
        return []
    training, start = nodes.training, 0
    for batch in table.batches(named):
        here = training[start : start + batch.num_rows]
        for look, cells in zip(found, batch.columns, strict=True):
            look.add(cells, here, comma=table.decimal_comma)
        start += batch.num_rows
    return found


def feature_names(tables: SiloTables) -> list[str]:
    """The columns of the table of nodes that are not something else, and have a name."""
    settings = tables.settings
    marks = (settings.case, settings.since)
    other = {settings.id, settings.label, settings.split, *marks, "", *settings.drop}
    return [name for name in tables.nodes.header if name not in other]


def columns_of(found: Iterable[Look], log: tuple[str, ...] | str) -> list[Column]:
    """The columns that become features, and how."""
    return [
        look.column(look.skewed if log == "auto" else look.name in _logged(log))
        for look in found
        if look.kind not in ("text", "empty")
    ]


def _logged(log: tuple[str, ...] | str) -> tuple[str, ...]:
    return () if isinstance(log, str) else log


def _refuse_unknown(tables: SiloTables, named: Iterable[str]) -> None:
    for name in named:
        if name not in tables.nodes.header:
            raise InputError(
                f"{tables.nodes.name} has no column {name!r}, which the settings name "
                f"(got {', '.join(map(repr, tables.nodes.header[:8]))})"
            )


def _is_nan(cells: pa.Array) -> pa.Array:
    if pa.types.is_floating(cells.type):
        return pc.is_nan(cells).fill_null(False)
    return pa.array(np.zeros(len(cells), bool))
