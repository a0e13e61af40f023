"""The command line: parses and prints, nothing else.

Exit codes: 0 done, 1 failure, 2 wrong usage or bad input, 130 interrupted. Results go to standard
output, everything else to standard error. Heavy imports wait until a command needs them.
"""

import logging
import os
import signal
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.logging import RichHandler

from feddep.cli import data, deployment, links, predict, privacy, run, sweeps, tables, value
from feddep.cli.console import err_console, note, say
from feddep.errors import FeddepError, InputError, InterruptedRunError

app = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["--help", "-h"]})
for part in (
    run,
    predict,
    value,
    links,
    data,
    tables,
    privacy,
    sweeps,
    deployment,
):  # the order of the panels
    part.add_to(app)

# The base of what Typer raises about a wrong command line. Newer versions carry their own copy of
# click and export only this subclass.
_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[1]


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            say(f"feddep {version('feddep')}")
        except PackageNotFoundError:  # from a checkout that is on the path
            say("feddep, not installed")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Subgraph federated learning: one graph neural network over silos that keep their graphs."""


def main() -> None:
    """Starts ``feddep``."""
    start(app, "feddep")


def start(commands: typer.Typer, name: str) -> NoReturn:
    """Runs a command line as a program and leaves with its exit code.

    Args:
        commands: what it knows.
        name: what its user types.
    """
    handler = RichHandler(console=err_console, show_time=False, show_path=False)
    for end in (signal.SIGTERM, signal.SIGHUP):  # otherwise they would leave workers behind
        if signal.getsignal(end) is not signal.SIG_IGN:  # as under nohup
            signal.signal(end, signal.default_int_handler)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    sys.exit(exit_code(commands, name))


def exit_code(commands: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> int:
    """Carries out one command and turns every error into a sentence.

    Args:
        commands: what the command line knows.
        name: what its user types.
        arguments: the words after the name; default: those that this process was started with.
    """
    try:
        return int(commands(arguments, prog_name=name, standalone_mode=False) or 0)
    except _UsageError as error:
        _explain(error)
        return 2
    except (InterruptedRunError, KeyboardInterrupt, typer.Abort) as error:
        note(str(error) or "interrupted")
        return 130
    except InputError as error:
        note(f"error: {error}")
        return 2
    except (FeddepError, OSError, MemoryError) as error:
        note(f"error: {str(error) or type(error).__name__}")
        return 1
    except Exception as error:
        if "FEDDEP_DEBUG" in os.environ:
            raise
        _confess(error)
        return 1


def _confess(error: Exception) -> None:
    """Says where an unexpected error comes from: a method of the user's own, or this package."""
    told = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_users(Path(frame.filename))]
    if own:
        place = f"{Path(own[-1].filename).name}, line {own[-1].lineno}, in {own[-1].name}"
        note(f"error: {place}: {told}\nSet FEDDEP_DEBUG=1 to see the whole traceback.")
        return
    note(
        f"error: {told}\nThis should not happen. "
        "Set FEDDEP_DEBUG=1 to see where, and please report it."
    )


def _is_users(file: Path) -> bool:
    """Whether a file is the user's: of neither this package, an installed one nor Python itself."""
    python = (sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
    places = [Path(__file__).parents[1], *map(Path, python)]
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    return (
        file.is_file()  # unlike <string> and <frozen …>
        and not installed
        and not any(file.resolve().is_relative_to(place.resolve()) for place in places)
    )


def _explain(error: typer.BadParameter) -> None:
    """Wrong usage in one line; without a command, the help has already been printed."""
    message = " ".join(error.format_message().split()).rstrip(".")
    if message:
        command = "feddep" if error.ctx is None else error.ctx.command_path
        note(f"error: {message[0].lower()}{message[1:]}; see `{command} --help`")
