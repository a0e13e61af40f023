"""A privacy statement on one page that can be filed, as Markdown and as HTML.

Its order follows NIST SP 800-226 (Guidelines for Evaluating Differential Privacy Guarantees): what
is promised, for which unit and relation; how it is achieved and implemented; whom it holds against;
what it does not cover; and what it rests on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from feddep.reports.page import page, paragraph, table_html
from feddep.reports.table import Table
from feddep.runs.files import write_atomically

NAME = "privacy-statement"

UNIT = "one undirected edge between two nodes of one silo's graph"
RELATION = (
    "two graphs are neighbours if one has exactly one edge more (add or remove one edge); nodes, "
    "features, labels and split are the same in both and count as public"
)
UNIT_OF_SEVERAL = "up to {} undirected edges of one node of one silo's graph, all together"
RELATION_OF_SEVERAL = (
    "two graphs are neighbours if they differ in at most {} edges, all at one node; nodes, "
    "features, labels and split are the same in both and count as public"
)
ADVERSARY = (
    "The server, which sees every message of every silo and may choose what it asks for; another "
    "silo, which sees what the server passes on; or both together, with any other knowledge and "
    "without limits on computing. The silo's own program, its disk and its secret are trusted."
)
NOT_COVERED = (
    "Edges between silos, which are in no silo's graph.",
    "Predictions that are made over true edges: whoever publishes them gives the promise up.",
    "A silo's number of nodes, its feature columns and classes, and how long it computes.",
    "What a program does that reads the data other than through a declared phase.",
)


@dataclass(frozen=True)
class Section:
    """A heading, and texts and tables below it."""

    title: str
    body: Sequence[str | Table]


@dataclass(frozen=True)
class Filing:
    """The whole statement.

    Attributes:
        title: what it is about.
        summary: the promise, in a sentence.
        sections: in the order of the page.
    """

    title: str
    summary: str
    sections: Sequence[Section]

    def markdown(self) -> str:
        """The statement as Markdown."""
        parts = [f"# {self.title}", f"**{self.summary}**"]
        for section in self.sections:
            parts.append(f"## {section.title}")
            parts += map(_as_markdown, section.body)
        return "\n\n".join(part.strip() for part in parts) + "\n"

    def html(self) -> str:
        """The statement as one file that loads nothing."""
        body = [f'<p class="summary"><strong>{escape(self.summary)}</strong></p>']
        for section in self.sections:
            body.append(f"<h2>{escape(section.title)}</h2>")
            body += [
                paragraph(item) if isinstance(item, str) else table_html(item)
                for item in section.body
            ]
        return page(self.title, [f"<style>{_STYLE}</style>", *body])

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Writes both into a folder, and returns where."""
        folder.mkdir(parents=True, exist_ok=True)
        files = folder / f"{NAME}.md", folder / f"{NAME}.html"
        for file, text in zip(files, (self.markdown(), self.html()), strict=True):
            write_atomically(file, text)
        return files


def facts(rows: Sequence[tuple[str, str]], title: str = "") -> Table:
    """A table of names and values."""
    return Table(("", ""), rows, title=title)


def _as_markdown(item: str | Table) -> str:
    """A text as it is; a table with all columns to the left, since most hold words."""
    if isinstance(item, str):
        return item
    rows = [item.headings, ["---"] * len(item.headings), *item.rows]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([*lines, *(f"\n{note}" for note in item.notes)])


# For paper: long values wrap, headings stay with what follows.
_STYLE = """
main { max-width: 52rem; }
main h2 { margin: 1rem 0 0.2rem; padding: 0; border: 0; font-size: 1.1rem;
  break-before: auto; break-after: avoid; }
main p { max-width: none; }
main table { width: 100%; font-size: 0.85rem; }
main td, main th { text-align: left; vertical-align: top; }
main td { white-space: normal; overflow-wrap: break-word; }
main tbody th { white-space: normal; }
thead:has(th:empty) { display: none; }
main tbody th { width: 11rem; }
.summary { font-size: 1.1rem; }
@page { size: A4; margin: 10mm 14mm; }
@media print {
  html { font-size: 11px; } body { font-size: 1rem; line-height: 1.25; } tr { break-inside: avoid; }
  main { padding: 0; max-width: none; } main h1 { margin: 0; } main h2 { margin-top: 0.5rem; }
}
"""
