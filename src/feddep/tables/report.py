"""What was found in a silo's tables and how it is treated, in words."""

from collections.abc import Iterator, Sequence

import numpy as np

from feddep.graph.graph import Graph, Part
from feddep.graph.schema import Column, Schema
from feddep.tables.encoder import Encoded
from feddep.tables.nodes import classes_of

_SHOWN = 40


def sentences(encoded: Encoded) -> list[str]:
    """The report on a silo's tables, a fact a line."""
    graph, edges, nodes = encoded.graph, encoded.edges, encoded.nodes
    settings = encoded.encoder.settings
    found = [f"{graph.nodes:,} nodes, {edges.rows:,} rows of edges"]
    found += _on_labels(graph, classes_of(nodes), str(settings["label"]))
    found += _on_split(graph, drawn=nodes.drawn)
    found += list(_on_columns(encoded))
    found += list(_on_edges(encoded))
    found += encoded.notes
    return found + problems(graph)


def graph_sentences(graph: Graph) -> list[str]:
    """The report on a graph folder."""
    found = [f"{graph.nodes:,} nodes, {graph.edges:,} edges, {graph.feature_count} features"]
    known = graph.labels[graph.labels >= 0]
    counts = np.bincount(known, minlength=graph.classes).tolist()
    names = graph.schema.classes if graph.schema else ()
    named = names or tuple(map(str, range(graph.classes)))
    found += _on_labels(graph, dict(zip(named, counts, strict=True)), "label")
    found += _on_split(graph, drawn="")
    if graph.schema is None:
        found.append("its columns have no names, so they are matched by number")
    if graph.outside is not None:
        found.append(_on_outside(graph))
    return found + problems(graph)


def problems(graph: Graph) -> list[str]:
    """What makes a silo useless or odd, said plainly."""
    found = []
    known = graph.labels[graph.labels >= 0]
    if not len(known):
        found.append("PROBLEM: no node has a label, so nothing can be learnt or scored here")
    elif len(np.unique(known)) == 1:
        name = _class_name(graph, int(known[0]))
        found.append(f"PROBLEM: all labelled nodes are of one class, {name}")
    if not graph.edges:
        found.append("PROBLEM: there are no edges inside this silo, so the graph is of no use")
    if len(known) and not graph.mask(Part.TRAIN).any():
        found.append("PROBLEM: no node is for training; the silo takes part with weight 0")
    return found


def _class_name(graph: Graph, number: int) -> str:
    names = graph.schema.classes if graph.schema else ()
    return repr(names[number]) if names else str(number)


def _on_labels(graph: Graph, counts: dict[str, int], label: str) -> list[str]:
    known = sum(counts.values())
    if not known:
        return []
    shares = ", ".join(
        f"{name!r} {count:,} ({count / known:.1%})" for name, count in list(counts.items())[:_SHOWN]
    )
    unknown = graph.nodes - known
    rest = f"; {unknown:,} nodes have no label" if unknown else ""
    return [f"classes in {label!r}: {shares}{rest}"]


def _on_split(graph: Graph, *, drawn: str) -> list[str]:
    counts = [int(graph.mask(part).sum()) for part in (Part.TRAIN, Part.VAL, Part.TEST)]
    if not sum(counts):
        return []
    how = f"drawn {drawn}" if drawn else "as the table says"
    return [f"split: {counts[0]:,} train, {counts[1]:,} validation, {counts[2]:,} test ({how})"]


def _on_columns(encoded: Encoded) -> Iterator[str]:
    schema = encoded.encoder.schema
    numbers = [column for column in schema.columns if column.kind == "number"]
    groups = {
        "numbers, standardised": [column for column in numbers if not column.log],
        "numbers, log-scaled (very skewed) and standardised": [c for c in numbers if c.log],
        "yes or no": [column for column in schema.columns if column.kind == "boolean"],
    }
    for told, columns in groups.items():
        if columns:
            yield f"{told}: {_names(columns)}"
    for column in schema.columns:
        if column.kind == "category":
            yield f"category {column.name!r}: {_some(column.categories)}"
    flagged = [column for column in schema.columns if column.flagged]
    if flagged:
        missing = {look.name: look.missing for look in encoded.looks}
        told = ", ".join(
            f"{column.name!r}" + (f" ({missing[column.name]:,})" if column.name in missing else "")
            for column in flagged[:_SHOWN]
        )
        yield f"missing cells become the mean, and a flag says so: {told}"
    yield f"{len(schema.features)} features in all"


def _on_edges(encoded: Encoded) -> Iterator[str]:
    graph, edges, settings = encoded.graph, encoded.edges, encoded.encoder.settings
    used = encoded.encoder.schema.reads_edges
    yield f"{graph.edges:,} links between two nodes of this silo"
    if edges.loops:
        yield f"{edges.loops:,} rows lead from a node to itself: dropped"
    extra = [name for name in ("weight", "time") if settings[name]]
    known = ", ".join(f"{settings[name]!r}" for name in extra)
    if graph.flows is not None:
        yield (
            f"direction and {known or 'repeats'} are kept for models that read them "
            "(model.directions, model.weighted)"
        )
    if used:
        yield "direction and amounts become features: counts, sums and means, in and out"
    elif graph.flows is None:
        told = f"direction, repeats{', ' + known if known else ''} are not used"
        yield (
            f"{told}; edge_features = true makes counts, sums and means of them, flows = true "
            "keeps them for models that read them"
        )
    if edges.lost:
        yield (
            f"{edges.lost:,} rows have one end that is not in the table of nodes: "
            + ("counted as a feature" if used else "dropped")
        )
    if edges.strangers:
        yield f"{edges.strangers:,} rows have no end in this silo: dropped"
    if edges.silo:
        yield f"the table of edges calls this silo {edges.silo!r}"
    if graph.outside is not None and len(graph.outside):
        yield _on_outside(graph)


def _on_outside(graph: Graph) -> str:
    assert graph.outside is not None
    counts = ", ".join(f"{name} {count:,}" for name, count in graph.outside.counts().items())
    return (
        f"{len(graph.outside):,} links lead to other silos ({counts}): kept for methods that "
        "use them, others leave them out"
    )


def _names(columns: Sequence[Column]) -> str:
    return _some([column.name for column in columns])


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more


def schema_sentences(schema: Schema) -> list[str]:
    """What a schema shows, in words."""
    return [
        f"{len(schema.columns)} columns, {len(schema.features)} features",
        f"classes: {_some(schema.classes) or 'not named'}",
    ]
