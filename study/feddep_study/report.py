"""The report of all sweeps: Markdown, LaTeX and one page, each a pure function of the records."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from feddep.errors import DataError, InputError
from feddep.reports.charts import Figure, figure_svg
from feddep.reports.page import contents, figure_html, page, paragraph, table_html
from feddep.reports.table import Table
from feddep.runs.files import write_atomically
from feddep_study import data_table
from feddep_study.against_paper import Paper
from feddep_study.claims.verdicts import Findings, findings, summary, verdict_tables
from feddep_study.generation import generation_figure, generation_table
from feddep_study.latex import latex_tables
from feddep_study.leads import leads
from feddep_study.paper_tables import NOT_RUN
from feddep_study.readme import main_table, shown
from feddep_study.sections import Section, in_order, section_of
from feddep_study.source import Library

TITLE = "FedDEP, reproduced"
ABOUT = (
    "Ours beside what is printed in *Deep Efficient Private Neighbor Generation for Subgraph "
    "Federated Learning* (SDM 2024). Every number is rebuilt from stored records by "
    "`feddep-study report`; what is not run yet is shown as not run yet."
)
QUICK = "This is the quick version: fewer seeds, rounds and epochs. Its numbers compare poorly."


def write_report(study: Path, out: Path, *, quick: bool = False) -> list[Path]:
    """Writes ``report.md`` with its figures, ``tables.tex`` and ``index.html``.

    Args:
        study: holds the declared sweeps and their records.
        out: the folder to write into; made if it does not exist.
        quick: the records of the small versions.
    """
    sections = read_sections(study, quick=quick)
    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for section, figure in _figures(sections):
        write_atomically(figures / _file_name(section, figure), figure_svg(figure))
    about = [ABOUT, QUICK] if quick else [ABOUT]
    written = {
        "report.md": markdown(sections, about),
        "tables.tex": latex_tables(_titled(sections)),
        "index.html": html(sections, about),
    }
    for name, content in written.items():
        write_atomically(out / name, content)
    return [out / name for name in written]


def read_sections(study: Path, *, quick: bool = False) -> list[Section]:
    """Every section, as the records stand."""
    library = Library(study, quick=quick)
    if not library:
        raise InputError(f"{study} declares no sweeps; --folder is the study folder of a checkout")
    sections = [section_of(source) for source in in_order(library.values())]
    found = findings(library)
    return [
        *_short_section(library, found),
        *_generation_section(library),
        _data_section(study, quick=quick),
        _claims_section(found),
        *sections,
    ]


def markdown(sections: Sequence[Section], about: Sequence[str]) -> str:
    """The report as Markdown; figures are files beside it."""
    parts = [f"# {TITLE}", *about]
    for section in sections:
        parts += [f"## {section.title}", section.text, section.state]
        for block in section.blocks:
            parts.append(f"### {block.title}")
            if isinstance(block, Table):
                parts.append(block.markdown().rstrip())
            else:
                parts += [f"![{block.title}](figures/{_file_name(section, block)})", block.caption]
    return "\n\n".join(part for part in parts if part) + "\n"


def html(sections: Sequence[Section], about: Sequence[str]) -> str:
    """The report as one page."""
    links = [(section.name, section.title, section.state) for section in sections]
    body = [*map(paragraph, about), contents(links)]
    for section in sections:
        name, title = escape(section.name), escape(section.title)
        body.append(f'<section id="{name}"><h2>{title}</h2>')
        body.append(paragraph(section.text))
        is_open = section.done < section.declared
        body.append(paragraph(section.state, "state open" if is_open else "state"))
        body += [
            table_html(block) if isinstance(block, Table) else figure_html(block)
            for block in section.blocks
        ]
        body.append("</section>")
    return page(TITLE, body)


def _data_section(study: Path, *, quick: bool) -> Section:
    """The data table of the appendix, which needs no training and so is no sweep."""
    results = study / "results"
    file = (results / "quick" if quick else results) / "data.json"
    title, text = "The data", "What Louvain leaves of each graph; every entry ours / the paper's."
    printed = Paper.read(study / "paper.toml").data
    if not file.exists():
        planned = len(printed) * len(data_table.CLIENTS)
        return Section("data", title, text, 0, planned, [], "rows")
    try:
        rows = json.loads(file.read_text())
        lines = data_table.beside_paper(rows, printed)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"cannot read the data table from {file}: {error}") from None
    table = Table(data_table.HEADINGS, lines, title="Data sets and what their clients hold")
    return Section("data", title, text, len(lines), len(lines), [table], "rows")


def _short_section(library: Library, found: Findings) -> Iterator[Section]:
    """What the README shows, for whoever reads no further."""
    figures = [replace(one.figure, caption=one.caption) for one in shown(library)]
    if not figures or "table1" not in library:
        return
    source = library["table1"]
    table = replace(main_table(source), title="Table 1 in short, the paper's numbers in brackets")
    text = f"How the methods compare, and when it pays to mend lost links. {summary(found)}"
    done, declared = len(source.rows), len(source.cells)
    yield Section("short", "In short", text, done, declared, [table, *figures], "runs of Table 1")


def _generation_section(library: Library) -> Iterator[Section]:
    """What is generated, which the claims about components rest on."""
    figures = list(generation_figure(library))
    if not figures:
        return
    title, source = "What is generated", library["table1"]
    text = "How many neighbours, what they tell about the class, and whether F listens."
    table = replace(generation_table(source), title="In the runs of Table 1")
    lead = replace(leads(library), title="FedDEP's lead over FedAvg")
    done, declared = len(source.rows), len(source.cells)
    yield Section(
        "generation", title, text, done, declared, [*figures, table, lead], "runs of Table 1"
    )


def _claims_section(found: Findings) -> Section:
    """The paper's claims, which look at several sweeps and so belong to none."""
    done = sum(first.verdict.word != NOT_RUN for first, *_ in found.claims)
    title, text = "The paper's claims", f"What our runs say, claim by claim. {summary(found)}"
    tables, counted = list(verdict_tables(found)), len(found.claims)
    return Section("claims", title, text, done, counted, tables, "claims")


def _figures(sections: Sequence[Section]) -> Iterator[tuple[Section, Figure]]:
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Figure):
                yield section, block


def _titled(sections: Sequence[Section]) -> Iterator[Table]:
    """All tables, each with its section in the title, because LaTeX lets them float."""
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Table):
                yield replace(block, title=f"{section.title}: {block.title}")


def _file_name(section: Section, figure: Figure) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", f"{section.name}-{figure.name}".lower()) + ".svg"
