"""Scales that silos agree on from sums over their training nodes, without showing a cell.

Each silo writes, for every column of numbers, how many cells there are, what they add up to, and
what their squares do. All sums together give one mean and one deviation, which the schema keeps.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from feddep.errors import DataError, InputError
from feddep.graph.graph import Part
from feddep.graph.schema import Column, Schema
from feddep.tables.encoder import log_scale, places_of, unscaled
from feddep.tables.files import SiloTables
from feddep.tables.nodes import read_nodes

Doubles = npt.NDArray[np.float64]
Bounds = Mapping[str, tuple[float, float]]

GROUP = "scaling"
"""What these sums are called in a consent and in a disclosure log."""

_FORMAT = "feddep-sums"
_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Sums:
    """What one silo tells of its columns of numbers.

    Attributes:
        schema: digest of the schema that the columns are of.
        columns: their names.
        table: ``(columns, 3)`` number of cells, their sum, the sum of their squares; log-scaled
            where the column is.
        epsilon: of the noise in them, for one node; None without noise.
        delta: of the noise.
    """

    schema: str
    columns: tuple[str, ...]
    table: Doubles
    epsilon: float | None = None
    delta: float | None = None

    def write(self, path: Path) -> None:
        """Writes them as JSON that their owner can read."""
        values = {
            "format": _FORMAT,
            "version": 1,
            "schema": self.schema,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "columns": {
                name: dict(zip(("cells", "sum", "squares"), row, strict=True))
                for name, row in zip(self.columns, self.table.tolist(), strict=True)
            },
        }
        path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Sums":
        """The sums in a file.

        Raises:
            DataError: it cannot be read, or holds none.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if (values["format"], values["version"]) != (_FORMAT, 1):
                raise ValueError("another format or version")
            rows = [
                [float(row[part]) for part in ("cells", "sum", "squares")]
                for row in values["columns"].values()
            ]
            table = np.array(rows, np.float64).reshape(len(rows), 3)
            if not np.isfinite(table).all():
                raise ValueError("a sum is no finite number")
            return cls(
                str(values["schema"]), tuple(values["columns"]), table, values.get("epsilon")
            )
        except OSError as error:
            raise DataError(f"{path} cannot be read ({error.strerror})") from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            told = f"{path} holds no sums ({error}); feddep schema sums writes them"
            raise DataError(told) from None


def sums_of(tables: SiloTables, schema: Schema, bounds: Bounds | None = None) -> Sums:
    """The sums of a silo's own tables, over its training nodes.

    Args:
        tables: the silo's.
        schema: the agreed one.
        bounds: for every column of numbers the range that cells are cut to.

    Raises:
        InputError: noise is to hide one node, and another node could change the split.
    """
    if schema.reads_edges != tables.settings.edge_features:
        tables = replace(
            tables, settings=replace(tables.settings, edge_features=schema.reads_edges)
        )
    nodes = read_nodes(tables, schema.classes)
    if bounds is not None and (nodes.drawn or not (nodes.split == Part.TRAIN).any()):
        raise InputError(
            f"{tables.nodes.name} says of no node that it is for training, so a split would be "
            "drawn, and one node more would change it; add a column split, or leave the noise out"
        )
    features, _ = unscaled(tables, nodes, schema, [])
    place, columns = places_of(schema), numbers_in(schema)
    found = np.zeros((len(columns), 3))
    for row, column in zip(found, columns, strict=True):
        own = features[:, place[column.name]]
        limits = None if bounds is None else scaled_bounds(column, bounds[column.name])
        for start in range(0, len(own), _ROWS):
            part = own[start : start + _ROWS]
            row += _sums(column, part[nodes.training[start : start + _ROWS]], limits)
    return Sums(schema.digest(), tuple(column.name for column in columns), found)


def _sums(
    column: Column, cells: npt.NDArray[np.float32], limits: tuple[float, float] | None
) -> Doubles:
    if column.log:
        cells = cells.copy()
        log_scale(cells)
    known = cells[~np.isnan(cells)].astype(np.float64)
    if limits is not None:
        known = known.clip(*limits)
    return np.array([len(known), known.sum(), (known**2).sum()])


def numbers_in(schema: Schema) -> list[Column]:
    """The columns that are scaled."""
    return [column for column in schema.columns if column.kind == "number"]


def scaled_bounds(column: Column, bounds: tuple[float, float]) -> tuple[float, float]:
    """A column's range, log-scaled if the column is."""
    if not column.log:
        return bounds
    both = np.array(bounds, np.float64)
    low, high = np.sign(both) * np.log1p(np.abs(both))
    return float(low), float(high)


def with_scales(schema: Schema, told: Mapping[str, Sums]) -> Schema:
    """The schema with the mean and deviation of each column over all silos' training nodes.

    Raises:
        InputError: sums are of another schema, or say nothing about a column.
    """
    for who, sums in told.items():
        if sums.schema != schema.digest():
            raise InputError(
                f"{who} holds sums for another schema; every silo makes them with this one: "
                "feddep schema sums FOLDER --schema …"
            )
    total = np.sum([sums.table for sums in told.values()], axis=0)
    names: Sequence[str] = next(iter(told.values())).columns
    scales = {name: _scale(name, *row.tolist()) for name, row in zip(names, total, strict=True)}
    columns = tuple(
        replace(column, mean=scales[column.name][0], deviation=scales[column.name][1])
        if column.name in scales
        else column
        for column in schema.columns
    )
    return replace(schema, columns=columns)


def _scale(name: str, count: float, total: float, squares: float) -> tuple[float, float]:
    if count < 1:
        raise InputError(
            f"the sums say nothing about {name!r}: there are no cells, or too few for so much "
            "noise; drop the column, or allow a larger ε"
        )
    mean = total / count
    variance = squares / count - mean**2
    if variance <= 1e-12 * max(1.0, mean**2):
        return mean, 1.0
    return mean, float(np.sqrt(variance))
