"""Tables in LaTeX, with booktabs."""

import re
from collections.abc import Iterable, Sequence

from feddep.reports.table import Table

HEAD = "% Written by `feddep-study report`. Needs \\usepackage{booktabs,graphicx,longtable}.\n"
_WIDE = 70  # letters and columns of words that fill a line
_WORDS_WIDE = 24  # letters of a column of words, above which its texts are broken
_LONG = 40  # rows that fill a page
_IN_MATHS = "<>|‖−±×÷·²†‡εδθΔ"
_COMMANDS = r"< > | \| - \pm \times \div \cdot ^2 \dagger \ddagger \varepsilon \delta \theta \Delta"
_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "…": r"\ldots{}",
    "ñ": r"\~{n}",
    "z\u0304": r"$\bar{z}$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"${name}$" for sign, name in zip(_IN_MATHS, _COMMANDS.split(), strict=True)},
    **dict.fromkeys("*`", ""),  # emphasis in Markdown
}


_LETTERS = re.compile(r".\u0304?", flags=re.DOTALL)  # a bar above is a letter of its own


def latex_tables(tables: Iterable[Table]) -> str:
    """A file for a paper to include, or to take tables from.

    A page for each table: LaTeX holds only so many floats that have no place yet.
    """
    return "\n\\clearpage\n\n".join([HEAD, *map(latex_table, tables)])


def latex_table(table: Table) -> str:
    """One table, its notes below it; a wide one is shrunk, a long one goes on over pages."""
    columns = [
        f"p{{{_WORDS_WIDE}em}}" if words and width > _WORDS_WIDE else "l" if words else "r"
        for words, width in zip(table.columns_of_words(), _widths(table), strict=True)
    ]
    notes = [rf"\par\footnotesize {escape(note)}" for note in table.notes]
    if len(table.rows) > _LONG:
        return _long_table(table, columns, notes)
    wide = sum(min(width, _WORDS_WIDE) for width in _widths(table)) > _WIDE
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(table.title)}}}",
        *([r"\resizebox{\linewidth}{!}{%"] if wide else []),
        rf"\begin{{tabular}}{{{''.join(columns)}}}",
        r"\toprule",
        _row(table.headings),
        r"\midrule",
        *map(_row, table.rows),
        r"\bottomrule",
        r"\end{tabular}" + "}" * wide,
        *notes,
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _long_table(table: Table, columns: Sequence[str], notes: Sequence[str]) -> str:
    lines = [
        r"{\tiny\setlength{\tabcolsep}{2pt}",
        rf"\begin{{longtable}}{{{''.join(columns)}}}",
        rf"\caption{{{escape(table.title)}}} \\",
        r"\toprule",
        _row(table.headings),
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
        *map(_row, table.rows),
        r"\end{longtable}",
        *notes,
        r"\par}",
    ]
    return "\n".join(lines) + "\n"


def _widths(table: Table) -> list[int]:
    """Letters in each column's longest text."""
    return [max(map(len, column)) for column in zip(table.headings, *table.rows, strict=True)]


def escape(text: str) -> str:
    """A text with every sign that LaTeX reads otherwise written its way."""
    return "".join(_SIGNS.get(letter, letter) for letter in _LETTERS.findall(text))


def _row(texts: Sequence[str]) -> str:
    return " & ".join(map(escape, texts)) + r" \\"
