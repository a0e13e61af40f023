"""The commands about links between silos: table."""

from pathlib import Path
from typing import Annotated

import typer

from feddep.cli.console import note, say
from feddep.cli.options import check_file

links_app = typer.Typer(no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    app.add_typer(
        links_app,
        name="links",
        help="Use what silos told each other about the nodes that known links join.",
        rich_help_panel="Use",
    )


@links_app.callback()
def _about() -> None:
    """Use what silos told each other about the nodes that known links join."""


@links_app.command("table")
def links_table(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, or a silo's results.")],
    out: Annotated[Path, typer.Option(help="CSV or Parquet file, by its ending.")],
    silo: Annotated[
        str | None, typer.Option(help="Whose nodes, by name or number; default: all.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The silo's graph folder or tables; a simulation has its own."),
    ] = None,
) -> None:
    """Write private counts and means of each own node's counterparties, for any model.

    The price of the answers is in the file's header: lines that begin with #, or metadata.
    """
    from feddep.runs.link_table import link_table
    from feddep.runs.opening import open_run
    from feddep.runs.table_files import check_ending

    check_ending(out)
    check_file(out)
    found = link_table(open_run(run), data, silo)
    found.write(out)
    say(f"{len(found)} nodes, {found.answered} of them with a counterparty that answered")
    say(found.price)
    note(f"stored in {out}")
