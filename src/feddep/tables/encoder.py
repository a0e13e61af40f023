"""A silo's tables as a graph: how they are encoded is fitted once, kept, and used again.

Scales are fitted on training nodes. The same encoder turns next month's tables into a graph whose
columns mean the same.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from feddep.errors import DataError, InputError
from feddep.graph.adjacency import adjacency
from feddep.graph.flows import flows_of
from feddep.graph.graph import Graph
from feddep.graph.schema import Column, Schema
from feddep.reading import json_of, plain_text
from feddep.tables import cells as cells_of
from feddep.tables.edges import Edges, read_edges
from feddep.tables.files import SiloTables
from feddep.tables.moments import Moments
from feddep.tables.nodes import Nodes, read_nodes
from feddep.tables.survey import Look, columns_of, feature_names, looks

Floats = npt.NDArray[np.float32]
Scales = Mapping[str, tuple[float, float]]

ENCODER = "encoder.json"

_FORMAT = "feddep-encoder"
_ROWS = 1 << 16


@dataclass(frozen=True)
class Encoder:
    """How a silo's tables become a graph.

    Attributes:
        schema: the columns and classes.
        scales: for each numeric column, what is subtracted and what it is divided by.
        settings: which columns of the tables hold what, as plain values.
    """

    schema: Schema
    scales: Scales
    settings: Mapping[str, Any] = field(default_factory=dict)

    def encode(self, tables: SiloTables, *, seed: int = 0) -> "Encoded":
        """Other tables of the same silo, treated alike.

        Raises:
            InputError: a column is missing, or a cell is wrong; it names the line.
        """
        nodes = read_nodes(tables, self.schema.classes, seed)
        return _encoded(tables, nodes, self.schema, self.scales, [])

    def write(self, folder: Path) -> None:
        """Writes ``encoder.json`` into a folder."""
        values = {
            "format": _FORMAT,
            "version": 1,
            "schema": self.schema.to_plain(),
            "scales": {name: list(scale) for name, scale in self.scales.items()},
            "settings": dict(self.settings),
        }
        (folder / ENCODER).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Encoder":
        """The encoder in a file, or in a folder's ``encoder.json``.

        Raises:
            DataError: it is missing or damaged.
        """
        file = path / ENCODER if path.is_dir() else path
        try:
            values = json_of(plain_text(file))
            if values["format"] != _FORMAT or values["version"] != 1:
                raise ValueError("it is of another format or version")
            scales = {str(name): _scale(pair) for name, pair in values["scales"].items()}
            schema = Schema.from_plain(values["schema"])
            lost = {c.name for c in schema.columns if c.kind == "number"} - scales.keys()
            if lost:
                raise ValueError(f"there is no scale of {min(lost)!r}")
            return cls(schema, scales, dict(values["settings"]))
        except OSError as error:
            raise DataError(f"{file} cannot be read ({error.strerror})") from None
        except (InputError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise DataError(f"{file} is damaged or no encoder: {error}") from None


@dataclass(frozen=True, eq=False)
class Encoded:
    """A graph from tables, and how it came about.

    Attributes:
        graph: the graph.
        encoder: what treats other tables alike.
        nodes: ids, labels and split.
        edges: what the table of edges says.
        looks: every column of the table of nodes; empty if an encoder was given.
        notes: what was noticed on the way, in words.
    """

    graph: Graph
    encoder: Encoder
    nodes: Nodes
    edges: Edges
    looks: Sequence[Look]
    notes: Sequence[str]


def survey(tables: SiloTables, seed: int = 0) -> tuple[Schema, Nodes, list[Look]]:
    """What a silo's schema would be by itself: the first look at its tables, features last."""
    nodes = read_nodes(tables, seed=seed)
    found = looks(tables, nodes)
    columns = columns_of(found, tables.settings.log)
    if tables.settings.edge_features:
        columns += _edge_columns(tables.settings.weight)
    return Schema(tuple(columns), nodes.classes).canonical, nodes, found


