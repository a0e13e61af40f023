import importlib
import re
from pathlib import Path

import pytest
from feddep_study.documents import KINDS, OVERVIEWS, documents, figures, filled, places
from feddep_study.readme import FOLDER
from feddep_study.source import Library

from feddep.scenario import presets
from feddep.sweeps.sweep import Sweep

ROOT = Path(__file__).parents[2]
SYMBOLS = sorted(set(re.findall(r"`(feddep(?:\.\w+)+)`", (ROOT / "docs/paper_map.md").read_text())))


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_every_symbol_in_the_paper_map_imports(symbol):
    module, _, name = symbol.rpartition(".")
    assert hasattr(importlib.import_module(module), name)


def test_the_paper_map_names_symbols():
    assert len(SYMBOLS) > 10


def test_architecture_names_every_package_and_no_other():
    tree = (ROOT / "docs/architecture.md").read_text().split("```")[1]
    named = set(re.findall(r"^(\w+)/", tree, flags=re.MULTILINE))
    packages = {p.parent.name for p in (ROOT / "src/feddep").glob("*/__init__.py")}
    assert named == packages


def test_the_sweep_in_the_documents_can_be_declared(tmp_path):
    (declared,) = re.findall(
        r"```toml\n(.*?)```", (ROOT / "docs/records.md").read_text(), re.DOTALL
    )
    (tmp_path / "mine.toml").write_text(declared)
    assert len(Sweep.read(tmp_path / "mine.toml").cells) == 2 * 2 * 2 * 3


def test_documents_link_to_files_that_exist():
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.fixture(scope="module")
def library():
    """The records with the presets that they were run with, which other tests do without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(presets, "FILE", ROOT / "src/feddep/scenario/presets.toml")
        yield Library(ROOT / "experiments")


@pytest.mark.parametrize("document", documents(ROOT), ids=lambda path: path.name)
def test_tables_are_what_the_stored_records_give(document, library):
    text = document.read_text()
    assert filled(text, library) == text, "make docs brings the documents up to date"


def test_figures_are_what_the_stored_records_give(library):
    stored = {file.name: file.read_text() for file in (ROOT / FOLDER).iterdir()}
    assert stored == figures(library), "make docs draws the figures anew"


def test_every_mark_in_a_document_is_a_place_and_every_kind_of_table_is_used():
    found = []
    for document in documents(ROOT):
        text = document.read_text()
        assert len(places(text)) == text.count(":begin -->") == text.count(":end -->"), document
        found += places(text)
    assert {kind for _, kind in found} == KINDS.keys() | OVERVIEWS.keys()
