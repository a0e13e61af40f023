"""What the parts of the command line share: options, consoles, and how a run is carried out."""

import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from feddep.errors import InputError

if TYPE_CHECKING:
    from feddep.graph.shard import Shards
    from feddep.runs.journal import Watcher
    from feddep.runs.result import Result
    from feddep.scenario.spec import RunSpec

# Options that are keys of a spec, in every command that has them; :func:`given_settings` takes them
# out of a command's ``context.params``.
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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Any key of the spec, e.g. model.hidden=64.")
]


def print_json(value: object) -> None:
    """The one thing on standard output, for other programs."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def complain(text: str) -> None:
    """A sentence about what went wrong."""
    err_console.print(text, soft_wrap=True, markup=False)


def table_of(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table for the console."""
    table = Table(*headings)
    for row in rows:
        table.add_row(*row)
    return table


def check_new(folder: Path) -> None:
    """Finds out before any work whether a folder can be made."""
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise InputError(f"{folder} exists already; choose another --out or delete it")
    except OSError as error:
        raise _cannot_write(folder, error) from None
    check_writable(folder)


def check_file(file: Path) -> None:
    """Finds out before any work whether a file can be written."""
    if file.is_dir():
        raise InputError(f"{file} is a folder; --out is the name of a file")
    check_writable(file.parent)


def check_writable(folder: Path) -> None:
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


def given_settings(settings: list[str] | None, **flags: Any) -> dict[str, Any]:
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


def spec_of(given: Mapping[str, Any]) -> "RunSpec":
    """The spec, with what the user left open."""
    from feddep.runs.execute import resolved

    return resolved(given)


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

    carry = runner_of(runtime, spec_of(given).method)

    def runner(spec: "RunSpec", shards: "Shards", **how: Any) -> "Result":
        with _progress(spec) as watch, _graceful_stop() as stop_requested:
            return carry(spec, shards, watch=watch, stop_requested=stop_requested, **how)

    return execute(
        given,
        out=out,
        resume=resume,
        workers=workers,
        device=device,
        runner=runner,
        tell=complain,
    ).record


def run_each(
    given: Iterable[Mapping[str, Any]], folder: Path, workers: int | None, device: str
) -> list[dict[str, Any]]:
    """A record for each set of settings, stored under its method; finished runs are reused."""
    from feddep.runs.folder import plain_method

    return [
        carry_out(
            own, folder / plain_method(own["method"]), resume=True, workers=workers, device=device
        )
        for own in given
    ]


def folder_for(purpose: str, spec: "RunSpec") -> Path:
    """Where to store what is made of runs like this one."""
    from feddep.runs.folder import default_folder

    folder = default_folder(spec)
    return folder.with_name(f"{purpose}-{folder.name}")


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
        complain("stopping after this round; once more to stop at once")

    before = {number: signal.signal(number, on_signal) for number in _STOP_SIGNALS}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def counted(runs: int, seconds: float = 0.0) -> Iterator[Callable[..., None]]:
    """A progress bar over runs; what it gives is called after each, with the seconds of that one.

    Args:
        runs: how many.
        seconds: that they may take in all, if that is known; the bar then goes by them.
    """
    with Progress(*Progress.get_default_columns(), console=err_console, transient=True) as bar:
        task = bar.add_task(f"{runs} runs", total=seconds or runs)
        yield lambda own=0.0: bar.advance(task, own if seconds else 1)
