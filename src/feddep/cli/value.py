"""The command that says what collaboration bought: value."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from feddep.cli.console import note, out_console, print_json, say, table_of
from feddep.cli.options import AsJson, Device, Workers, check_writable
from feddep.cli.run import watched

if TYPE_CHECKING:
    from feddep.value.measure import Value


Split = Literal["case", "time"]


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    app.command(rich_help_panel="Use")(value)


def value(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, or a silo's results.")],
    data: Annotated[
        Path | None,
        typer.Option(help="With a silo's results of a federation: its own graph folder."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, metavar="INTEGER", help="Seeds to train with.")] = 1,
    split_by: Annotated[
        Split | None,
        typer.Option(help="Also train with nodes divided by case or time, and show both."),
    ] = None,
    workers: Workers = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for the page; default: RUN.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare a run with training alone, FedAvg and trees, on each silo's own test nodes.

    Runs that are missing are trained with the same settings. With --data a silo finds out for
    itself what a federation bought it; nothing is sent.
    """
    from feddep.reports.model_card import write_card
    from feddep.reports.value_page import write_value
    from feddep.runs.files import write_atomically

    folder = out or run
    check_writable(folder)
    found = _value(run, data, runs, split_by, workers, device)
    folder.mkdir(parents=True, exist_ok=True)
    page, _ = write_value(found, folder)
    write_atomically(folder / "value.json", json.dumps(found.to_plain(), indent=1) + "\n")
    if folder == run:
        write_card(run)
    if as_json:
        print_json(found.to_plain())
        return
    for one in (found, found.beside):
        if one is not None:
            _show(one)
    note(f"the page: {page}")


def _show(found: "Value") -> None:
    """A table, and below it what it says."""
    from feddep.reports.value_page import answers, ways_table

    table = ways_table(found)
    # What is promised stands in a sentence below.
    shown = table_of(table.headings[:-1], (row[:-1] for row in table.rows))
    for column in shown.columns[1:]:
        column.justify = "right"
    say(f"{found.split} split")
    out_console.print(shown)
    for text in answers(found):
        say(text.replace("*", ""))


def _value(
    run: Path,
    data: Path | None,
    runs: int,
    split_by: "Split | None",
    workers: int | None,
    device: str,
) -> "Value":
    from feddep.errors import InputError
    from feddep.runs.pipeline import run as carry
    from feddep.value.silo import silo_value
    from feddep.value.ways import How, value_of

    how = How(workers=workers, device=device, runner=watched(carry), tell=note)
    if data is None:
        found = value_of(run, runs=runs, how=how)
        if split_by is None:
            return found
        return replace(found, beside=value_of(run, runs=runs, by=split_by, how=how))
    if split_by is not None:
        raise InputError("--split-by is for simulated runs; a federation ran under one split")
    if runs > 1:
        raise InputError("--runs is for simulated runs; a federation ran once")
    return silo_value(run, data, how)
