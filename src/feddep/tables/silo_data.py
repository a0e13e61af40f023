"""Silos from folders, graphs or data frames, side by side and never joined."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from feddep.errors import InputError
from feddep.graph import splits
from feddep.graph.files import AnyPath
from feddep.graph.folder import is_graph_folder, read_graph
from feddep.graph.graph import Graph, Part
from feddep.graph.schema import Schema
from feddep.graph.silos import Silos
from feddep.seeding import Seeds
from feddep.tables.agreeing import join_schemas
from feddep.tables.encoder import Encoded, fit, survey
from feddep.tables.files import SiloTables, frames, is_table_folder, open_tables
from feddep.tables.sources import Frame

Source = AnyPath | Graph | tuple[Frame, Frame]
"""A folder of tables or of a graph; a graph; or data frames of nodes and of edges."""


def open_silos(
    sources: Sequence[Source], names: Sequence[str] = (), seed: int = 0, **flags: Any
) -> Silos:
    """Every silo's graph. Tables are encoded by one schema, joined from what each may show.

    Args:
        sources: of each silo.
        names: of the silos; default: those of their folders, or their numbers.
        seed: of the splits that are drawn where there is none.
        **flags: fields of :class:`~feddep.tables.settings.TableSettings` for all tables.

    Raises:
        InputError: a source cannot be read, or the silos' columns or classes are not the same.
    """
    names = list(names) or names_of(sources)
    if len(names) != len(sources):
        raise InputError(f"expected a name for each of {len(sources)} silos (got {len(names)})")
    opened = {
        name: _opened(source, name, flags) for name, source in zip(names, sources, strict=True)
    }
    tables = {name: own for name, own in opened.items() if isinstance(own, SiloTables)}
    schema = _schema(tables, opened)
    found = [
        own if isinstance(own, Graph) else fit(own, schema, seed=seed) for own in opened.values()
    ]
    paths = [source for source in sources if isinstance(source, str | Path)]
    return Silos.of(
        [_with_split(own if isinstance(own, Graph) else own.graph, seed) for own in found],
        names,
        known_as=tuple(
            own.edges.silo or name if isinstance(own, Encoded) else name
            for name, own in zip(names, found, strict=True)
        ),
        folders=tuple(map(str, paths)) if len(paths) == len(sources) else (),
        encoders=tuple(own.encoder if isinstance(own, Encoded) else None for own in found),
        seed=seed,
    )


def names_of(sources: Sequence[Source]) -> list[str]:
    """The names of the folders, with those of their parents if two are alike; or numbers."""
    paths = [Path(source).resolve() for source in sources if isinstance(source, str | Path)]
    if len(paths) < len(sources):
        return [str(number) for number in range(len(sources))]
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else [f"{p.parent.name}-{p.name}" for p in paths]


def _opened(source: Source, name: str, flags: Mapping[str, Any]) -> SiloTables | Graph:
    if isinstance(source, Graph):
        return source
    if isinstance(source, tuple):
        if len(source) != 2:
            raise InputError(
                f"silo {name}: expected a pair of data frames, nodes and edges "
                f"(got {len(source)} of them)"
            )
        return frames(*source, name=name, **flags)
    if is_graph_folder(source):
        return read_graph(source)
    if not Path(source).is_dir() or not is_table_folder(source):
        raise InputError(
            f"{source} holds neither a graph (manifest.json) nor tables such as nodes.csv and "
            "edges.csv; see docs/own_data.md"
        )
    return open_tables(source, **flags)


def _schema(tables: Mapping[str, SiloTables], opened: Mapping[str, object]) -> Schema | None:
    """What tables are encoded by: the schema of a silo that brings a graph, or the joined one."""
    known = [own.schema for own in opened.values() if isinstance(own, Graph) and own.schema]
    if known or not tables:
        return known[0] if known else None
    return join_schemas({name: survey(own)[0] for name, own in tables.items()})[0]


def _with_split(graph: Graph, seed: int) -> Graph:
    """A silo that brings no split has one drawn, 60/20/20 of every class."""
    if (graph.split != Part.NONE).any() or (graph.labels < 0).all():
        return graph
    return graph.with_split(splits.draw(graph, splits.SplitSpec(), Seeds(seed)))
