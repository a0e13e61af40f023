"""What the commands print with: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

# A user's paths and names may hold brackets and colons, which must not be interpreted.
out_console = Console(highlight=False, markup=False, emoji=False)
err_console = Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(value: object) -> None:
    """Prints the one thing on standard output, for other programs."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def say(text: object) -> None:
    """Prints one line of a result, however long."""
    out_console.print(str(text), soft_wrap=True)


def note(text: object) -> None:
    """Prints a line about the command itself: where something was stored, what went wrong."""
    err_console.print(str(text), soft_wrap=True)


def table_of(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """Makes a table for the console."""
    table = Table(*headings)
    for row in rows:
        table.add_row(*row)
    return table


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Prints names with their values in two columns, without lines."""
    grid = Table.grid(padding=(0, 2))
    for name, value in pairs:
        grid.add_row(name, value)
    out_console.print(grid)


@contextmanager
def counted(runs: int, seconds: float = 0.0) -> Iterator[Callable[..., None]]:
    """Shows a progress bar over runs; call what it yields after each run, with its seconds.

    Args:
        runs: how many.
        seconds: that all of them may take, if known; the bar then shows their share.
    """
    columns, hidden = Progress.get_default_columns(), not err_console.is_terminal
    with Progress(*columns, console=err_console, transient=True, disable=hidden) as bar:
        task = bar.add_task(f"{runs} runs", total=seconds or runs)
        yield lambda own=0.0: bar.advance(task, own if seconds else 1)
