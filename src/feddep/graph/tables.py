"""A graph from a user's CSV tables; errors name the line."""

import csv
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from feddep.errors import InputError
from feddep.graph.files import AnyPath, expected_at
from feddep.graph.folder import EDGE_COLUMNS, NODE_COLUMNS, PART_NAMES, read_features
from feddep.graph.graph import Graph
from feddep.graph.schema import Schema, in_order

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>", "#n/a"})
"""What a cell holds where something is not known, in lower case."""

_KEPT = 256  # whole labels up to here are class numbers, so that a silo may lack a class

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


def read_tables(
    nodes: AnyPath,
    edges: AnyPath,
    *,
    features: AnyPath | None = None,
    class_names: Sequence[str] | None = None,
    name: str = "graph",
) -> Graph:
    """A graph from two CSV tables with a header line each.

    Args:
        nodes: a table with a column ``id`` (whole numbers or text). Optional: ``label``, where
            whole numbers below 256 are kept and others are numbered in order, numbers as numbers;
            empty, NA and nan are unknown; and ``split``, train, val, test or empty. All other
            columns with a name are numeric features.
        edges: a table with columns ``source`` and ``target``; without these names, its first two
            columns. Direction, repeats and self-loops are dropped; further columns are ignored.
        features: an .npy table, or an .npz as from ``scipy.sparse.save_npz``, with a row per row of
            ``nodes``; then the other columns of ``nodes`` are ignored.
        class_names: all labels in the order of their numbers. Silos must agree on it if a silo may
            lack a class.
        name: what to call the graph.

    Raises:
        InputError: it names the file, the line, what was expected and what was found.
    """
    nodes_path, edges_path = Path(nodes), Path(edges)
    table = _read_node_table(nodes_path, with_features=features is None)
    labels, classes = _number_labels(table, class_names)
    schema = Schema.of_numbers(table.feature_names, classes) if features is None else None
    split = _part_codes(table)
    matrix = table.feature_matrix() if features is None else read_features(Path(features))
    if matrix.shape[0] != len(table.ids):
        raise InputError(
            f"{features}: expected a row for each of {len(table.ids)} nodes in {nodes_path} "
            f"(got {matrix.shape[0]})"
        )
    pairs = _read_edge_table(edges_path, table)
    numbers = _whole_numbers(table.ids)
    return Graph.from_edges(
        pairs,
        matrix,
        labels,
        classes=len(classes),
        node_ids=np.array(table.ids) if numbers is None else numbers,
        split=split,
        name=name,
        schema=schema,
    )


@dataclass
class _NodeTable:
    """The cells of a user's nodes.csv, one list entry per row."""

    path: Path
    feature_names: list[str]
    lines: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    features: "array[float]" = field(default_factory=lambda: array("f"))

    def add_features(self, line: int, cells: Sequence[str]) -> None:
        try:
            self.features.extend(map(float, cells))
        except ValueError:
            named = zip(self.feature_names, cells, strict=True)
            column, cell = next((n, c) for n, c in named if not _is_number(c))
            raise InputError(
                expected_at(self.path, line, f"a number as feature {column!r}", cell)
            ) from None

    def feature_matrix(self) -> npt.NDArray[np.float32]:
        """``(n, d)``; NaN and infinity are refused."""
        matrix = np.frombuffer(self.features, np.float32).reshape(len(self.ids), -1)
        bad = np.argwhere(~np.isfinite(matrix))
        if len(bad):
            row, column = bad[0]
            expectation = f"a finite number as feature {self.feature_names[column]!r}"
            raise InputError(
                expected_at(self.path, self.lines[row], expectation, matrix[row, column])
            )
        return matrix


def _read_node_table(path: Path, *, with_features: bool) -> _NodeTable:
    rows = _read_rows(path, "id,label,split and the names of the features")
    _, header = next(rows)
    place = {column: header.index(column) for column in NODE_COLUMNS if column in header}
    if "id" not in place:
        raise InputError(expected_at(path, 1, "a column 'id'", ",".join(header)))
    if len(set(header)) != len(header):
        raise InputError(expected_at(path, 1, "different names for all columns", ",".join(header)))
    # A column without a name is the row number that some tools write: no feature.
    others = [i for i, column in enumerate(header) if column and column not in place]
    others = others if with_features else []
    if with_features and not others:
        raise InputError(
            f"{path} has no feature columns; add some, or give a file of features "
            f"(got {','.join(header)})"
        )
    table = _NodeTable(path, [header[i] for i in others])
    for line, row in rows:
        table.lines.append(line)
        table.ids.append(row[place["id"]])
        table.labels.append(_known(row[place["label"]]) if "label" in place else "")
        table.parts.append(row[place["split"]] if "split" in place else "")
        table.add_features(line, [row[i] for i in others])
    _check_ids(table)
    return table


