"""The command line: parses and prints, nothing else.

Exit codes: 0 done, 1 failure, 2 wrong usage or bad input, 130 interrupted. Results go to standard
output, everything else to standard error. Heavy imports wait until a command needs them.
"""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from feddep import cli_deployment
from feddep.errors import FeddepError, InputError, InterruptedRunError, unknown

if TYPE_CHECKING:
    from feddep.experiments.journal import Watcher
    from feddep.experiments.sweep import Sweep
    from feddep.scenario.spec import RunSpec

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
data_app = typer.Typer(no_args_is_help=True, help="Find and fetch data sets.")
app.add_typer(data_app, name="data")
cli_deployment.add_to(app)

# Options that are keys of a spec, in every command that has them; :func:`_given` takes them out of
# a command's ``context.params``.
_FLAG_KEYS = {
    "method": "method",
    "dataset": "dataset",
    "clients": "partition.clients",
    "partition": "partition.kind",
    "split": "split.kind",
    "rounds": "training.rounds",
    "seed": "seed",
    "preset": "preset",
    "privacy": "privacy.mechanism",
    "epsilon": "privacy.epsilon",
}
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

out_console = Console(highlight=False)
err_console = Console(stderr=True, highlight=False)

# The base of what Typer raises about a wrong command line. Newer versions carry their own copy of
# click and export only this subclass.
_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[1]

Method = Annotated[str, typer.Option(help="Name in `feddep methods`.")]
Dataset = Annotated[
    str | None, typer.Option(help="Name of a data set (feddep data list) or path of a folder.")
]
Clients = Annotated[int | None, typer.Option(help="Number of clients, M.")]
Partition = Annotated[str | None, typer.Option(help="louvain, random or label-skew.")]
Split = Annotated[str | None, typer.Option(help="stratified, random or quota.")]
Rounds = Annotated[int | None, typer.Option(help="Rounds of training.")]
Seed = Annotated[int | None, typer.Option(help="Fixes every random draw.")]
Preset = Annotated[
    str | None, typer.Option(help="tuned or paper: where settings come from that are not given.")
]
Mechanism = Annotated[
    str | None, typer.Option(help="nfdp, one-shot, randomised-response, dp-sgd or none.")
]
Epsilon = Annotated[float | None, typer.Option(help="ε that the mechanism is to keep to.")]
AtOnce = Annotated[int | None, typer.Option(min=1, help="Runs at a time.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; default: the cores.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Folder = Annotated[Path, typer.Option(help="Where the declarations and records are.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Any key of the spec, e.g. model.hidden=64.")
]


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
    from feddep.experiments.folder import as_stored
    from feddep.reports.comparison import run_summary

    given = _given(**context.params)
    spec = _spec(given)
    if out is not None and resume:
        spec = as_stored(spec, out, given)
    record, folder = _carry_out(
        spec, out, resume=resume, workers=workers, device=device, runtime=runtime
    )
    if as_json:
        _print_json(record)
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
    from feddep.experiments.files import write_atomically
    from feddep.reports.comparison import HEADINGS, comparison_markdown, comparison_rows

    given = _given(**context.params)
    specs = [_spec(given | {"method": name.strip()}) for name in methods.split(",")]
    out = out or _folder_for("compare", specs[0])
    records = _run_each(specs, out, workers, device)
    table = _table(HEADINGS, comparison_rows(records))
    for column in table.columns[1:]:
        column.justify = "right"
    out_console.print(table)
    write_atomically(out / "report.md", comparison_markdown(records))
    err_console.print(f"report: {out / 'report.md'}", soft_wrap=True)


@app.command()
def costs(
    context: typer.Context,
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Run folders to read; nothing is run then.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Names separated by commas; default: all that send.")
    ] = None,
    dataset: Dataset = None,
    clients: Clients = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of training; default: 3.")] = None,
    seed: Seed = None,
    preset: Annotated[str | None, typer.Option(help="tuned or paper; default: paper.")] = None,
    workers: Workers = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Markdown file to write as well.")] = None,
    as_json: AsJson = False,
    settings: Settings = None,
) -> None:
    """Measure what each method sends and how long it takes, beside the paper's formulas."""
    from feddep.experiments.files import read_record, write_atomically
    from feddep.reports.costs import costs_json, costs_markdown

    given = _given(**context.params)
    if out is not None:
        _check_file(out)
    if not runs:
        records = _run_for_costs(methods, given, workers, device)
    elif given or methods:
        raise InputError("give run folders, or what is to be run, not both")
    else:
        records = [read_record(path) for path in runs]
    page = costs_markdown(records)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, page)
    if as_json:
        _print_json(costs_json(records))
        return
    out_console.print(page, soft_wrap=True, markup=False, end="")


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="A declaration such as experiments/forms.toml.")],
    at_once: AtOnce = None,
) -> None:
    """Run what a sweep still lacks and print its table; stop it at any time and go on later."""
    from feddep.experiments.sweep import Sweep
    from feddep.reports.summary import summary_table

    declared = Sweep.read(file)
    _run_missing(declared, at_once)
    out_console.print(summary_table(declared.records()), soft_wrap=True)


