"""Tables in LaTeX, with booktabs."""

from collections.abc import Iterable, Sequence

from feddep.reports.table import Table

HEAD = "% Written by `feddep report`. Needs \\usepackage{booktabs}.\n"
_SIGNS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "*": "",  # emphasis in Markdown
    "`": "",
    "−": r"$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "÷": r"$\div$",
    "·": r"$\cdot$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "–": "--",
    "…": r"\ldots{}",
    "²": r"$^2$",
    "ñ": r"\~{n}",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "θ": r"$\theta$",
    "Δ": r"$\Delta$",
}


def latex_tables(tables: Iterable[Table]) -> str:
    """A file for a paper to include."""
    return "\n".join([HEAD, *map(latex_table, tables)])


def latex_table(table: Table) -> str:
    """One floating table; its notes stand below it."""
    columns = "".join("l" if words else "r" for words in table.columns_of_words())
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(table.title)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _row(table.headings),
        r"\midrule",
        *map(_row, table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {escape(note)}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """A text with every sign that LaTeX reads otherwise written its way."""
    return "".join(_SIGNS.get(letter, letter) for letter in text)


def _row(texts: Sequence[str]) -> str:
    return " & ".join(map(escape, texts)) + r" \\"
