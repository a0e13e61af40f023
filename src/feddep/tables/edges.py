"""The table of edges: who is linked with whom, inside and out of the silo, and how much."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from feddep.errors import InputError
from feddep.graph.outside import OutsideLinks
from feddep.tables.cells import numbers, texts
from feddep.tables.files import SiloTables
from feddep.tables.ids import Ints, NodeIds, names, whole_numbers
from feddep.tables.sources import Table

Floats = npt.NDArray[np.float32]


@dataclass(eq=False)
class Edges:
    """What a table of edges says.

    Attributes:
        pairs: ``(E, 2)`` int32 node numbers, one row for each row with both ends in the silo.
        rows: rows of the table.
        outside: links to named silos; None where the table names none.
        lost: rows of which one end is in no table and no silo is named.
        strangers: rows of which neither end is this silo's.
        loops: rows from a node to itself.
        weights: ``(E,)`` float32 of each pair, where flows are asked for: the column of weights, or
            1 for each row.
        features: by name, what each node's edges add up to.
        silo: what the table calls this silo, if it names silos.
    """

    pairs: Ints
    rows: int = 0
    outside: OutsideLinks | None = None
    lost: int = 0
    strangers: int = 0
    loops: int = 0
    weights: Floats | None = None
    features: dict[str, Floats] = field(default_factory=dict)
    silo: str = ""


def read_edges(tables: SiloTables, ids: NodeIds) -> Edges:
    """Reads a table of edges.

    Raises:
        InputError: a cell is wrong, or no row has anything to do with this silo.
    """
    settings, table = tables.settings, tables.edges
    own = (settings.silo or own_name(tables, ids)) if settings.source_silo else ""
    sums = _Sums(ids.count, settings.weight) if settings.edge_features else None
    found, outside = (
        Edges(np.zeros((0, 2), np.int32), silo=own),
        _Outside(settings.outside == "keep"),
    )
    inside: list[Ints] = []
    weights: list[Floats] = []
    for start, batch in _batches(tables):
        ends = [_ends(batch, role, ids, start, table, own) for role in (0, 1)]
        here = [end.number >= 0 for end in ends]
        both = here[0] & here[1]
        pairs = np.stack([ends[0].number[both], ends[1].number[both]], axis=1)
        inside.append(pairs)
        found.rows += batch.num_rows
        found.loops += int((pairs[:, 0] == pairs[:, 1]).sum())
        found.strangers += int((~here[0] & ~here[1]).sum())
        for mine, other in ((0, 1), (1, 0)):
            out = here[mine] & ~here[other]
            found.lost += outside.add(ends[mine], ends[other], out, own)
        amounts = _weights(batch, tables, start)
        if settings.flows:
            weights.append(_flowing(amounts, batch, tables, start)[both])
        if sums is not None:
            sums.add(ends[0].number, ends[1].number, amounts)
    found.pairs = np.concatenate(inside) if inside else found.pairs
    if settings.flows:
        found.weights = np.concatenate(weights) if weights else np.zeros(0, np.float32)
    _refuse_other_table(found, tables)
    if own and settings.outside == "keep":
        found.outside = outside.links()
    if sums is not None:
        found.features = sums.features()
    return found


def own_name(tables: SiloTables, ids: NodeIds) -> str:
    """What the table calls this silo: the name that most often stands beside one of its ids.

    Banks may number their accounts alike, so a name that is in every row goes first: a row that
    has nothing to do with this silo would not be in its table.
    """
    rows, beside = Counter[str](), Counter[str]()
    total = 0
    for start, batch in _batches(tables):
        ends = [_ends(batch, role, ids, start, tables.edges, "") for role in (0, 1)]
        total += batch.num_rows
        once = [end.silos.dictionary_encode() for end in ends]
        for end, coded in zip(ends, once, strict=True):
            hit = end.number >= 0
            beside.update(_counts(coded, hit))
            rows.update(_counts(coded, np.ones(len(hit), bool)))
        same = pc.equal(ends[0].silos, ends[1].silos).to_numpy(zero_copy_only=False)
        rows.subtract(_counts(once[0], same))
    if not rows:
        return ""
    return max(sorted(rows), key=lambda name: (rows[name] == total, beside[name]))


@dataclass(frozen=True, eq=False)
class _End:
    """One end of every row of a batch: its name, its silo's, and its node number or -1."""

    named: pa.Array
    silos: pa.Array
    number: Ints


def _batches(tables: SiloTables) -> Iterator[tuple[int, pa.RecordBatch]]:
    settings = tables.settings
    wanted = [settings.source, settings.target]
    wanted += [settings.source_silo, settings.target_silo] if settings.source_silo else []
    if settings.weight and (settings.edge_features or settings.flows):
        wanted.append(settings.weight)
    start = 0
    for batch in tables.edges.batches(wanted):
        yield start, batch
        start += batch.num_rows


