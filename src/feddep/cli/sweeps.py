"""The commands about many runs: sweep, tune, costs, report."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddep.cli.console import counted, note, out_console, print_json, say, table_of
from feddep.cli.options import (
    SPLITS,
    AsJson,
    AtOnce,
    Clients,
    Dataset,
    DatasetName,
    Device,
    Method,
    Seed,
    Settings,
    Workers,
    check_file,
    check_writable,
    completed,
    given_settings,
    one_of,
)
from feddep.cli.run import run_each
from feddep.errors import InputError, InterruptedRunError

if TYPE_CHECKING:
    from feddep.sweeps.sweep import Sweep


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    for command in (sweep, tune, costs, report):
        app.command(rich_help_panel="Sweeps and reports")(command)
    # Its arguments no longer matter, only that its user learns where it went.
    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(hidden=True, context_settings=anything)(reproduce)


def costs(
    context: typer.Context,
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Folders of finished runs; nothing is run then.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names in `feddep methods`, separated by commas; default: all that send anything."
        ),
    ] = None,
    dataset: Dataset = None,
    clients: Clients = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of training; default: 3.")] = None,
    seed: Seed = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="tuned, paper, or the path of a choice that `feddep tune` wrote; default: paper."
        ),
    ] = None,
    workers: Workers = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Markdown file to write as well.")] = None,
    as_json: AsJson = False,
    settings: Settings = None,
) -> None:
    """Measure what each method sends and how long it takes."""
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
    out_console.print(page, soft_wrap=True, end="")


def _run_for_costs(
    methods: str | None, given: dict[str, Any], workers: int | None, device: str
) -> list[dict[str, Any]]:
    """A record of each method, all with the same settings; finished runs are reused."""
    from feddep.reports.costs import ROUNDS, methods_to_run

    names = methods_to_run([name.strip() for name in methods.split(",")] if methods else [])
    common = {"training.rounds": ROUNDS, "preset": "paper"} | given
    each = [common | {"method": name} for name in names]
    return run_each(each, "costs", None, workers, device)[0]


def sweep(
    file: Annotated[Path, typer.Argument(help="A declaration: a TOML file with a table [grid].")],
    at_once: AtOnce = None,
) -> None:
    """Run every combination of settings that a file declares, and print their scores.

    Only what has no record yet is run, so a sweep can be stopped at any time and continued by the
    same command.
    """
    from feddep.reports.summary import summary_table
    from feddep.sweeps.sweep import Sweep

    declared = Sweep.read(file)
    run_missing(declared, at_once)
    say(summary_table(declared.records()).rstrip())


def report(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Folders of finished runs; each gets a page.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write the pages into; default: each run's own.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", hidden=True)] = False,
) -> None:
    """Write a page about each run; it works offline, and nothing is run."""
    from feddep.reports.run_page import write_run_page

    if quick or not runs:
        raise InputError(
            "name the folders of finished runs, as in `feddep report runs/first`; the report of "
            "all sweeps of the study is `feddep-study report`"
        )
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
        say(write_run_page(run, out and out / f"{run.resolve().name}.html"))


def tune(
    method: Method,
    dataset: DatasetName,
    clients: Clients = None,
    trials: Annotated[int, typer.Option(help="Settings to try.")] = 12,
    seeds: Annotated[int, typer.Option(help="Runs of each setting, with seeds from 0.")] = 2,
    split: Annotated[
        list[str] | None,
        typer.Option(
            help=f"{one_of(SPLITS)}; if given several times, their scores count alike.",
            autocompletion=completed(SPLITS),
        ),
    ] = None,
    at_once: AtOnce = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the records and the choice; default: runs/tuning."),
    ] = None,
    settings: Settings = None,
    write: Annotated[bool, typer.Option("--write", hidden=True)] = False,
) -> None:
    """Search for settings by validation score and store the best.

    The choice can be given to --preset of `feddep run` and `feddep compare`. A search can be
    stopped at any time and continued by the same command.
    """
    from feddep.reports.tuning import HEADINGS, tuning_rows
    from feddep.sweeps.tuning import FOLDER, Tuning

    if write:
        raise InputError(
            "feddep tune leaves the installed presets alone; give the file of the choice to "
            "--preset (the study's presets are written by `feddep-study`)"
        )
    folder = out or FOLDER
    tuning = Tuning.declare(
        method,
        dataset,
        trials=trials,
        seeds=seeds,
        splits=split or (),
        fixed=given_settings(settings, clients=clients),
        folder=folder,
    )
    check_writable(folder)  # the choice is written even where nothing is left to run
    run_missing(tuning.runs, at_once)
    outcome = tuning.outcome()
    out_console.print(table_of(HEADINGS, tuning_rows(outcome)))
    note(f"choice: {tuning.write_choice(outcome)}")


def reproduce() -> None:
    """Say where the reproduction of the paper is."""
    raise InputError(
        "the reproduction of the paper is a package of its own, in the folder study of the "
        "repository; use `feddep-study reproduce`"
    )


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
            f"stopped; {cells - left} of {cells} results are stored; the same command continues"
        ) from None
