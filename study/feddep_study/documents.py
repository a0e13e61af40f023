"""Tables and figures of README, docs, findings and ``tables/``, written from stored records.

A document marks a place with ``<!-- NAME KIND:begin -->`` and ``<!-- NAME KIND:end -->``. NAME is a
sweep in ``declarations/`` and KIND one of :data:`KINDS`, ``means`` if there is none; or NAME is
``all`` for what several sweeps tell together, and KIND one of :data:`OVERVIEWS`.
``make docs`` fills the places and draws the figures; a test fails when they no longer match.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from feddep.errors import InputError
from feddep.reports.charts import figure_svg
from feddep.reports.summary import summary_table
from feddep.reports.table import Table
from feddep.runs.files import write_atomically
from feddep_study.against_paper import beside_paper, reached
from feddep_study.audits import audits_in_short, audits_table
from feddep_study.bars import bars_table
from feddep_study.batches import full_batch_table
from feddep_study.claims.verdicts import findings, summary, verdict_tables
from feddep_study.figures.accuracy import ZOOM
from feddep_study.generation import (
    FILE,
    generated_in_short,
    generation_figure,
    generation_text,
)
from feddep_study.impairment import impairment_table
from feddep_study.leads import leads, leads_in_short
from feddep_study.linked import linked_tables
from feddep_study.paper_tables import NOT_RUN, paper_grids
from feddep_study.payments_tables import payments_text
from feddep_study.readme import FILES, FOLDER, figure_texts, main_table, shown
from feddep_study.sections import privacy_table, section_of
from feddep_study.source import Library, Source
from feddep_study.statistics.paired import pairs
from feddep_study.statistics.pooled_differences import gains
from feddep_study.statistics.ranks import ranks
from feddep_study.statistics.without_edges import beyond_no_edges

_PLACE = re.compile(
    r"(?P<begin><!-- (?P<what>(?P<name>\w+)(?: (?P<kind>\w+))?):begin -->\n)"
    r".*?(?P<end><!-- (?P=what):end -->)",
    flags=re.DOTALL,
)
ALL = "all"

Sources = Mapping[str, Source]
"""The sweeps by name."""


def titled(tables: Iterable[Table]) -> str:
    """Several tables, each under its title."""
    return "\n".join(f"**{table.title}**\n\n{table.markdown()}" for table in tables)


KINDS: dict[str, Callable[[Source], str]] = {
    "means": lambda source: summary_table(source.rows),
    "pairs": lambda source: pairs(source.rows).markdown(),
    "gains": lambda source: titled(gains(source)),
    "ranks": lambda source: titled(ranks(source)),
    "paper": lambda source: beside_paper(source.rows, source.paper).markdown(),
    "reached": lambda source: reached(source.rows, source.paper).markdown(),
    "grids": lambda source: titled(paper_grids(source)),
    "privacy": lambda source: privacy_table(source.rows).markdown(),
    "edges": lambda source: beyond_no_edges(source.rows).markdown(),
    "tables": lambda source: titled(
        block for block in section_of(source).blocks if isinstance(block, Table)
    ),
    "main": lambda source: main_table(source).markdown(),
    "generation": generation_text,
    "batches": lambda source: full_batch_table(source).markdown(),
    "linked": lambda source: titled(linked_tables(source)),
}


def _claims(sources: Sources) -> str:
    found = findings(sources)
    return f"{summary(found)}\n\n{titled(verdict_tables(found))}"


def _reached_by_feddep(sources: Sources) -> str:
    """Where FedDEP reaches the paper's figures, by preset and split."""
    both = [sources[name] for name in ("quota", "table1") if name in sources]
    rows = [row for source in both for row in source.rows if row[1]["method"] == "feddep"]
    if not rows:
        return f"The runs are {NOT_RUN}.\n"
    return reached(rows, both[0].paper).markdown()


def _generated(sources: Sources) -> str:
    """The figure of what is generated; a file has no legend to choose in."""
    drawn = (
        f"![{figure.title}](../../{FOLDER}/{FILE})\n\n{figure.caption.removesuffix(ZOOM).rstrip()}\n"
        for figure in generation_figure(sources)
    )
    return "".join(drawn) or f"The figure's runs are {NOT_RUN}.\n"


def _impairment(library: Library) -> str:
    rows = library.impairment
    return impairment_table(rows).markdown() if rows else f"The part is {NOT_RUN}.\n"


OVERVIEWS: dict[str, Callable[[Library], str]] = {
    "claims": _claims,
    "figures": figure_texts,
    "audits": lambda library: audits_table(library.audits),
    "audits_short": lambda library: audits_in_short(library.audits),
    "counted": lambda sources: f"{summary(findings(sources))}\n",
    "generated": _generated,
    "generated_short": generated_in_short,
    "reached_short": _reached_by_feddep,
    "impairment": _impairment,
    "payments": lambda library: payments_text(library.payments),
    "bars": lambda library: bars_table(library, library.payments).markdown(),
    "leads": lambda sources: leads(sources).markdown(),
    "leads_short": leads_in_short,
}


def filled(text: str, sources: Library) -> str:
    """The text with every marked place filled from the records."""

    def fill(match: re.Match[str]) -> str:
        name, kind = _named(match)
        kinds = OVERVIEWS if name == ALL else KINDS
        if kind not in kinds:
            raise InputError(f"the place of {name}: expected {', '.join(kinds)} (got {kind})")
        content = OVERVIEWS[kind](sources) if name == ALL else _content(sources[name], kind)
        return match["begin"] + content + match["end"]

    return _PLACE.sub(fill, text)


def figures(sources: Sources) -> dict[str, str]:
    """The drawings in ``docs/figures/`` by file name, as far as there are runs for them."""
    drawn = {one.file: one.svg for one in shown(sources)}
    drawn.update((FILE, figure_svg(figure, columns=2)) for figure in generation_figure(sources))
    return drawn


def places(text: str) -> list[tuple[str, str]]:
    """Sweep and kind of table of every marked place."""
    return [_named(match) for match in _PLACE.finditer(text)]


def _named(match: re.Match[str]) -> tuple[str, str]:
    return match["name"], match["kind"] or "means"


def _content(source: Source, kind: str) -> str:
    """A sweep's table, and a note about what it still lacks."""
    missing = len(source.cells) - len(source.rows)
    note = f"{missing} of {len(source.cells)} runs are not run yet.\n"
    if not source.rows:
        return note
    return KINDS[kind](source) + (f"\n{note}" if missing else "")


def documents(study: Path) -> list[Path]:
    """Where tables may stand: the checkout's README and docs, the study's findings and tables."""
    checkout = study.parent
    folders = (checkout / "docs", study / "tables")
    return [
        checkout / "README.md",
        *(file for file in [study / "findings.md"] if file.exists()),
        *(file for folder in folders for file in sorted(folder.glob("*.md"))),
    ]


def fill_documents(study: Path) -> None:
    """Fills all documents and draws their figures."""
    library = Library(study)
    for path in documents(study):
        write_atomically(path, filled(path.read_text(), library))
    folder, drawn = study.parent / FOLDER, figures(library)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*FILES, FILE):
        if name in drawn:
            write_atomically(folder / name, drawn[name])
        else:
            (folder / name).unlink(missing_ok=True)