@app.command()
def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(help="data table1 quota table2 hops privacy curves costs pays, or all."),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A small version in minutes.")] = False,
    at_once: AtOnce = None,
    folder: Folder = Path("experiments"),
) -> None:
    """Run (or go on with) the sweeps behind the paper's tables and figures."""
    from feddep.experiments.pipeline import cores
    from feddep.experiments.reproduce import PARTS, seconds_left, sweeps_of
    from feddep.reports.summary import summary_table

    wanted = list(PARTS) if "all" in names else names
    for name in wanted:
        if name not in PARTS:
            raise unknown("part of the paper", name, [*PARTS, "all"])
    if "data" in wanted:
        _data_table(folder, quick=quick)
    for name, declared in sweeps_of(wanted, folder, quick=quick).items():
        left = seconds_left(declared, at_once or cores())
        guess = "" if left is None else f", about {left / 60:.0f} minutes left"
        missing = len(declared.missing())
        err_console.print(f"{name}: {missing} of {len(declared.cells)} runs to do{guess}")
        _run_missing(declared, at_once)
        out_console.print(f"{name}\n{summary_table(declared.records())}", soft_wrap=True)


def _data_table(folder: Path, *, quick: bool) -> None:
    """The part that trains nothing."""
    import tomllib

    from feddep.experiments import data_table
    from feddep.reports.comparison import markdown_table

    printed = tomllib.loads((folder / "paper.toml").read_text())["data"]
    names = ["cora", "citeseer"] if quick else list(printed)
    rows = list(data_table.measure(names, [0] if quick else range(5)))
    results = folder / "results"
    data_table.store(rows, (results / "quick" if quick else results) / "data.json")
    table = markdown_table(data_table.HEADINGS, data_table.beside_paper(rows, printed))
    out_console.print(f"data, ours / the paper's\n{table}", soft_wrap=True)


@app.command()
def report(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Run folders; each gets a page of its own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write into; default: report/, or each run's.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The records of `feddep reproduce --quick`.")
    ] = False,
    folder: Folder = Path("experiments"),
) -> None:
    """Write Markdown, LaTeX and a page that works offline from stored records; runs nothing."""
    from feddep.reports.report import write_report
    from feddep.reports.run_page import write_run_page

    if runs and quick:
        raise InputError("give run folders, or --quick, not both")
    for target in [out or Path("report")] if out or not runs else runs:
        _check_writable(target)
    if runs:
        written = [write_run_page(run, out and out / f"{run.resolve().name}.html") for run in runs]
    else:
        written = write_report(folder, out or Path("report"), quick=quick)
    for path in written:
        out_console.print(str(path), soft_wrap=True)


