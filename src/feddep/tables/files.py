"""A silo's folder of tables: which of its files is which."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from feddep.errors import InputError
from feddep.graph.files import AnyPath
from feddep.tables.settings import SETTINGS, TableSettings
from feddep.tables.sources import Frame, Table, frame_table, open_table

_NODES = ("nodes", "accounts", "customers", "clients", "entities", "persons", "patients", "papers")
_EDGES = ("edges", "transactions", "payments", "transfers", "links", "relations", "citations")
_ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".csv.gz", ".tsv.gz")


@dataclass(frozen=True, eq=False)
class SiloTables:
    """A silo's two tables, opened, and which of their columns hold what.

    Attributes:
        name: the silo's name: its folder's.
        nodes: a row for each node.
        edges: a row for each edge.
        settings: with every column that was found.
    """

    name: str
    nodes: Table
    edges: Table
    settings: TableSettings

    @classmethod
    def of(cls, name: str, nodes: Table, edges: Table, settings: TableSettings) -> "SiloTables":
        """Finds the columns of two tables."""
        settings = settings.of_nodes(nodes.header, nodes.name)
        return cls(name, nodes, edges, settings.of_edges(edges.header, edges.name))


def is_table_folder(folder: AnyPath) -> bool:
    """Whether a folder holds tables that :func:`open_tables` would look at."""
    path = Path(folder)
    return (path / SETTINGS).is_file() or bool(_matching(path, _NODES) and _matching(path, _EDGES))


def open_tables(
    folder: AnyPath,
    *,
    nodes: AnyPath | Frame | None = None,
    edges: AnyPath | Frame | None = None,
    **flags: Any,
) -> SiloTables:
    """The tables of a folder, by ``tables.toml`` and by the usual names of files and columns.

    Args:
        folder: the silo's.
        nodes: the file of nodes, or a data frame.
        edges: the file of edges, or a data frame.
        **flags: fields of :class:`TableSettings` that stand above the file's.

    Raises:
        InputError: a file or a column is missing, or there are several to choose from.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"{path} is not a folder; name the folder that holds a silo's tables")
    settings = TableSettings.read(path / SETTINGS, flags)
    return SiloTables.of(
        path.resolve().name,
        _table(nodes, path, settings.nodes, _NODES, "nodes"),
        _table(edges, path, settings.edges, _EDGES, "edges"),
        replace(settings, nodes="", edges=""),
    )


def frames(nodes: Frame, edges: Frame, name: str = "graph", **settings: Any) -> SiloTables:
    """Two data frames (pandas, pyarrow, or a mapping of columns) as a silo's tables."""
    return SiloTables.of(
        name,
        frame_table(nodes, "nodes"),
        frame_table(edges, "edges"),
        TableSettings.of(settings),
    )


def _table(
    given: AnyPath | Frame | None, folder: Path, named: str, usual: tuple[str, ...], what: str
) -> Table:
    if given is not None and not isinstance(given, str | Path):
        return frame_table(given, what)
    if given is not None:
        return open_table(Path(given))
    if named:
        return open_table(folder / named)
    found = _matching(folder, usual)
    if len(found) == 1:
        return open_table(found[0])
    here = sorted(path.name for path in folder.iterdir() if path.is_file())
    listed = ", ".join(path.name for path in found) or ", ".join(here[:6]) or "nothing"
    wanted = f"one file of {what}, such as {usual[0]}.csv or {usual[1]}.csv"
    raise InputError(
        f'{folder}: expected {wanted} (got {listed}); name it with {what} = "…" in {SETTINGS}'
    )


def _matching(folder: Path, stems: tuple[str, ...]) -> list[Path]:
    wanted = {stem + ending for stem in stems for ending in _ENDINGS}
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name.lower() in wanted)