def fit(tables: SiloTables, schema: Schema | None = None, *, seed: int = 0) -> Encoded:
    """Tables as a graph, with scales of their own where the schema holds no agreed ones.

    Args:
        tables: the silo's.
        schema: what the silos agreed on; None takes what the tables themselves suggest.
        seed: of the split, if the table of nodes has none.

    Raises:
        InputError: the tables do not fit the schema, or a cell is wrong; it names the line.
    """
    found: list[Look] = []
    if schema is None:
        schema, nodes, found = survey(tables, seed)
    else:
        nodes = read_nodes(tables, schema.classes, seed)
    return _encoded(tables, nodes, schema.canonical, None, found)


def _edge_columns(weight: str) -> list[Column]:
    names = ["edges out", "edges in", "edges outside"]
    if weight:
        names += [f"{weight} {way}{what}" for way in ("out", "in") for what in ("", ", mean")]
    return [Column(name=name, log=True, from_edges=True) for name in names]


def _encoded(
    tables: SiloTables,
    nodes: Nodes,
    schema: Schema,
    scales: Scales | None,
    found: Sequence[Look],
) -> Encoded:
    settings = tables.settings
    if any(column.from_edges for column in schema.columns) != settings.edge_features:
        settings = replace(settings, edge_features=schema.reads_edges)
        tables = replace(tables, settings=settings)
    if not schema.features:
        raise InputError(
            f"{tables.nodes.name} has no column that can be a feature; add some, or ask for counts "
            "of edges (edge_features = true)"
        )
    notes = [*nodes.notes, *_ignored(tables, schema, found)]
    features, edges = unscaled(tables, nodes, schema, notes)
    scales = _scaled(features, schema, nodes.training, scales)
    indptr, indices = adjacency(edges.pairs, nodes.ids.count)
    flows = None
    if edges.weights is not None:
        flows = flows_of(edges.pairs, edges.weights, indptr, indices)
        edges.weights = None
    edges.pairs = np.empty((0, 2), np.int32)  # a slice would keep all of it
    graph = Graph(
        indptr=indptr,
        indices=indices,
        features=features,
        labels=nodes.labels,
        classes=len(schema.classes),
        node_ids=nodes.ids.array,
        split=nodes.split,
        name=tables.name,
        outside=edges.outside,
        schema=schema,
        marks=nodes.marks,
        flows=flows,
    )
    kept = {name: _plain(value) for name, value in vars(settings).items()}
    return Encoded(graph, Encoder(schema, scales, kept), nodes, edges, found, notes)


def unscaled(
    tables: SiloTables, nodes: Nodes, schema: Schema, notes: list[str]
) -> tuple[Floats, Edges]:
    """The features with numbers as they stand in the tables, NaN where missing; and the edges."""
    features = np.zeros((nodes.ids.count, len(schema.features)), np.float32)
    _fill(features, tables, schema, notes)
    edges = read_edges(tables, nodes.ids)
    place = places_of(schema)
    for name, column in edges.features.items():
        features[:, place[name]] = column
    edges.features = {}
    return features, edges


def places_of(schema: Schema) -> dict[str, int]:
    """The first feature column of every column of the table."""
    starts = np.cumsum([0, *(len(column.features) for column in schema.columns)]).tolist()
    return {column.name: start for column, start in zip(schema.columns, starts, strict=False)}


def _ignored(tables: SiloTables, schema: Schema, found: Sequence[Look]) -> list[str]:
    """Says which columns are no features, and refuses tables that lack one."""
    wanted = {column.name for column in schema.columns if not column.from_edges}
    here = set(feature_names(tables))
    if wanted - here:
        lost = sorted(wanted - here)
        raise InputError(
            f"{tables.nodes.name} has no column {', '.join(map(repr, lost[:5]))}, which the agreed "
            f"schema has (got {', '.join(map(repr, sorted(here - wanted)[:5])) or 'no others'}); "
            "name it so, or agree on another schema"
        )
    told = {
        look.name: "is empty" if look.kind == "empty" else f"has more than {look.limit} texts"
        for look in found
    }
    return [
        f"column {name!r} {told.get(name, 'is not in the agreed schema')}: it is no feature"
        for name in sorted(here - wanted)
    ]


