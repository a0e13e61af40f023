"""The command ``feddep-study``: reproduces the paper in a checkout of the project."""

from pathlib import Path
from typing import Annotated

import typer

from feddep.cli.console import note, say
from feddep.cli.main import start
from feddep.cli.options import AtOnce, check_writable
from feddep.cli.sweeps import run_missing
from feddep.errors import InputError, unknown
from feddep_study.source import STUDY, Library

app = typer.Typer(no_args_is_help=True)

Folder = Annotated[Path, typer.Option(help="Folder of declarations, records and tables.")]
Quick = Annotated[bool, typer.Option("--quick", help="The small versions, in minutes.")]


@app.callback()
def _about() -> None:
    """The reproduction of the FedDEP paper: sweeps, tables, claims and figures."""


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument()] = None,
    quick: Quick = False,
    at_once: AtOnce = None,
    folder: Folder = STUDY,
) -> None:
    """Run, or continue, the sweeps behind the paper's tables and figures.

    Names: data, impairment, payments, table1, quota, table2, hops, privacy, curves, costs, pays,
    another sweep in declarations/, or all.
    """
    from feddep.reports.summary import summary_table
    from feddep.runs.pipeline import cores
    from feddep_study.reproduce import PARTS, seconds_left, sweeps_of

    known = dict.fromkeys([*PARTS, *Library(folder, quick=quick)])
    if not names:
        raise InputError(f"name what to reproduce: {', '.join(known)}, or all")
    for name in names:
        if name not in known and name != "all":
            raise unknown("part of the study", name, [*known, "all"])
    wanted = list(known) if "all" in names else names
    sweeps = sweeps_of(wanted, folder, quick=quick)  # a wrong declaration is told at once
    if "data" in wanted:
        _data_table(folder, quick=quick)
    if "impairment" in wanted:
        _impairment(folder, quick=quick)
    if "payments" in wanted:
        _payments(folder, quick=quick)
    for name, declared in sweeps.items():
        left = seconds_left(declared, at_once or cores())
        guess = "" if left is None else f", about {left / 60:.0f} minutes left"
        missing, cells = len(declared.missing()), len(declared.cells)
        note(
            f"{name}: {cells - missing} of {cells} results are there{guess}; records in "
            f"{declared.results}"
        )
        run_missing(declared, at_once)
        say(f"{name}\n{summary_table(declared.records())}")


def _data_table(folder: Path, *, quick: bool) -> None:
    """The part that trains nothing."""
    from feddep.reports.formatting import markdown_table
    from feddep_study import data_table
    from feddep_study.against_paper import Paper

    printed = Paper.read(folder / "paper.toml").data
    results = folder / "results" / "quick" if quick else folder / "results"
    check_writable(results)
    names = ["cora", "citeseer"] if quick else list(printed)
    rows = list(data_table.measure(names, [0] if quick else range(5)))
    data_table.store(rows, results / "data.json")
    table = markdown_table(data_table.HEADINGS, data_table.beside_paper(rows, printed))
    say(f"data, ours / the paper's\n{table}")


def _impairment(folder: Path, *, quick: bool) -> None:
    """The part that asks trees instead of generators."""
    from feddep_study import data_table, impairment

    results = folder / "results" / "quick" if quick else folder / "results"
    check_writable(results)
    names = impairment.DATASETS[-1:] if quick else impairment.DATASETS
    rows = list(impairment.measure(names, [0] if quick else range(3)))
    data_table.store(rows, results / "impairment.json")
    say(f"impairment\n{impairment.impairment_table(rows).markdown()}")


def _payments(folder: Path, *, quick: bool) -> None:
    """The part that scores by average precision and grows trees; it goes on where it stopped."""
    from feddep_study import payments
    from feddep_study.data_table import store
    from feddep_study.payments_tables import payments_tables
    from feddep_study.source import stored_rows

    results = folder / "results" / "quick" if quick else folder / "results"
    check_writable(results)
    file, place = results / "payments.json", payments.data_folder()
    rows = stored_rows(file)
    left = payments.missing(rows, place, quick=quick)
    note(f"payments: {len(left)} runs left; rows in {file}")
    for found in payments.measure(left, place):
        rows += found
        store(rows, file)
    for table in payments_tables(rows):
        say(f"{table.title}\n{table.markdown()}")


@app.command()
def report(
    out: Annotated[
        Path | None, typer.Option(help="Folder to write into; default: report/ or report/quick/.")
    ] = None,
    quick: Quick = False,
    folder: Folder = STUDY,
) -> None:
    """Write Markdown, LaTeX and a page that works offline from stored records; runs nothing."""
    from feddep_study.report import write_report

    target = out or (Path("report/quick") if quick else Path("report"))
    check_writable(target)
    for path in write_report(folder, target, quick=quick):
        say(path)


@app.command()
def costs(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, such as those of feddep costs.")],
) -> None:
    """Show what runs sent and how long they took beside the paper's formulas; runs nothing."""
    from feddep.runs.files import read_record
    from feddep_study.cost_formulas import costs_page

    say(costs_page([read_record(path) for path in runs]).rstrip())


@app.command()
def documents(folder: Folder = STUDY) -> None:
    """Fill the tables and draw the figures of README, docs and tables/ from stored records."""
    from feddep_study.documents import fill_documents

    fill_documents(folder)


@app.command()
def preset(
    choices: Annotated[list[Path], typer.Argument(help="Files that feddep tune wrote.")],
) -> None:
    """Make choices of feddep tune the presets that the library ships."""
    from feddep_study.presets import adopt

    for file in choices:
        note("preset stored for {} on {}".format(*adopt(file)))


def main() -> None:
    """Runs the command line."""
    start(app, "feddep-study")
