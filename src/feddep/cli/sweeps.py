"""The part of the command line for experiments: many runs, what they cost, and their reports."""

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
    Folder,
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
from feddep.errors import InputError, InterruptedRunError, unknown

if TYPE_CHECKING:
    from feddep.sweeps.sweep import Sweep


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    for command in (costs, sweep, reproduce, report, tune):
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
    specs = [spec_of(common | {"method": name}) for name in names]
    return run_each(specs, folder_for("costs", specs[0]), workers, device)


def sweep(
    file: Annotated[Path, typer.Argument(help="A declaration such as experiments/forms.toml.")],
    at_once: AtOnce = None,
) -> None:
    """Run what a sweep still lacks and print its table; stop it at any time and go on later."""
    from feddep.reports.summary import summary_table
    from feddep.sweeps.sweep import Sweep

    declared = Sweep.read(file)
    _run_missing(declared, at_once)
    out_console.print(summary_table(declared.records()), soft_wrap=True)


def reproduce(
    names: Annotated[list[str] | None, typer.Argument()] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version in minutes.")] = False,
    at_once: AtOnce = None,
    folder: Folder = Path("experiments"),
) -> None:
    """Run (or go on with) the sweeps behind the paper's tables and figures.

    Names: data, table1, quota, table2, hops, privacy, curves, costs, pays, or all.
    """
    from feddep_study.reproduce import PARTS, seconds_left, sweeps_of

    from feddep.reports.summary import summary_table
    from feddep.runs.pipeline import cores

    if not names:
        raise InputError(f"name what to reproduce: {', '.join(PARTS)}, or all")
    wanted = list(PARTS) if "all" in names else names
    for name in wanted:
        if name not in PARTS:
            raise unknown("part of the paper", name, [*PARTS, "all"])
    if "data" in wanted:
        _data_table(folder, quick=quick)
    for name, declared in sweeps_of(wanted, folder, quick=quick).items():
        left = seconds_left(declared, at_once or cores())
        guess = "" if left is None else f", about {left / 60:.0f} minutes left"
        missing, cells = len(declared.missing()), len(declared.cells)
        err_console.print(
            f"{name}: {cells - missing} of {cells} results are there{guess}; records in "
            f"{declared.results}",
            soft_wrap=True,
        )
        _run_missing(declared, at_once)
        out_console.print(f"{name}\n{summary_table(declared.records())}", soft_wrap=True)


def _data_table(folder: Path, *, quick: bool) -> None:
    """The part that trains nothing."""
    from feddep_study import data_table
    from feddep_study.against_paper import Paper

    from feddep.reports.comparison import markdown_table

    printed = Paper.read(folder / "paper.toml").data
    check_writable(folder / "results")
    names = ["cora", "citeseer"] if quick else list(printed)
    rows = list(data_table.measure(names, [0] if quick else range(5)))
    results = folder / "results"
    data_table.store(rows, (results / "quick" if quick else results) / "data.json")
    table = markdown_table(data_table.HEADINGS, data_table.beside_paper(rows, printed))
    out_console.print(f"data, ours / the paper's\n{table}", soft_wrap=True)


def report(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Run folders; each gets a page of its own.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write into; default: report/, report/quick/, or each run's."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The records of `feddep reproduce --quick`.")
    ] = False,
    folder: Folder = Path("experiments"),
) -> None:
    """Write Markdown, LaTeX and a page that works offline from stored records; runs nothing."""
    from feddep_study.report import write_report

    from feddep.reports.run_page import write_run_page

    if runs and quick:
        raise InputError("give run folders, or --quick, not both")
    for run in runs or []:
        if run.is_file():
            raise InputError(f"expected the folder of a run (got the file {run})")
    whole = out or (Path("report/quick") if quick else Path("report"))
    for target in [whole] if out or not runs else runs:
        check_writable(target)
    if runs and out and len({run.resolve().name for run in runs}) < len(runs):
        raise InputError(
            "some of these folders have the same name, and so would their pages; leave out --out "
            "to have each page in its run's folder"
        )
    if runs:
        written = [write_run_page(run, out and out / f"{run.resolve().name}.html") for run in runs]
    else:
        written = write_report(folder, whole, quick=quick)
    for path in written:
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
        Path | None, typer.Option(help="Folder of records and choice; default: experiments/tuning.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Make the choice a preset.")] = False,
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
    if write:
        tuning.check_preset_file()
    check_writable(folder)  # the choice is written even where nothing is left to run
    _run_missing(tuning.runs, at_once)
    outcome = tuning.outcome()
    out_console.print(table_of(HEADINGS, tuning_rows(outcome)))
    err_console.print(f"choice: {tuning.write_choice(outcome)}", soft_wrap=True)
    if write:
        tuning.write_preset(outcome)
        err_console.print(f"preset stored for {method} on {dataset}", soft_wrap=True)


def _run_missing(declared: "Sweep", at_once: int | None) -> None:
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
