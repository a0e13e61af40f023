"""The part of the command line for many runs, what they cost, and their reports."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddep.cli.options import (
    AsJson,
    AtOnce,
    Clients,
    Dataset,
    Device,
    Method,
    Seed,
    Settings,
    Workers,
    check_file,
    check_writable,
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
from feddep.errors import InputError, InterruptedRunError

if TYPE_CHECKING:
    from feddep.sweeps.sweep import Sweep


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    for command in (costs, sweep, report, tune):
        app.command()(command)


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
    from feddep.reports.costs import costs_json, costs_markdown
    from feddep.runs.files import read_record, write_atomically

    given = given_settings(**context.params)
    if out is not None:
        check_file(out)
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
        print_json(costs_json(records))
        return
    out_console.print(page, soft_wrap=True, markup=False, end="")


def _run_for_costs(
    methods: str | None, given: dict[str, Any], workers: int | None, device: str
) -> list[dict[str, Any]]:
    """A record of each method, all with the same settings; finished runs are reused."""
    from feddep.reports.costs import ROUNDS, methods_to_run

    names = methods_to_run([name.strip() for name in methods.split(",")] if methods else [])
    common = {"training.rounds": ROUNDS, "preset": "paper"} | given
    each = [common | {"method": name} for name in names]
    specs = [spec_of(own) for own in each]  # all of them, before the first is run
    return run_each(each, folder_for("costs", specs[0]), workers, device)


def sweep(
    file: Annotated[Path, typer.Argument(help="A declaration, such as mine.toml.")],
    at_once: AtOnce = None,
) -> None:
    """Run what a sweep still lacks and print its table; stop it at any time and go on later."""
    from feddep.reports.summary import summary_table
    from feddep.sweeps.sweep import Sweep

    declared = Sweep.read(file)
    run_missing(declared, at_once)
    out_console.print(summary_table(declared.records()), soft_wrap=True)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; each gets a page of its own.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write into; default: each run's own.")
    ] = None,
) -> None:
    """Write a page about each run that works offline; runs nothing."""
    from feddep.reports.run_page import write_run_page

    for run in runs:
        if run.is_file():
            raise InputError(f"expected the folder of a run (got the file {run})")
    for target in [out] if out else runs:
        check_writable(target)
    if out and len({run.resolve().name for run in runs}) < len(runs):
        raise InputError(
            "some of these folders have the same name, and so would their pages; leave out --out "
            "to have each page in its run's folder"
        )
    for run in runs:
        path = write_run_page(run, out and out / f"{run.resolve().name}.html")
        out_console.print(str(path), soft_wrap=True)


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
        Path | None, typer.Option(help="Folder of records and choice; default: runs/tuning.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Search for settings by validation score; stop it at any time and go on later."""
    from feddep.reports.tuning import HEADINGS, tuning_rows
    from feddep.sweeps.tuning import FOLDER, Tuning

    fixed = given_settings(settings, clients=clients)
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
    check_writable(folder)  # the choice is written even where nothing is left to run
    run_missing(tuning.runs, at_once)
    outcome = tuning.outcome()
    out_console.print(table_of(HEADINGS, tuning_rows(outcome)))
    err_console.print(f"choice: {tuning.write_choice(outcome)}", soft_wrap=True)


def run_missing(declared: "Sweep", at_once: int | None) -> None:
    """Runs what has no record yet, with a progress bar."""
    from feddep.runs.pipeline import cores

    seconds = {json.dumps(cell): own for cell, own in declared.waiting()}
    if not seconds:
        return
    check_writable(declared.results.parent)
    declared.check_data()
    try:
        with counted(len(seconds), sum(seconds.values())) as tell:
            declared.run(at_once or cores(), lambda *news: tell(seconds[json.dumps(news[-1])]))
    except KeyboardInterrupt:
        left, cells = len(declared.missing()), len(declared.cells)
        raise InterruptedRunError(
            f"stopped; {cells - left} of {cells} results are there, and the same command goes on"
        ) from None
