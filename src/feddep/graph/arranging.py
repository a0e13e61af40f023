"""A graph's columns and classes, put in the order of another schema."""

from dataclasses import replace

import numpy as np

from feddep.graph.graph import Graph
from feddep.graph.schema import Schema, places, refuse_difference


def arranged(graph: Graph, schema: Schema | None, whose: str = "the model") -> Graph:
    """The graph with its feature columns and classes in the order of a schema.

    A graph without a schema, or one that is in order, comes back as it is: the same object.

    Args:
        graph: whose columns may stand in another order.
        schema: what to follow; None follows nothing.
        whose: the schema's owner, for the message.

    Raises:
        InputError: the graph's schema differs in more than order; the message names what.
    """
    own = graph.schema
    if own is None or schema is None or own == schema:
        return graph
    known = schema if own.classes else replace(schema, classes=())
    refuse_difference(own, known, graph.name, whose)
    columns = places(own.features, schema.features)
    features = graph.features
    if (columns != np.arange(len(columns))).any():
        features = features[:, columns]
    return replace(
        graph,
        features=features
        if not isinstance(features, np.ndarray)
        else np.ascontiguousarray(features),
        labels=_renumbered(graph, own.classes, known.classes),
        schema=known,
    )


def canonical(graph: Graph) -> Graph:
    """The graph in the order that every silo comes to by itself; without a schema, as it is."""
    return graph if graph.schema is None else arranged(graph, graph.schema.canonical)


def _renumbered(
    graph: Graph, have: tuple[str, ...], want: tuple[str, ...]
) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    if have == want:
        return graph.labels
    number_of = np.append(places(want, have), -1)  # the last stands for an unknown label, -1
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = number_of[graph.labels]
    return found
