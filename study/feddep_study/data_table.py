"""The data table of the paper's appendix: what Louvain leaves of each data set."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from feddep.graph import datasets, partition
from feddep.runs.files import write_atomically
from feddep.seeding import Seeds

CLIENTS = (3, 5, 10)
Row = dict[str, Any]


def measure(names: Sequence[str], seeds: Sequence[int]) -> Iterator[Row]:
    """One row for each data set, number of clients and seed."""
    for name in names:
        graph = datasets.load(name)
        for clients in CLIENTS:
            for seed in seeds:
                spec = partition.PartitionSpec(clients=clients)
                found = partition.statistics(graph, partition.assign(graph, spec, Seeds(seed)))
                yield {
                    "dataset": name,
                    "clients": clients,
                    "seed": seed,
                    "subgraph_nodes": fmean(found.nodes),
                    "subgraph_edges": fmean(found.edges),
                    "lost_edges": found.lost_edges,
                    "lost_share": found.lost_share,
                }


def store(rows: Sequence[Row], file: Path) -> None:
    """Writes the rows as one JSON list, a line each."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def beside_paper(rows: Sequence[Row], printed: dict[str, Any]) -> list[tuple[str, ...]]:
    """Texts: data set, M, our mean of nodes and edges a client and of lost edges, the paper's.

    Args:
        rows: from :func:`measure`.
        printed: the tables ``data.NAME`` of ``paper.toml``.
    """
    found = []
    for name, clients in dict.fromkeys((row["dataset"], row["clients"]) for row in rows):
        own = [row for row in rows if (row["dataset"], row["clients"]) == (name, clients)]
        paper = {key: table[str(clients)] for key, table in printed[name].items() if _by_m(table)}
        ours = {key: fmean(row[key] for row in own) for key in paper}
        found.append(
            (
                name,
                str(clients),
                *(f"{ours[key]:.0f} / {paper[key]}" for key in _COUNTS),
                f"{ours['lost_share']:.4f} / {paper['lost_share']:.4f}",
                f"{ours['lost_edges'] / paper['lost_edges'] - 1:+.0%}",
            )
        )
    return found


HEADINGS = ("dataset", "M", "nodes a client", "edges a client", "ΔE", "lost share", "ΔE differs")
_COUNTS = ("subgraph_nodes", "subgraph_edges", "lost_edges")


def _by_m(table: object) -> bool:
    return isinstance(table, dict)
