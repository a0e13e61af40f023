"""The command line: parses and prints, nothing else.

Exit codes: 0 done, 1 failure, 2 wrong usage or bad input, 130 interrupted. Results go to standard
output, everything else to standard error. Heavy imports wait until a command needs them.
"""

import logging
import os
import signal
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.logging import RichHandler
from rich.table import Table

from feddep.cli import deployment, sweeps
from feddep.cli.options import (
    AsJson,
    Clients,
    Dataset,
    Device,
    Epsilon,
    Mechanism,
    Method,
    Partition,
    Preset,
    Rounds,
    Seed,
    Settings,
    Split,
    Workers,
    carry_out,
    check_new,
    check_writable,
    complain,
    counted,
    err_console,
    folder_for,
    given_settings,
    out_console,
    print_json,
    run_each,
    spec_of,
    table_of,
)
from feddep.errors import FeddepError, InputError, InterruptedRunError

app = typer.Typer(no_args_is_help=True, add_completion=False)
data_app = typer.Typer(no_args_is_help=True, help="Find and fetch data sets.")
app.add_typer(data_app, name="data")

# The base of what Typer raises about a wrong command line. Newer versions carry their own copy of
# click and export only this subclass.
_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[1]


@app.callback()
def _about() -> None:
    """Subgraph federated learning: one graph neural network over silos that keep their graphs."""


@app.command()
def run(
    context: typer.Context,
    method: Annotated[
        str | None,
        typer.Option(help="Name in `feddep methods`, or module:ATTRIBUTE; default: feddep."),
    ] = None,
    dataset: Dataset = None,
    clients: Clients = None,
    partition: Partition = None,
    split: Split = None,
    rounds: Rounds = None,
    seed: Seed = None,
    preset: Preset = None,
    privacy: Mechanism = None,
    epsilon: Epsilon = None,
    workers: Workers = None,
    device: Device = "auto",
    runtime: Annotated[str, typer.Option(help="in-process or flower-sim.")] = "in-process",
    out: Annotated[Path | None, typer.Option(help="Run folder; default: under runs/.")] = None,
    resume: Annotated[bool, typer.Option(help="Continue a run that was stopped.")] = False,
    as_json: AsJson = False,
    settings: Settings = None,
) -> None:
    """Train with one method and store the record."""
    from feddep.reports.comparison import run_summary
    from feddep.runs.folder import default_folder

    given = given_settings(**context.params)
    folder = out or default_folder(spec_of(given))
    record = carry_out(
        given, folder, resume=resume, workers=workers, device=device, runtime=runtime
    )
    if as_json:
        print_json(record)
        return
    table = Table.grid(padding=(0, 2))
    for name, text in run_summary(record):
        table.add_row(name, text)
    out_console.print(table)
    err_console.print(f"stored in {folder}", soft_wrap=True)


