"""The documents of this checkout hold what the stored records give."""

import re
from pathlib import Path

import pytest

from feddep.scenario import presets
from feddep_study.documents import KINDS, OVERVIEWS, documents, figures, filled, places
from feddep_study.readme import FOLDER
from feddep_study.source import STUDY, Library


@pytest.fixture(scope="module")
def library():
    """The records with the presets that they were run with, which other tests do without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(presets, "FILE", Path(presets.__file__).with_name("presets.toml"))
        yield Library(STUDY)


@pytest.mark.parametrize("document", documents(STUDY), ids=lambda path: path.name)
def test_tables_are_what_the_stored_records_give(document, library):
    text = document.read_text()
    assert filled(text, library) == text, "make docs brings the documents up to date"


def test_figures_are_what_the_stored_records_give(library):
    stored = {file.name: file.read_text() for file in (STUDY.parent / FOLDER).iterdir()}
    assert stored == figures(library), "make docs draws the figures anew"


def test_every_mark_in_a_document_is_a_place_and_every_kind_of_table_is_used():
    found = []
    for document in documents(STUDY):
        text = document.read_text()
        assert len(places(text)) == text.count(":begin -->") == text.count(":end -->"), document
        found += places(text)
    assert {kind for _, kind in found} == KINDS.keys() | OVERVIEWS.keys()


def test_findings_and_tables_link_to_files_that_exist():
    for document in [STUDY / "findings.md", *sorted((STUDY / "tables").glob("*.md"))]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