def _check_ids(table: _NodeTable) -> None:
    if not table.ids:
        raise InputError(f"{table.path} has a header but no nodes")
    first_line: dict[str, int] = {}
    for line, node_id in zip(table.lines, table.ids, strict=True):
        if not node_id:
            raise InputError(expected_at(table.path, line, "an id", node_id))
        if first_line.setdefault(node_id, line) != line:
            unique = f"an id that line {first_line[node_id]} does not have"
            raise InputError(expected_at(table.path, line, unique, node_id))


def _number_labels(
    table: _NodeTable, class_names: Sequence[str] | None
) -> tuple[Longs, Sequence[str]]:
    """Labels as class numbers, -1 where unknown, and the names of the classes."""
    known = [label for label in table.labels if label]
    if class_names is None:
        numbers = _whole_numbers(known)
        if numbers is not None and -1 <= numbers.min(initial=0) <= numbers.max(initial=0) < _KEPT:
            count = int(numbers.max(initial=-1)) + 1
            return _fill_known(table.labels, numbers), [str(number) for number in range(count)]
        class_names = in_order(set(known))
    number_of = {name: number for number, name in enumerate(class_names)}
    for line, label in zip(table.lines, table.labels, strict=True):
        if label and label not in number_of:
            names = f"a label of {', '.join(class_names)}"
            raise InputError(expected_at(table.path, line, names, label))
    codes = np.array([number_of[label] for label in known], np.int64)
    return _fill_known(table.labels, codes), class_names


def _fill_known(labels: Sequence[str], numbers: Longs) -> Longs:
    filled = np.full(len(labels), -1, np.int64)
    filled[[bool(label) for label in labels]] = numbers
    return filled


def _part_codes(table: _NodeTable) -> npt.NDArray[np.int8]:
    code_of = {name: part for part, name in PART_NAMES.items()}
    for line, part, label in zip(table.lines, table.parts, table.labels, strict=True):
        if part not in code_of:
            raise InputError(
                expected_at(table.path, line, "a split of train, val, test or nothing", part)
            )
        if part and not label:
            raise InputError(
                expected_at(table.path, line, "no split for a node without label", part)
            )
    return np.array([code_of[part] for part in table.parts], np.int8)


def _read_edge_table(path: Path, table: _NodeTable) -> Ints:
    """``(E, 2)`` node numbers."""
    rows = _read_rows(path, "source,target")
    _, header = next(rows)
    number_of = {node_id: number for number, node_id in enumerate(table.ids)}
    if len(header) < 2:
        raise InputError(expected_at(path, 1, "two columns, source,target", ",".join(header)))
    if header[0] in number_of and header[1] in number_of:
        raise InputError(expected_at(path, 1, "the names source,target", ",".join(header)))
    named = all(column in header for column in EDGE_COLUMNS)
    columns = [header.index(column) for column in EDGE_COLUMNS] if named else [0, 1]
    numbers = array("i")
    for line, row in rows:
        for column in columns:
            number = number_of.get(row[column])
            if number is None:
                raise InputError(expected_at(path, line, f"an id from {table.path}", row[column]))
            numbers.append(number)
    return np.frombuffer(numbers, np.int32).reshape(-1, 2)


def _read_rows(path: Path, header: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every row that is not blank, the header first."""
    width = None
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, skipinitialspace=True, strict=True)
            for cells in reader:
                if not cells:
                    continue
                width = width or len(cells)
                if len(cells) != width:
                    raise InputError(
                        expected_at(path, reader.line_num, f"{width} cells", len(cells))
                    )
                yield reader.line_num, [cell.strip() for cell in cells]
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a CSV file in UTF-8 ({error})") from None
    if width is None:
        raise InputError(f"{path} is empty; expected a first line with {header}")


def _whole_numbers(texts: Sequence[str]) -> Longs | None:
    """The texts as integers if all are, written as Python would: "007" is a name, not 7."""
    written = np.array(texts, np.str_)
    try:
        numbers = written.astype(np.int64)
    except (ValueError, OverflowError):
        return None
    return numbers if (numbers.astype(np.str_) == written).all() else None


def _known(label: str) -> str:
    """The label, or nothing where it says that there is none."""
    return "" if label.lower() in MISSING else label


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
