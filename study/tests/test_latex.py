"""Tables as LaTeX reads them."""

import re
import shutil
import subprocess

import pytest

from feddep.reports.table import Table
from feddep_study.latex import latex_table


def test_latex_is_balanced(out):
    text = (out / "tables.tex").read_text()
    assert text.isascii()
    bare = text.replace(r"\{", "").replace(r"\}", "").replace(r"\\", "")
    depth = 0
    for sign in bare:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    assert len(re.findall(r"(?<!\\)\$", bare)) % 2 == 0
    opened = []
    for what, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if what == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened


LONG_TABLE = Table(("a", "n"), [("x " * 30, "1")] * 41, title="Several pages")


def test_a_long_table_breaks_its_pages_and_long_words_their_lines():
    found = latex_table(LONG_TABLE)
    assert r"\begin{longtable}{p{24em}r}" in found
    assert r"\begin{table}" not in found
    assert r"\resizebox" not in latex_table(Table(("a",), [("x",)] * 40))
    assert r"\resizebox" in latex_table(Table(("a",) * 30, [("1.23",) * 30]))


def test_every_latex_row_fills_its_columns(out):
    text = (out / "tables.tex").read_text() + latex_table(LONG_TABLE)
    found = re.findall(
        r"\{(tabular|longtable)\}\{((?:[lr]|p\{\d+em\})+)\}(.*?)\\end\{\1\}", text, re.DOTALL
    )
    assert found
    for _, columns, body in found:
        rows = [line for line in body.splitlines() if line.endswith(r" \\")]
        count = len(re.findall(r"[lr]|p\{", columns.replace("em", "")))
        filled = {len(re.findall(r"(?<!\\)&", row)) for row in rows if "caption" not in row}
        assert filled == {count - 1}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX here")
def test_latex_reads_all_tables_at_once(out, tmp_path):
    paper = (
        r"\documentclass{article}\usepackage{booktabs,graphicx,longtable}"
        r"\begin{document}\input{tables}\end{document}"
    )
    tables = (out / "tables.tex").read_text() + latex_table(LONG_TABLE)
    (tmp_path / "tables.tex").write_text(tables)
    (tmp_path / "paper.tex").write_text(paper)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:]


def test_signs_are_written_as_latex_reads_them():
    table = Table(("a_b", "n"), [("50% & *x*", "−1 ± 2†")], ["ε ñ z̄ ‖x‖"], "#1")
    found = latex_table(table)
    assert r"50\% \& x & $-$1 $\pm$ 2$\dagger$ \\" in found
    assert r"\caption{\#1}" in found
    assert r"\begin{tabular}{lr}" in found
    assert r"a\_b & n \\" in found
    assert r"$\varepsilon$ \~{n} $\bar{z}$ $\|$x$\|$" in found