@app.command()
def compare(
    context: typer.Context,
    methods: Annotated[
        str, typer.Option(help="Names separated by commas.")
    ] = "local,fedavg,feddep,global",
    dataset: Dataset = None,
    clients: Clients = None,
    partition: Partition = None,
    split: Split = None,
    rounds: Rounds = None,
    seed: Seed = None,
    preset: Preset = None,
    privacy: Mechanism = None,
    epsilon: Epsilon = None,
    workers: Workers = None,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Folder for runs and report; default: under runs/.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Run several methods on the same shards and write a report; finished runs are reused."""
    from feddep.reports.comparison import HEADINGS, comparison_markdown, comparison_rows
    from feddep.runs.files import write_atomically

    given = given_settings(**context.params)
    each = [given | {"method": name.strip()} for name in methods.split(",")]
    specs = [spec_of(own) for own in each]  # all of them, before the first is run
    out = out or folder_for("compare", specs[0])
    records = run_each(each, out, workers, device)
    table = table_of(HEADINGS, comparison_rows(records))
    for column in table.columns[1:]:
        column.justify = "right"
    out_console.print(table)
    write_atomically(out / "report.md", comparison_markdown(records))
    err_console.print(f"report: {out / 'report.md'}", soft_wrap=True)


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the methods."""
    from feddep.algorithms import METHODS
    from feddep.reports.comparison import footnotes, marked

    if as_json:
        print_json(
            {
                name: {
                    "summary": method.summary,
                    "discloses": sorted(method.discloses),
                    "sees_cross_edges": method.sees_cross_edges,
                    "reconstruction": method.reconstruction,
                }
                for name, method in METHODS.items()
            }
        )
        return
    rows = (
        (marked(name), method.summary, ", ".join(sorted(method.discloses)) or "scores only")
        for name, method in METHODS.items()
    )
    out_console.print(table_of(("method", "what it is", "what leaves a client"), rows))
    for note in footnotes(METHODS):
        out_console.print(note)


@app.command()
def privacy(
    context: typer.Context,
    run_folder: Annotated[
        Path | None, typer.Argument(help="A finished run; without one the options are priced.")
    ] = None,
    mechanism: Mechanism = "nfdp",
    fanout: Annotated[int, typer.Option(help="Neighbours drawn from a list, d.")] = 5,
    min_degree: Annotated[int, typer.Option(help="Length of the list, D.")] = 10,
    hops: Annotated[int, typer.Option(help="Depth of the embeddings, L.")] = 2,
    epochs: Annotated[int, typer.Option(help="Epochs of the local GNN, N.")] = 50,
    rounds: Annotated[int, typer.Option(help="Averaging rounds.")] = 50,
    keep: Annotated[float, typer.Option(help="Rate of the Bernoulli sampler, r.")] = 1.0,
    delta_prime: Annotated[float, typer.Option(help="δ' of the composition.")] = 1e-5,
    edges: Annotated[int, typer.Option(help="Edges of the graph.")] = 5278,
    epsilon: Annotated[float, typer.Option(help="ε to calibrate for.")] = 0.0,
    noise: Annotated[float, typer.Option(help="Noise multiplier of DP-SGD.")] = 2.0,
    batch: Annotated[float, typer.Option(help="Share of examples in a batch of DP-SGD.")] = 0.1,
    delta: Annotated[float, typer.Option(help="δ at which DP-SGD is priced.")] = 1e-5,
    keep_edge: Annotated[
        float, typer.Option(help="Probability that randomised response keeps an edge; 0: by ε.")
    ] = 0.0,
    occurrences: Annotated[
        int, typer.Option(help="Lists that may name a node in DP-SGD; 0: any number.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Price a privacy mechanism, or a finished run from its ledger: three columns, in words."""
    from feddep.reports.privacy import Question, answer, of_run, price_rows

    if run_folder is not None:
        found = of_run(run_folder)
    else:
        found = answer(
            Question(**{field.name: context.params[field.name] for field in fields(Question)})
        )
    if as_json:
        print_json(found)
        return
    out_console.print(table_of(("", "ε", "δ", "verdict"), price_rows(found)))
    out_console.print(found["statement"])


@app.command()
def audit(
    context: typer.Context,
    method: Method = "feddep",
    dataset: Dataset = None,
    clients: Clients = None,
    partition: Partition = None,
    split: Split = None,
    rounds: Rounds = 10,
    seed: Seed = None,
    preset: Preset = None,
    privacy: Mechanism = None,
    epsilon: Epsilon = None,
    canaries: Annotated[
        int | None,
        typer.Option(min=1, help="Edges to plant by coin; default: all there is room for."),
    ] = None,
    share: Annotated[
        float,
        typer.Option(help="Share of the canaries to guess about, the surest ones."),
    ] = 1.0,
    runs: Annotated[int, typer.Option(min=1, help="Runs to pool, with seeds from --seed on.")] = 1,
    plant_leak: Annotated[
        bool,
        typer.Option("--plant-leak", help="Also release raw neighbour sums: it must be found."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder; default: under runs/.")] = None,
    as_json: AsJson = False,
    settings: Settings = None,
) -> None:
    """Attack a run by what its server sees: a lower bound on ε, beside what is claimed.

    Some pairs of nodes become edges by a fair coin before anything else happens; attackers who know
    all but the coins and the mechanism's noise guess them from the messages. Each attack's bound
    holds with 95% confidence by itself; fix --share and the attack you go by before you look. A low
    bound is no proof of privacy: a cleverer attacker may find more.

    To see that it finds what is there and refutes nothing that holds (half a minute each):

      feddep audit --method fedavg --dataset cora --plant-leak

      feddep audit --method fedavg --dataset cora --privacy randomised-response --epsilon 1 --runs 5

      feddep audit --method fedavg --dataset cora --privacy randomised-response --epsilon 4 --runs 5
    """
    from feddep.audit.audit import PICTURE
    from feddep.audit.audit import audit as carry_out_audit
    from feddep.audit.findings import HEADINGS, rows, sentences
    from feddep.audit.trial import Plan

    spec = spec_of(given_settings(**context.params))
    folder = out or folder_for("audit", spec)
    check_writable(folder)
    plan = Plan(canaries=canaries, share=share, leak=plant_leak)
    with counted(runs) as tell:
        found = carry_out_audit(spec, plan, runs=runs, folder=folder, tell=tell)
    if as_json:
        print_json(found)
        return
    out_console.print(table_of(HEADINGS, rows(found)))
    for line in sentences(found):
        out_console.print(line, soft_wrap=True)
    err_console.print(f"picture: {folder / PICTURE}", soft_wrap=True)


@app.command()
def partition(
    context: typer.Context,
    dataset: Dataset = None,
    clients: Clients = None,
    partition: Partition = None,
    split: Split = None,
    seed: Seed = None,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Write the shards to this folder.")] = None,
    settings: Settings = None,
) -> None:
    """Deal a graph out to clients; print the paper's statistics, or store the shards."""
    from feddep.graph.partition import statistics
    from feddep.graph.shard import write_shards
    from feddep.scenario.build import build

    spec = spec_of(given_settings(**context.params))
    if out is not None:
        check_new(out)
    shards = build(spec)
    found = statistics(shards.graph, shards.owner)
    if out is not None:
        write_shards(shards, out)
        err_console.print(f"shards stored in {out}", soft_wrap=True)
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

    rows: list[dict[str, Any]] = [
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
        print_json(rows)
        return
    table = Table("name", "nodes", "edges", "features", "classes", "found in")
    table.add_row("synthetic", "any", "any", "any", "any", "generated, needs no file")
    for row in rows:
        texts = [str(value) for value in row.values()]
        table.add_row(*texts[:-1], row["path"] or f"not yet; feddep data get {row['name']}")
    out_console.print(table)


@data_app.command("get")
def data_get(names: Annotated[list[str], typer.Argument(help="Names of data sets.")]) -> None:
    """Fetch data sets into the cache, checked by hash."""
    from feddep.graph.datasets import get

    for receipt in get(names):
        verb = "fetched into" if receipt.fetched else "already in"
        out_console.print(f"{receipt.name}: {verb} {receipt.folder}", soft_wrap=True)


@data_app.command("path")
def data_path(name: Annotated[str, typer.Argument(help="Name of a data set.")]) -> None:
    """Print the folder that a data set is read from."""
    from feddep.graph.datasets import find

    folder = find(name)
    if folder is None:
        raise InputError(f"{name} is not on this machine yet; run: feddep data get {name}")
    out_console.print(str(folder), soft_wrap=True)


sweeps.add_to(app)
deployment.add_to(app)


def main(program: typer.Typer = app) -> None:
    """Runs a command line and turns every error into a sentence and an exit code."""
    handler = RichHandler(console=err_console, show_time=False, show_path=False)
    for end in (signal.SIGTERM, signal.SIGHUP):  # or they would leave workers behind
        if signal.getsignal(end) is not signal.SIG_IGN:  # as under nohup
            signal.signal(end, signal.default_int_handler)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    sys.exit(_exit_code(program))


def _exit_code(program: typer.Typer = app) -> int:
    try:
        return int(program(standalone_mode=False) or 0)
    except _UsageError as error:
        error.show(sys.stderr)
        return 2
    except (InterruptedRunError, KeyboardInterrupt, typer.Abort) as error:
        complain(str(error) or "interrupted")
        return 130
    except InputError as error:
        complain(f"error: {error}")
        return 2
    except (FeddepError, OSError, MemoryError) as error:
        complain(f"error: {str(error) or type(error).__name__}")
        return 1
    except Exception as error:
        if "FEDDEP_DEBUG" in os.environ:
            raise
        complain(
            f"error: {type(error).__name__}: {error}\nThis should not happen. "
            "Set FEDDEP_DEBUG=1 to see where, and please report it."
        )
        return 1
