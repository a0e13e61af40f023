"""A table as data; each kind of document formats it in its own way."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from feddep.reports.formatting import markdown_table

_NUMBER = re.compile(r"[+−-]?\d|–")  # a dash stands for a number that is not there


@dataclass(frozen=True)
class Table:
    """Headings, rows of texts, and notes.

    Attributes:
        headings: of the columns; the first column names the row.
        rows: a text for each column.
        notes: footnotes and explanations.
        title: what it shows, where a page has several.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    title: str = ""

    def columns_of_words(self) -> list[bool]:
        """Whether each column holds names rather than numbers, as the first one always does."""
        columns = [[row[i] for row in self.rows] for i in range(1, len(self.headings))]
        return [True, *(not any(map(_NUMBER.match, column)) for column in columns)]

    def markdown(self) -> str:
        """The table and its notes, without the title."""
        notes = (f"{note}\n" for note in self.notes)
        return "\n".join([markdown_table(self.headings, self.rows), *notes])
