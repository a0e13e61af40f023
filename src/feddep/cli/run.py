"""The commands that train: run, compare, methods; and how any command carries out a run."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from feddep.cli.console import err_console, note, out_console, print_json, print_pairs, table_of
from feddep.cli.options import (
    AsJson,
    Clients,
    Dataset,
    Device,
    Epsilon,
    Links,
    Mechanism,
    MoreSilos,
    Partition,
    Preset,
    Rounds,
    Seed,
    Settings,
    Silos,
    Split,
    Workers,
    completed,
    folder_for,
    given_settings,
    method_names,
    spec_of,
)

if TYPE_CHECKING:
    from feddep.graph.silos import ClientData
    from feddep.runs.execute import Runner
    from feddep.runs.journal import Watcher
    from feddep.runs.result import Result
    from feddep.scenario.spec import RunSpec

_RUNTIMES = ("in-process", "flower-sim")
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    for command in (run, compare, methods):
        app.command(rich_help_panel="Train")(command)


def run(
    context: typer.Context,
    method: Annotated[
        str | None,
        typer.Option(
            help="A name in `feddep methods`, or module:ATTRIBUTE for a method of your own; "
            "default: feddep.",
            autocompletion=completed(method_names),
        ),
    ] = None,
    dataset: Dataset = None,
    silos: Silos = None,
    clients: Clients = None,
    partition: Partition = None,
    links: Links = None,
    split: Split = None,
    rounds: Rounds = None,
    seed: Seed = None,
    preset: Preset = None,
    mechanism: Mechanism = None,
    epsilon: Epsilon = None,
    workers: Workers = None,
    device: Device = "auto",
    runtime: Annotated[
        str,
        typer.Option(
            help="in-process, or flower-sim for a simulation by Flower.",
            autocompletion=completed(_RUNTIMES),
        ),
    ] = "in-process",
    out: Annotated[Path | None, typer.Option(help="Run folder; default: under runs/.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was stopped.")
    ] = False,
    as_json: AsJson = False,
    settings: Settings = None,
    more_silos: MoreSilos = None,
) -> None:
    """Train with one method and store the run.

    Ctrl-C stops after the current round; the same command with --resume continues to the same
    result.
    """
    from feddep.reports.comparison import run_summary
    from feddep.reports.model_card import write_card
    from feddep.runs.folder import default_folder

    given = given_settings(**context.params)
    folder = out or default_folder(spec_of(given))
    record = carry_out(
        given, folder, resume=resume, workers=workers, device=device, runtime=runtime
    )
    write_card(folder)
    if as_json:
        print_json(record)
        return
    print_pairs(run_summary(record))
    note(f"stored in {folder}")


def compare(
    context: typer.Context,
    methods: Annotated[
        str, typer.Option(help="Names in `feddep methods`, separated by commas.")
    ] = "local,fedavg,feddep,global",
    dataset: Dataset = None,
    silos: Silos = None,
    clients: Clients = None,
    partition: Partition = None,
    links: Links = None,
    split: Split = None,
    rounds: Rounds = None,
    seed: Seed = None,
    preset: Preset = None,
    mechanism: Mechanism = None,
    epsilon: Epsilon = None,
    workers: Workers = None,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Folder for runs and report; default: under runs/.")
    ] = None,
    settings: Settings = None,
    more_silos: MoreSilos = None,
) -> None:
    """Run several methods on the same shards and write a report.

    Finished runs are reused, so the same command continues a comparison that was stopped.
    """
    from feddep.reports.comparison import HEADINGS, comparison_markdown, comparison_rows
    from feddep.runs.files import write_atomically

    given = given_settings(**context.params)
    names = dict.fromkeys(name.strip() for name in methods.split(","))
    each = [given | {"method": name} for name in names]
    records, folder = run_each(each, "compare", out, workers, device)
    table = table_of(HEADINGS, comparison_rows(records))
    for column in table.columns[1:]:
        column.justify = "right"
    out_console.print(table)
    write_atomically(folder / "report.md", comparison_markdown(records))
    note(f"report: {folder / 'report.md'}")


def methods(as_json: AsJson = False) -> None:
    """List the methods and what leaves a client in each."""
    from feddep.algorithms import METHODS
    from feddep.reports.formatting import footnotes, marked

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
    for footnote in footnotes(METHODS):
        out_console.print(footnote)


def carry_out(
    given: Mapping[str, Any],
    out: Path,
    *,
    resume: bool,
    workers: int | None,
    device: str,
    runtime: str = "in-process",
) -> dict[str, Any]:
    """The record of one run, stored in ``out``, with a progress bar; Ctrl-C stops it in order."""
    from feddep.deployment.protocol.runtimes import runner_of
    from feddep.runs.execute import execute

    return execute(
        given,
        out=out,
        resume=resume,
        workers=workers,
        device=device,
        runner=watched(runner_of(runtime, spec_of(given).method)),
        tell=note,
    ).record


def watched(carry: Callable[..., "Result"]) -> "Runner":
    """A runner with a progress bar that Ctrl-C stops in order."""

    def runner(spec: "RunSpec", shards: "ClientData", **how: Any) -> "Result":
        with _progress(spec) as watch, _graceful_stop() as stop_requested:
            return carry(spec, shards, watch=watch, stop_requested=stop_requested, **how)

    return runner


def run_each(
    given: Sequence[Mapping[str, Any]],
    purpose: str,
    out: Path | None,
    workers: int | None,
    device: str,
) -> tuple[list[dict[str, Any]], Path]:
    """A record for each set of settings, and the folder that the runs are stored in by method.

    Everything is checked before the first is run; finished runs are reused.

    Args:
        given: the settings of each run, with its method.
        purpose: what the folder is called, if it is not given.
        out: the folder.
        workers: processes of a run.
        device: that they use.
    """
    from feddep.runs.folder import plain_method

    specs = [spec_of(own) for own in given]
    folder = out or folder_for(purpose, specs[0])
    records = [
        carry_out(
            own,
            folder / plain_method(spec.method),
            resume=True,
            workers=workers,
            device=device,
        )
        for own, spec in zip(given, specs, strict=True)
    ]
    return records, folder


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
        note("stopping after this round; press Ctrl-C again to stop at once")

    before = {number: signal.signal(number, on_signal) for number in _STOP_SIGNALS}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
