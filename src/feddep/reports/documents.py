"""Tables inside the README and the documents, written from stored records.

A document marks a place with ``<!-- NAME KIND:begin -->`` and ``<!-- NAME KIND:end -->``; NAME is a
sweep in ``experiments/``, KIND one of

- ``means``: scores over the seeds (:mod:`feddep.reports.summary`); so is a place without a KIND,
- ``pairs``: differences from FedAvg, paired by seed (:mod:`feddep.reports.pairs`),
- ``paper``: beside what the paper prints (:mod:`feddep.reports.against_paper`).

``make docs`` fills the places; a test fails when they no longer match.
"""

import re
from collections.abc import Callable
from pathlib import Path

from feddep.errors import InputError
from feddep.experiments.records import write_atomically
from feddep.experiments.sweep import Sweep
from feddep.reports.against_paper import Paper, paper_table
from feddep.reports.pairs import pairs_table
from feddep.reports.summary import Rows, summary_table

_PLACE = re.compile(
    r"(?P<begin><!-- (?P<what>(?P<name>\w+)(?: (?P<kind>\w+))?):begin -->\n)"
    r".*?(?P<end><!-- (?P=what):end -->)",
    flags=re.DOTALL,
)
KINDS: dict[str, Callable[[Rows, Path], str]] = {
    "means": lambda rows, _: summary_table(rows),
    "pairs": lambda rows, _: pairs_table(rows),
    "paper": lambda rows, experiments: paper_table(rows, Paper.read(experiments / "paper.toml")),
}


def filled(text: str, experiments: Path) -> str:
    """The text with every marked place filled from its sweep's records."""

    def fill(match: re.Match[str]) -> str:
        name, kind = _named(match)
        return match["begin"] + _content(name, kind, experiments) + match["end"]

    return _PLACE.sub(fill, text)


def places(text: str) -> list[tuple[str, str]]:
    """Sweep and kind of table of every marked place."""
    return [_named(match) for match in _PLACE.finditer(text)]


def _named(match: re.Match[str]) -> tuple[str, str]:
    return match["name"], match["kind"] or "means"


def _content(name: str, kind: str, experiments: Path) -> str:
    """A sweep's table, and a note about what it still lacks."""
    if kind not in KINDS:
        raise InputError(
            f"the place of {name}: expected a table of {', '.join(KINDS)} (got {kind})"
        )
    sweep = Sweep.read(experiments / f"{name}.toml")
    rows, missing = sweep.records(), len(sweep.missing())
    note = f"{missing} of {len(sweep.cells)} runs are not run yet.\n"
    if not rows:
        return note
    return KINDS[kind](rows, experiments) + (f"\n{note}" if missing else "")


def documents(root: Path) -> list[Path]:
    """Where tables may stand."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def main() -> None:
    """Fills all documents below the working folder."""
    root = Path.cwd()
    for path in documents(root):
        write_atomically(path, filled(path.read_text(), root / "experiments"))


if __name__ == "__main__":
    main()
