import importlib
import re
from pathlib import Path

import pytest

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