def _fill(features: Floats, tables: SiloTables, schema: Schema, notes: list[str]) -> None:
    """Writes the cells of the table of nodes into their columns; numbers not scaled yet."""
    columns = [column for column in schema.columns if not column.from_edges]
    if not columns:
        return
    place, table = places_of(schema), tables.nodes
    odd: dict[str, int] = {}
    start = 0
    for batch in table.batches([column.name for column in columns]):
        rows = slice(start, start + batch.num_rows)
        for column, cells in zip(columns, batch.columns, strict=True):
            first = place[column.name]
            own = features[rows, first : first + len(column.features)]
            unusual = _fill_column(own, column, cells, start, tables)
            odd[column.name] = odd.get(column.name, 0) + unusual
        start += batch.num_rows
    notes += [
        f"column {name!r}: {count} cells hold nothing or a value that the schema does not know; "
        "they count as average"
        for name, count in odd.items()
        if count
    ]


def _fill_column(
    own: Floats, column: Column, cells: pa.Array, start: int, tables: SiloTables
) -> int:
    """Fills a column's features for some rows; how many cells had no place in the schema."""
    table = tables.nodes

    def where(row: int) -> str:
        return table.place(start + row)

    if column.kind == "category":
        codes = cells_of.codes(cells, pa.array(list(column.categories), pa.string()))
        known = np.flatnonzero(codes >= 0)
        own[known, codes[known]] = 1.0
        missing, unknown = codes == -1, int((codes == -2).sum())
    else:
        if column.kind == "boolean":
            values = cells_of.booleans(cells, column.name, where)
        else:
            values = cells_of.numbers(cells, column.name, where, comma=table.decimal_comma)
        own[:, 0] = values
        missing, unknown = np.isnan(values), 0
    if column.flagged:
        own[:, -1] = missing
        return unknown
    return unknown + int(missing.sum())


def _scaled(
    features: Floats, schema: Schema, training: npt.NDArray[np.bool_], known: Scales | None
) -> dict[str, tuple[float, float]]:
    """Scales numbers in place, a column at a time; what is missing becomes the mean."""
    scales: dict[str, tuple[float, float]] = {}
    for column in schema.columns:
        own = features[:, places_of(schema)[column.name]]
        if column.kind == "boolean":
            own[np.isnan(own)] = 0.0
        if column.kind != "number":
            continue
        if column.log:
            log_scale(own)
        if known is not None:
            scales[column.name] = known[column.name]
        elif column.mean is not None and column.deviation is not None:
            scales[column.name] = (column.mean, column.deviation)
        else:
            moments = Moments()
            for start in range(0, len(own), _ROWS):
                rows = slice(start, start + _ROWS)
                moments.add(own[rows][training[rows]])
            scales[column.name] = (moments.mean, moments.deviation)
        mean, deviation = scales[column.name]
        own -= np.float32(mean)
        own /= np.float32(deviation)
        own[np.isnan(own)] = 0.0
    return scales


def log_scale(own: Floats) -> None:
    """sign(x) log(1 + |x|), in place."""
    for start in range(0, len(own), _ROWS):
        part = own[start : start + _ROWS]
        part[:] = np.sign(part) * np.log1p(np.abs(part))


def _scale(pair: Sequence[Any]) -> tuple[float, float]:
    mean, deviation = float(pair[0]), float(pair[1])
    if not (np.isfinite(mean) and np.isfinite(deviation) and deviation > 0):
        raise ValueError(f"a scale must be a mean and a positive deviation (got {pair})")
    return mean, deviation


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
