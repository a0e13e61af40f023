"""Silos that are never joined: a graph each, in memory together for as long as one machine runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol, Self

from feddep.errors import InputError
from feddep.graph.arranging import arranged
from feddep.graph.graph import Graph
from feddep.graph.schema import Schema
from feddep.graph.shard import Shards


class Written(Protocol):
    """How a silo's tables were encoded: it can be written into a folder."""

    def write(self, folder: Path) -> None:
        """Writes itself."""
        ...


@dataclass(frozen=True, eq=False)
class Silos:
    """The graphs of silos of which nobody has the whole, nor the edges between them.

    It stands where :class:`~feddep.graph.shard.Shards` stand for a graph that was divided.

    Attributes:
        graphs: one for each silo, with the same columns and classes; see :meth:`of`.
        names: what the silos are called.
        known_as: what tables of edges call them, for links to other silos; by default the names.
        folders: where they were read from, if they were.
        encoders: how each silo's tables were encoded; None for a silo that brought a graph.
        seed: of the splits that were drawn.
        split: how training, validation and test nodes were chosen.
    """

    graphs: tuple[Graph, ...]
    names: tuple[str, ...]
    known_as: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    encoders: tuple[Written | None, ...] = ()
    seed: int = 0
    split: str = "given"

    name = "silos"
    kind = "given"
    lost_share = None
    """Nobody knows it."""
    whole = None
    """The whole graph, which nobody has."""

    def __post_init__(self) -> None:
        if not self.graphs:
            raise InputError("expected at least one silo (got none)")
        if len(self.names) != len(self.graphs) or len(set(self.names)) < len(self.names):
            raise InputError(
                f"expected a name of its own for each of {len(self.graphs)} silos "
                f"(got {', '.join(self.names)})"
            )

    @classmethod
    def of(cls, graphs: Sequence[Graph], names: Sequence[str], **more: object) -> Self:
        """Silos with their columns and classes in the order of the names of these.

        Raises:
            InputError: one has other columns or classes than the first; both are named.
        """
        return cls(tuple(_alike(graphs, names)), tuple(names), **more)  # type: ignore[arg-type]

    @property
    def clients(self) -> int:
        """M, the number of silos."""
        return len(self.graphs)

    @property
    def client_names(self) -> tuple[str, ...]:
        """What the silos call each other in outside links."""
        return self.known_as or self.names

    @property
    def schema(self) -> Schema | None:
        """What columns and classes mean."""
        return self.graphs[0].schema

    @property
    def feature_count(self) -> int:
        """d, the number of feature columns."""
        return self.graphs[0].feature_count

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.graphs[0].classes

    @property
    def nodes(self) -> int:
        """Of all silos."""
        return sum(graph.nodes for graph in self.graphs)

    @property
    def edges(self) -> int:
        """Inside silos."""
        return sum(graph.edges for graph in self.graphs)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(graph.nbytes for graph in self.graphs)

    @property
    def links(self) -> Literal["lost", "known"]:
        """Whether any silo knows of its links to others."""
        return "known" if any(graph.outside is not None for graph in self.graphs) else "lost"

    def __len__(self) -> int:
        return self.clients

    def __getitem__(self, client: int) -> Graph:
        return self.graphs[client]

    def __iter__(self) -> Iterator[Graph]:
        return iter(self.graphs)

    def __repr__(self) -> str:
        return f"Silos({', '.join(self.names)}; nodes={self.nodes}, edges={self.edges})"


ClientData = Shards | Silos
"""What the clients of a run on one machine have."""


def _alike(graphs: Sequence[Graph], names: Sequence[str]) -> Iterator[Graph]:
    """The graphs with their columns and classes as in the first that names both."""
    named = [graph for graph in graphs if graph.schema is not None]
    model = max(named, key=lambda graph: bool(graph.schema and graph.schema.classes), default=None)
    schema = None if model is None or model.schema is None else model.schema.canonical
    whose = "" if model is None else names[[*graphs].index(model)]
    classes = max((graph.classes for graph in graphs), default=0)
    for graph, name in zip(graphs, names, strict=True):
        own = arranged(replace(graph, name=name), schema, whose)
        if own.feature_count != graphs[0].feature_count:
            raise InputError(
                f"{name} has {own.feature_count} feature columns, and {names[0]} has "
                f"{graphs[0].feature_count}; agree on one schema first (feddep schema join)"
            )
        if own.classes != classes:  # nobody has a label there, or not of the last class
            own = replace(own, classes=classes, schema=own.schema and schema)
        yield own