def _ends(
    batch: pa.RecordBatch, role: int, ids: NodeIds, start: int, table: Table, own: str
) -> _End:
    named = names(batch.column(role))
    if named.null_count:
        row = int(np.flatnonzero(named.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(
            f"{table.place(start + row)}: expected an id as {batch.schema.names[role]!r} "
            "(the cell is empty)"
        )
    number = ids.find(named)
    if batch.num_columns < 4:
        return _End(named, pa.nulls(0, pa.string()), number)
    silos = texts(batch.column(role + 2))
    if silos.null_count:
        row = int(np.flatnonzero(silos.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(
            f"{table.place(start + row)}: expected the name of a silo as "
            f"{batch.schema.names[role + 2]!r} (the cell is empty)"
        )
    if own:
        ours = pc.equal(silos, own).to_numpy(zero_copy_only=False)
        number = np.where(ours, number, np.int32(-1))
    return _End(named, silos, number)


def _counts(coded: pa.DictionaryArray, which: npt.NDArray[np.bool_]) -> dict[str, int]:
    codes = coded.indices.to_numpy(zero_copy_only=False)[which]
    counts = np.bincount(codes, minlength=len(coded.dictionary)).tolist()
    return dict(zip(coded.dictionary.to_pylist(), counts, strict=True))


def _weights(batch: pa.RecordBatch, tables: SiloTables, start: int) -> Floats | None:
    weight = tables.settings.weight
    if not weight or weight not in batch.schema.names:
        return None
    table = tables.edges
    cells = batch.column(batch.num_columns - 1)
    found = numbers(cells, weight, lambda row: table.place(start + row), comma=table.decimal_comma)
    return np.nan_to_num(found, nan=0.0)


def _flowing(
    amounts: Floats | None, batch: pa.RecordBatch, tables: SiloTables, start: int
) -> Floats:
    """How much each row lets flow: its amount, or 1."""
    if amounts is None:
        return np.ones(batch.num_rows, np.float32)
    if (amounts < 0).any():
        row = int(np.flatnonzero(amounts < 0)[0])
        raise InputError(
            f"{tables.edges.place(start + row)}: expected a weight that is not negative as "
            f"{tables.settings.weight!r} (got {amounts[row]:g}); turn the edge around, or leave "
            "flows out"
        )
    return amounts


def _refuse_other_table(found: Edges, tables: SiloTables) -> None:
    touched = len(found.pairs) + found.lost + (len(found.outside) if found.outside else 0)
    if found.rows and found.strangers == found.rows and not touched:
        raise InputError(
            f"{tables.edges.name}: none of {found.rows} rows names an id of {tables.nodes.name}; "
            f"check the columns {tables.settings.source!r}, {tables.settings.target!r} and "
            f"{tables.settings.id!r}"
        )


class _Outside:
    """Links to other silos, collected over batches."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self._nodes: list[Ints] = []
        self._silos: list[pa.Array] = []
        self._ids: list[pa.Array] = []

    def add(self, mine: _End, other: _End, rows: npt.NDArray[np.bool_], own: str) -> int:
        """Takes in some rows; how many name no other silo and are lost."""
        if not own:
            return int(rows.sum())
        chosen = pa.array(rows & ~pc.equal(other.silos, own).to_numpy(zero_copy_only=False))
        if not self._keep:
            return int(rows.sum()) - int(pc.sum(chosen).as_py() or 0)
        self._nodes.append(mine.number[chosen.to_numpy(zero_copy_only=False)])
        self._silos.append(other.silos.filter(chosen).dictionary_encode())
        self._ids.append(other.named.filter(chosen))
        return int(rows.sum()) - len(self._nodes[-1])

    def links(self) -> OutsideLinks:
        """All of them, without repeats."""
        nodes = np.concatenate(self._nodes) if self._nodes else np.zeros(0, np.int32)
        if not len(nodes):
            return OutsideLinks.of([], [], [])
        kinds = {part.type for part in self._ids}
        mixed = len(kinds) > 1
        ids = pa.concat_arrays([p.cast(pa.string()) if mixed else p for p in self._ids])
        numbers = whole_numbers(ids)
        plain = (
            np.array(ids.to_pylist(), np.str_)
            if numbers is None
            else numbers.to_numpy(zero_copy_only=False)
        )
        silos = np.concatenate(
            [
                np.array(part.dictionary.to_pylist(), np.str_)[part.indices.to_numpy()]
                for part in self._silos
                if len(part)
            ]
        )
        return OutsideLinks.of(nodes, silos, plain)


class _Sums:
    """How many edges each node has, in and out, and what they amount to."""

    def __init__(self, nodes: int, weight: str) -> None:
        self._weight = weight
        self._counts = {way: np.zeros(nodes) for way in ("out", "in")}
        self._sums = {way: np.zeros(nodes) for way in ("out", "in")} if weight else {}
        self._outside = np.zeros(nodes)

    def add(self, source: Ints, target: Ints, weights: Floats | None) -> None:
        """Takes in a batch of rows; -1 is an end that is not this silo's."""
        for way, mine, other in (("out", source, target), ("in", target, source)):
            here = mine >= 0
            nodes = len(self._outside)
            self._counts[way] += np.bincount(mine[here], minlength=nodes)
            self._outside += np.bincount(mine[here & (other < 0)], minlength=nodes)
            if weights is not None:
                self._sums[way] += np.bincount(mine[here], weights[here], minlength=nodes)

    def features(self) -> dict[str, Floats]:
        """A column for each count, sum and mean."""
        found = {f"edges {way}": counts for way, counts in self._counts.items()}
        found["edges outside"] = self._outside
        for way, sums in self._sums.items():
            found[f"{self._weight} {way}"] = sums
            found[f"{self._weight} {way}, mean"] = sums / np.maximum(self._counts[way], 1)
        return {name: column.astype(np.float32) for name, column in found.items()}
