"""Who the nodes are, their classes and their split: what is read before any feature."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from feddep.errors import InputError
from feddep.graph import splits
from feddep.graph.graph import Graph, Part
from feddep.graph.marks import Marks
from feddep.graph.schema import in_order
from feddep.seeding import Seeds
from feddep.tables.cells import as_numbers, is_text, texts
from feddep.tables.files import SiloTables
from feddep.tables.ids import NodeIds, names

_MOST_CLASSES = 1000
_PARTS = {
    "train": Part.TRAIN,
    "training": Part.TRAIN,
    "val": Part.VAL,
    "valid": Part.VAL,
    "validation": Part.VAL,
    "test": Part.TEST,
}


@dataclass(frozen=True, eq=False)
class Nodes:
    """A silo's nodes without their features.

    Attributes:
        ids: what they are called.
        labels: ``(n,)`` int64 class numbers, -1 where unknown.
        classes: the names of the classes.
        split: ``(n,)`` int8.
        drawn: how the split was drawn here; empty if the table has it.
        marks: cases and times, if the table has them.
        notes: what was noticed, in words.
    """

    ids: NodeIds
    labels: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    split: npt.NDArray[np.int8]
    drawn: str
    marks: Marks | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def training(self) -> npt.NDArray[np.bool_]:
        """``(n,)`` the nodes that scales are fitted on: for training, or all if there are none."""
        chosen: npt.NDArray[np.bool_] = self.split == Part.TRAIN
        return chosen if chosen.any() else np.ones(len(self.split), bool)


def read_nodes(tables: SiloTables, classes: Sequence[str] = (), seed: int = 0) -> Nodes:
    """Ids, labels and split of a table of nodes.

    Args:
        tables: the silo's.
        classes: the agreed names of the classes; nothing takes those that occur.
        seed: of the split, if the table has none.

    Raises:
        InputError: an id, a label or a part is wrong; it names the line.
    """
    settings, table = tables.settings, tables.nodes
    roles = (settings.id, settings.label, settings.split, settings.case, settings.since)
    columns = [name for name in dict.fromkeys(roles) if name]
    parts: dict[str, list[pa.Array]] = {name: [] for name in columns}
    for batch in table.batches(columns):
        for name, cells in zip(columns, batch.columns, strict=True):
            read = {settings.id: names, settings.since: moments_in_time}.get(name, texts)
            parts[name].append(read(cells))
    ids = _ids(tables, parts[settings.id])
    notes: list[str] = []
    labels, named = np.full(ids.count, -1, np.int64), tuple(classes)
    if settings.label:
        labels, named = _labels(tables, pa.chunked_array(parts[settings.label]), classes)
    marks = _marks(tables, parts, ids.count)
    if settings.split and settings.split_by == "random":
        split = _split(tables, pa.chunked_array(parts[settings.split]), labels, notes)
        return Nodes(ids, labels, named, split, "", marks, notes)
    spec = splits.SplitSpec(by=settings.split_by)
    split = _drawn(tables.name, labels, len(named), marks, spec, seed)
    told = "60/20/20 of every class" if spec.by == "random" else f"by {spec.by}"
    return Nodes(ids, labels, named, split, told, marks, notes)


def _marks(tables: SiloTables, parts: Mapping[str, list[pa.Array]], count: int) -> Marks | None:
    case, since = tables.settings.case, tables.settings.since
    if not (case or since):
        return None
    named = pa.chunked_array(parts[case]).fill_null("").to_pylist() if case else None
    times = None
    if since:
        cells = pa.chunked_array(parts[since])
        times = cells.to_numpy()
        strange = np.isinf(times)
        if strange.any():
            row = int(np.flatnonzero(strange)[0])
            raise InputError(
                f"{tables.nodes.place(row)}: expected a number, a date such as 2024-05-31 or "
                f"nothing as {since!r}; write dates with year, month and day in this order"
            )
    return Marks.of(count, named, times)


def moments_in_time(cells: pa.Array) -> pa.Array:
    """Numbers and dates as float64, null where there is nothing, ∞ where it is neither."""
    if pa.types.is_temporal(cells.type):
        cells = cells.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    if not is_text(cells.type):
        return cells.cast(pa.float64(), safe=False)
    written = texts(cells)
    found = as_numbers(written)
    if found is not None:
        return found
    return pa.array([_moment(cell) for cell in written.to_pylist()], pa.float64())


def _moment(cell: str | None) -> float | None:
    """Seconds of a date and perhaps time as ISO 8601 writes them, in UTC unless it says more."""
    if cell is None:
        return None
    try:
        found = datetime.fromisoformat(cell)
    except ValueError:
        return math.inf
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _ids(tables: SiloTables, parts: list[pa.Array]) -> NodeIds:
    table, column = tables.nodes, tables.settings.id
    if not sum(map(len, parts)):
        raise InputError(f"{table.name} has a header but no rows; expected one for each node")
    kinds = {part.type for part in parts}
    whole = pa.concat_arrays([part.cast(pa.string()) if len(kinds) > 1 else part for part in parts])
    if whole.null_count:
        row = int(np.flatnonzero(whole.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(f"{table.place(row)}: expected an id as {column!r} (the cell is empty)")
    if len(whole.unique()) < len(whole):
        _refuse_repeat(tables, whole)
    return NodeIds(whole)


def _refuse_repeat(tables: SiloTables, ids: pa.Array) -> None:
    first: dict[object, int] = {}
    for row, name in enumerate(ids.to_pylist()):
        if first.setdefault(name, row) != row:
            earlier = tables.nodes.place(first[name]).rpartition(", ")[2]
            raise InputError(
                f"{tables.nodes.place(row)}: expected an id that no other row has "
                f"({name!r} is in {earlier} too); keep one row for each node"
            )


def _labels(
    tables: SiloTables, cells: pa.ChunkedArray, agreed: Sequence[str]
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    coded = cells.combine_chunks().dictionary_encode()
    written = coded.dictionary.to_pylist()
    if len(written) > _MOST_CLASSES:
        raise InputError(
            f"{tables.nodes.name}: expected at most {_MOST_CLASSES} classes in column "
            f"{tables.settings.label!r} (got {len(written)}, such as {written[0]!r}); "
            "name another column as label"
        )
    known = _as_numbers_if_all_are(written)
    classes = tuple(agreed) or tuple(in_order(set(known)))
    number_of = {name: number for number, name in enumerate(classes)}
    codes = coded.indices.fill_null(len(written)).to_numpy(zero_copy_only=False)
    for code, name in enumerate(known):
        if name not in number_of:
            row = int(np.flatnonzero(codes == code)[0])
            raise InputError(
                f"{tables.nodes.place(row)}: expected one of the agreed classes "
                f"{', '.join(map(repr, classes[:8]))} as {tables.settings.label!r} (got {name!r})"
            )
    numbers = np.array([*(number_of[name] for name in known), -1], np.int64)
    return numbers[codes], classes


def _as_numbers_if_all_are(written: list[str]) -> list[str]:
    """Labels as they are, but 1 and 1.0 are the same number."""
    try:
        values = [float(name) for name in written]
    except ValueError:
        return written
    return [
        str(int(value)) if value.is_integer() and abs(value) < 2**53 else name
        for value, name in zip(values, written, strict=True)
    ]


def _split(
    tables: SiloTables,
    cells: pa.ChunkedArray,
    labels: npt.NDArray[np.int64],
    notes: list[str],
) -> npt.NDArray[np.int8]:
    coded = cells.combine_chunks().dictionary_encode()
    written = coded.dictionary.to_pylist()
    codes = coded.indices.fill_null(len(written)).to_numpy(zero_copy_only=False)
    for code, name in enumerate(written):
        if name.lower() not in _PARTS:
            row = int(np.flatnonzero(codes == code)[0])
            raise InputError(
                f"{tables.nodes.place(row)}: expected train, val, test or nothing as "
                f"{tables.settings.split!r} (got {name!r})"
            )
    parts = np.array([*(_PARTS[name.lower()] for name in written), Part.NONE], np.int8)
    split: npt.NDArray[np.int8] = parts[codes]
    lost = (labels < 0) & (split != Part.NONE)
    if lost.any():
        notes.append(f"{int(lost.sum())} nodes have a split but no label: they are in no part")
        split[lost] = Part.NONE
    return split


def _drawn(
    name: str,
    labels: npt.NDArray[np.int64],
    classes: int,
    marks: Marks | None,
    spec: splits.SplitSpec,
    seed: int,
) -> npt.NDArray[np.int8]:
    """A split as for any graph; nothing where nothing is labelled."""
    if not (labels >= 0).any():
        return np.zeros(len(labels), np.int8)
    nothing = np.zeros((len(labels), 1))
    bare = Graph.from_edges([], nothing, labels, classes=classes, name=name, marks=marks)
    return splits.draw(bare, spec, Seeds(seed))


def classes_of(nodes: Nodes) -> dict[str, int]:
    """How many labelled nodes each class has."""
    counts = Counter(nodes.labels[nodes.labels >= 0].tolist())
    return {name: counts.get(number, 0) for number, name in enumerate(nodes.classes)}
