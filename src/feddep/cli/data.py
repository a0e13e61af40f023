"""The commands about data: partition, data list, data get, data path."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from feddep.cli.console import note, out_console, print_json, say, table_of
from feddep.cli.options import (
    AsJson,
    Clients,
    Dataset,
    Links,
    Partition,
    Seed,
    Settings,
    Split,
    check_new,
    completed,
    dataset_names,
    given_settings,
    spec_of,
)
from feddep.cli.payments import make_app
from feddep.errors import InputError

data_app = typer.Typer(no_args_is_help=True)
data_app.add_typer(make_app, name="make", help="Generate data to try things with.")


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    app.command(rich_help_panel="Data")(partition)
    app.add_typer(
        data_app,
        name="data",
        help="List the data sets, fetch them, generate others, and print where they are.",
        rich_help_panel="Data",
    )


def partition(
    context: typer.Context,
    dataset: Dataset = None,
    clients: Clients = None,
    partition: Partition = None,
    links: Links = None,
    split: Split = None,
    seed: Seed = None,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="New folder to write the shards to.")] = None,
    settings: Settings = None,
) -> None:
    """Divide a graph among clients; print what each holds and how many edges are lost."""
    from feddep.graph.partition import statistics
    from feddep.graph.shard import write_shards
    from feddep.scenario.build import build_shards

    spec = spec_of(given_settings(**context.params))
    if out is not None:
        check_new(out)
    shards = build_shards(spec)
    found = statistics(shards.graph, shards.owner)
    if out is not None:
        write_shards(shards, out)
        note(f"shards stored in {out}")
    rows = [
        {"nodes": int(nodes), "edges": int(edges)}
        for nodes, edges in zip(found.nodes, found.edges, strict=True)
    ]
    if as_json:
        print_json(
            {
                "dataset": spec.dataset,
                "partition": shards.kind,
                "seed": shards.seed,
                "clients": rows,
                "lost_edges": int(found.lost_edges),
                "lost_share": float(found.lost_share),
            }
        )
        return
    table = Table("client", "|V_i|", "|E_i|")
    for client, row in enumerate(rows):
        table.add_row(str(client), str(row["nodes"]), str(row["edges"]))
    table.add_section()
    count = len(rows)
    mean_nodes = sum(row["nodes"] for row in rows) / count
    mean_edges = sum(row["edges"] for row in rows) / count
    table.add_row("mean", f"{mean_nodes:.0f}", f"{mean_edges:.0f}")
    out_console.print(table)
    out_console.print(f"ΔE = {found.lost_edges}, ΔE/|E| = {found.lost_share:.4f}")


@data_app.command("list")
def data_list(as_json: AsJson = False) -> None:
    """List the data sets and where each was found."""
    from feddep.graph.datasets import DATASETS, find

    found: list[dict[str, Any]] = [
        {
            "name": name,
            "nodes": dataset.nodes,
            "edges": dataset.edges,
            "features": dataset.features,
            "classes": dataset.classes,
            "path": None if (folder := find(name)) is None else str(folder),
        }
        for name, dataset in DATASETS.items()
    ]
    if as_json:
        print_json(found)
        return
    rows = [["synthetic", "any", "any", "any", "any", "generated, needs no file"]]
    for entry in found:
        *texts, _ = map(str, entry.values())
        rows.append([*texts, entry["path"] or f"not yet; feddep data get {entry['name']}"])
    out_console.print(table_of(("name", "nodes", "edges", "features", "classes", "found in"), rows))


@data_app.command("get")
def data_get(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Names in `feddep data list`.", autocompletion=completed(dataset_names)
        ),
    ],
) -> None:
    """Download data sets into the cache and check them by hash."""
    from feddep.graph.datasets import get

    for receipt in get(names):
        verb = "fetched into" if receipt.fetched else "already in"
        say(f"{receipt.name}: {verb} {receipt.folder}")


@data_app.command("path")
def data_path(
    name: Annotated[
        str,
        typer.Argument(
            help="A name in `feddep data list`.", autocompletion=completed(dataset_names)
        ),
    ],
) -> None:
    """Print the folder that a data set is read from."""
    from feddep.graph.datasets import find

    folder = find(name)
    if folder is None:
        raise InputError(f"{name} is not on this machine yet; run: feddep data get {name}")
    say(folder)
