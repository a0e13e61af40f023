"""The pieces of a page: tables and texts."""

from feddep.reports.page import LONG, inline, table_html
from feddep.reports.table import Table


def test_texts_are_no_markup():
    table = Table(("<a>", "b"), [("x & y", "<script>")], ["*not* <b>"], "t < u")
    shown = table_html(table)
    assert "<script>" not in shown
    assert "<em>not</em> &lt;b&gt;" in shown
    assert inline("`a*b` and *c d*") == "<code>a*b</code> and <em>c d</em>"


def test_columns_of_names_begin_at_the_left_and_missing_numbers_are_numbers():
    rows = [("3", "feddep", "0.5", "–"), ("5", "local", "not run yet", "–")]
    assert Table(("C", "method", "ours", "paper"), rows).columns_of_words() == [
        *(True, True),
        *(False, False),
    ]
    assert Table(("a", "b"), []).columns_of_words() == [True, True]


def test_long_tables_are_folded_up():
    def table(rows):
        return table_html(Table(("a", "b"), [("x", "1")] * rows, title="T"))

    assert "<details>" in table(LONG + 1)
    assert "<details>" not in table(LONG)