@app.command()
def tune(
    method: Method,
    dataset: Annotated[str, typer.Option(help="Name of a data set or path of a folder.")],
    clients: Clients = None,
    trials: Annotated[int, typer.Option(help="Settings to try.")] = 12,
    seeds: Annotated[int, typer.Option(help="Runs of each, with seeds from 0.")] = 2,
    split: Annotated[
        list[str] | None, typer.Option(help="Kind of split; several: their scores count alike.")
    ] = None,
    at_once: AtOnce = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of records and choice; default: experiments/tuning.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Make the choice a preset.")] = False,
    settings: Settings = None,
) -> None:
    """Search for settings by validation score; stop it at any time and go on later."""
    from feddep.experiments.tuning import FOLDER, Tuning
    from feddep.reports.tuning import HEADINGS, tuning_rows

    fixed = _given(settings, clients=clients)
    folder = out or FOLDER
    tuning = Tuning.declare(
        method,
        dataset,
        trials=trials,
        seeds=seeds,
        splits=split or (),
        fixed=fixed,
        folder=folder,
    )
    if write:
        tuning.check_preset_file()
    _check_writable(folder)
    tuning.check_data()
    _run_missing(tuning.runs, at_once)
    outcome = tuning.outcome()
    out_console.print(_table(HEADINGS, tuning_rows(outcome)))
    err_console.print(f"choice: {tuning.write_choice(outcome)}", soft_wrap=True)
    if write:
        tuning.write_preset(outcome)
        err_console.print(f"preset stored for {method} on {dataset}", soft_wrap=True)


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the methods."""
    from feddep.algorithms import METHODS
    from feddep.reports.comparison import footnotes, marked

    if as_json:
        _print_json(
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
    out_console.print(_table(("method", "what it is", "what leaves a client"), rows))
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
        _print_json(found)
        return
    out_console.print(_table(("", "ε", "δ", "verdict"), price_rows(found)))
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
    from feddep.audit.audit import audit as carry_out
    from feddep.audit.findings import HEADINGS, rows, sentences
    from feddep.audit.trial import Plan

    spec = _spec(_given(**context.params))
    folder = out or _folder_for("audit", spec)
    _check_writable(folder)
    plan = Plan(canaries=canaries, share=share, leak=plant_leak)
    with _counted(runs) as tell:
        found = carry_out(spec, plan, runs=runs, folder=folder, tell=tell)
    if as_json:
        _print_json(found)
        return
    out_console.print(_table(HEADINGS, rows(found)))
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

    spec = _spec(_given(**context.params))
    if out is not None:
        _check_new(out)
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
        _print_json(
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
        _print_json(rows)
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


def main() -> None:
    """Runs the command line and turns every error into a sentence and an exit code."""
    handler = RichHandler(console=err_console, show_time=False, show_path=False)
    for end in (signal.SIGTERM, signal.SIGHUP):  # or they would leave workers behind
        if signal.getsignal(end) is not signal.SIG_IGN:  # as under nohup
            signal.signal(end, signal.default_int_handler)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        return int(app(standalone_mode=False) or 0)
    except _UsageError as error:
        error.show(sys.stderr)
        return 2
    except (InterruptedRunError, KeyboardInterrupt, typer.Abort) as error:
        _complain(str(error) or "interrupted")
        return 130
    except InputError as error:
        _complain(f"error: {error}")
        return 2
    except (FeddepError, OSError, MemoryError) as error:
        _complain(f"error: {str(error) or type(error).__name__}")
        return 1
    except Exception as error:
        if "FEDDEP_DEBUG" in os.environ:
            raise
        _complain(
            f"error: {type(error).__name__}: {error}\nThis should not happen. "
            "Set FEDDEP_DEBUG=1 to see where, and please report it."
        )
        return 1


def _complain(text: str) -> None:
    err_console.print(text, soft_wrap=True, markup=False)


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    table = Table(*headings)
    for row in rows:
        table.add_row(*row)
    return table


def _check_new(folder: Path) -> None:
    """Finds out before any work whether a folder can be made."""
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise InputError(f"{folder} exists already; choose another --out or delete it")
    except OSError as error:
        raise _cannot_write(folder, error) from None
    _check_writable(folder)


def _check_file(file: Path) -> None:
    """Finds out before any work whether a file can be written."""
    if file.is_dir():
        raise InputError(f"{file} is a folder; --out is the name of a file")
    _check_writable(file.parent)


def _check_writable(folder: Path) -> None:
    """Finds out before any work whether files can be put into a folder, which need not exist."""
    target = folder.absolute()
    try:
        nearest = next(path for path in (target, *target.parents) if path.exists())
        with TemporaryDirectory(dir=nearest):
            pass
    except OSError as error:
        raise _cannot_write(folder, error) from None


def _cannot_write(folder: Path, error: OSError) -> InputError:
    return InputError(f"cannot write to {folder}: {error.strerror}; choose another --out")


def _given(settings: list[str] | None, **flags: Any) -> dict[str, Any]:
    """What the user set, by key; a flag wins over a --set of the same key.

    Args:
        settings: of --set.
        flags: options of a command; those that are no keys of a spec are left aside.
    """
    from feddep.scenario.spec import parse_settings

    given: dict[str, Any] = parse_settings(settings or [])
    for name, key in _FLAG_KEYS.items():
        if flags.get(name) is not None:
            given[key] = flags[name]
    return given


def _spec(given: dict[str, Any]) -> "RunSpec":
    """The spec, with what the user left open."""
    from feddep.scenario.build import resolve
    from feddep.scenario.spec import RunSpec

    return resolve(RunSpec().with_settings(given), given)


def _run_missing(declared: "Sweep", at_once: int | None) -> None:
    """Runs what has no record yet, with a progress bar."""
    from feddep.experiments.pipeline import cores

    missing = len(declared.missing())
    if not missing:
        return
    with _counted(missing) as tell:
        declared.run(at_once or cores(), lambda *_: tell())


def _carry_out(
    spec: "RunSpec",
    out: Path | None,
    *,
    resume: bool,
    workers: int | None,
    device: str,
    runtime: str = "in-process",
) -> tuple[dict[str, Any], Path]:
    """Claims the folder, loads, runs; a finished run is not run again on ``resume``."""
    from feddep.experiments.folder import RunFolder, default_folder
    from feddep.scenario.build import build

    run_pipeline = _pipeline(runtime, spec.method)
    path = out or default_folder(spec)
    with RunFolder.claim(path, spec, resume=resume) as folder:
        finished = folder.finished()
        if finished is not None:
            return finished, path
        started = time.perf_counter()
        shards = build(spec)
        loading = time.perf_counter() - started
        with _progress(spec) as watch, _graceful_stop() as stop_requested:
            result = run_pipeline(
                spec,
                shards,
                workers=workers,
                device=device,
                folder=folder,
                loading_seconds=loading,
                watch=watch,
                stop_requested=stop_requested,
            )
    return result.record, path


def _run_each(
    specs: list["RunSpec"], folder: Path, workers: int | None, device: str
) -> list[dict[str, Any]]:
    """A record of each spec, stored under its method's name; finished runs are reused."""
    from feddep.experiments.folder import plain_method

    return [
        _carry_out(
            spec, folder / plain_method(spec.method), resume=True, workers=workers, device=device
        )[0]
        for spec in specs
    ]


