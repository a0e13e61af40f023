"""Tables inside the README and the documents, written from stored records.

A document marks a place with ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``; NAME is a sweep in
``experiments/``. ``make docs`` fills the places; a test fails when they no longer match.
"""

import re
from pathlib import Path

from feddep.experiments.records import write_atomically
from feddep.experiments.sweep import Sweep
from feddep.reports.summary import summary_table

_PLACE = re.compile(r"(<!-- (\w+):begin -->\n).*?(<!-- \2:end -->)", flags=re.DOTALL)


def filled(text: str, experiments: Path) -> str:
    """The text with every marked place filled from its sweep's records."""

    def fill(match: re.Match[str]) -> str:
        sweep = Sweep.read(experiments / f"{match[2]}.toml")
        missing = len(sweep.missing())
        note = f"\n{missing} of {len(sweep.cells)} runs are not run yet.\n" if missing else ""
        return match[1] + summary_table(sweep.records()) + note + match[3]

    return _PLACE.sub(fill, text)


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
