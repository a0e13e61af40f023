"""One HTML file with everything in it: it loads nothing and works offline."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from feddep.reports.charts import Figure, Key, panel_svg, sample
from feddep.reports.table import Table

LONG = 20
"""Tables with more rows are folded up."""

_HERE = Path(__file__).parent


def page(title: str, body: Iterable[str]) -> str:
    """A whole page around what the functions below return."""
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{style}</style></head><body><main>",
            f"<h1>{escape(title)}</h1>",
            *body,
            '</main><div id="tip" role="status" hidden></div>',
            f"<script>{script}</script></body></html>\n",
        ]
    )


def paragraph(text: str, kind: str = "") -> str:
    """Text, with *emphasis* and `code` as Markdown has them."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{inline(text)}</p>"


def inline(text: str) -> str:
    """A text for HTML, with *emphasis* and `code`."""
    shown = re.sub(r"(?<!\w)\*(\w[^*]*)\*(?!\w)", r"<em>\1</em>", escape(text, quote=False))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", shown)


def table_html(table: Table) -> str:
    """A table that scrolls inside its box if it is too wide; a long one is folded up."""
    kinds = [' class="words"' if words else "" for words in table.columns_of_words()]
    head = "".join(
        f'<th scope="col"{kind}>{escape(text)}</th>'
        for kind, text in zip(kinds, table.headings, strict=True)
    )
    rows = "".join(f"<tr>{_cells(row, kinds)}</tr>" for row in table.rows)
    notes = "".join(paragraph(note, "note") for note in table.notes)
    shown = (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{notes}"
    )
    title = escape(table.title)
    if title and len(table.rows) > LONG:
        return f"<details><summary>{title} ({len(table.rows)} rows)</summary>{shown}</details>"
    return f"<h3>{title}</h3>{shown}" if title else shown


def figure_html(figure: Figure) -> str:
    """Panels side by side, as many as fit, below one legend."""
    panels = "".join(panel_svg(panel) for panel in figure.panels)
    caption = paragraph(figure.caption, "note") if figure.caption else ""
    return (
        f'<h3>{escape(figure.title)}</h3>{caption}<div class="figure">{_legend(figure.legend)}'
        f'<div class="panels">{panels}</div></div>'
    )


def contents(entries: Sequence[tuple[str, str, str]]) -> str:
    """Links to the sections: anchor, title, state."""
    lines = "".join(
        f'<li><a href="#{escape(anchor)}">{escape(title)}</a> <span>{escape(state)}</span></li>'
        for anchor, title, state in entries
    )
    return f"<nav><ul>{lines}</ul></nav>"


def _cells(row: Sequence[str], kinds: Sequence[str]) -> str:
    first, *rest = row
    return f'<th scope="row"{kinds[0]}>{escape(first)}</th>' + "".join(
        f"<td{kind}>{escape(text)}</td>" for kind, text in zip(kinds[1:], rest, strict=True)
    )


def _legend(keys: Sequence[Key]) -> str:
    """Buttons that show and hide what they name, kind by kind."""
    if len(keys) < 2:
        return ""
    groups = "".join(
        f'<div role="group" aria-label="{escape(group)}">'
        + "".join(_button(key) for key in keys if key.group == group)
        + "</div>"
        for group in dict.fromkeys(key.group for key in keys)
    )
    return f'<div class="legend">{groups}</div>'


def _button(key: Key) -> str:
    drawn = (
        f'<svg width="24" height="12" viewBox="0 0 24 12" aria-hidden="true">{sample(key.style)}'
    )
    return (
        f'<button type="button" aria-pressed="{"false" if key.off else "true"}" '
        f'data-key="{escape(key.name)}">'
        f"{drawn}</svg>{escape(key.text)}</button>"
    )