def _folder_for(purpose: str, spec: "RunSpec") -> Path:
    """Where to store what is made of runs like this one."""
    from feddep.experiments.folder import default_folder

    folder = default_folder(spec)
    return folder.with_name(f"{purpose}-{folder.name}")


def _pipeline(runtime: str, method: str) -> Callable[..., Any]:
    """What runs a spec in a runtime."""
    if runtime == "in-process":
        from feddep.experiments.pipeline import run as in_process

        return in_process
    if runtime != "flower-sim":
        raise unknown("runtime", runtime, ["in-process", "flower-sim"])
    try:
        from feddep.deployment.simulation import check_can_run, run_simulated
    except ImportError as error:
        raise InputError(
            f"flower-sim needs Flower with Ray, which is not installed ({error}); "
            "pip install 'feddep[flower-sim]'"
        ) from None
    check_can_run(method)
    return run_simulated


def _run_for_costs(
    methods: str | None, given: dict[str, Any], workers: int | None, device: str
) -> list[dict[str, Any]]:
    """A record of each method, all with the same settings; finished runs are reused."""
    from feddep.reports.costs import ROUNDS, methods_to_run

    names = methods_to_run([name.strip() for name in methods.split(",")] if methods else [])
    common = {"training.rounds": ROUNDS, "preset": "paper"} | given
    specs = [_spec(common | {"method": name}) for name in names]
    return _run_each(specs, _folder_for("costs", specs[0]), workers, device)


@contextmanager
def _counted(runs: int) -> Iterator[Callable[[], None]]:
    """A progress bar over runs; what it gives is called after each."""
    with Progress(*Progress.get_default_columns(), console=err_console, transient=True) as bar:
        task = bar.add_task(f"{runs} runs", total=runs)
        yield lambda: bar.advance(task)


@contextmanager
def _progress(spec: "RunSpec") -> Iterator["Watcher"]:
    """A progress bar with phase, round, validation accuracy and time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[val]}"),
        TimeRemainingColumn(),
    )
    hidden = not err_console.is_terminal
    with Progress(*columns, console=err_console, transient=True, disable=hidden) as progress:
        tasks: dict[str, Any] = {}

        def watch(phase: str, round: int, rounds: int, val: float | None) -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(f"{spec.method}: {phase}", total=rounds, val="")
            shown = "" if val is None else f"validation {val:.4f}"
            progress.update(tasks[phase], completed=round, val=shown)

        yield watch


@contextmanager
def _graceful_stop() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C lets the round finish and stores a checkpoint; the second stops at once.

    SIGTERM, which schedulers and ``timeout`` send, counts as Ctrl-C.
    """
    asked = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        _complain("stopping after this round; once more to stop at once")

    before = {number: signal.signal(number, on_signal) for number in _STOP_SIGNALS}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
