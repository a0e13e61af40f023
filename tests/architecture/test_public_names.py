"""What is public is documented, and documents use nothing else."""

import re
from pathlib import Path

import pytest

import feddep
from feddep import method

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/python.md").read_text()
PUBLIC, EXTENDING = PAGE.split("## `feddep.method`")
WITH_PYTHON = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if "```python" in path.read_text()
]


def named(text):
    """Every name in code type, without its arguments."""
    return {name for code in re.findall(r"`([^`]+)`", text) for name in re.findall(r"\w+", code)}


@pytest.mark.parametrize(
    ("module", "text"), [(feddep, PUBLIC), (method, EXTENDING)], ids=["feddep", "feddep.method"]
)
def test_every_public_name_is_there_and_documented(module, text):
    assert module.__all__ == sorted(set(module.__all__))
    assert all(hasattr(module, name) for name in module.__all__)
    assert set(module.__all__) <= named(text)


def test_only_public_names_are_listed_for_extending():
    rows = [line for line in EXTENDING.splitlines() if line.startswith("| ")][1:]
    assert {name for row in rows for name in named(row)} == set(method.__all__)


@pytest.mark.parametrize("path", WITH_PYTHON, ids=lambda path: path.name)
def test_documents_import_public_modules_only(path):
    programs = "\n".join(re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL))
    imported = set(re.findall(r"^\s*(?:from|import) (feddep[\w.]*)", programs, flags=re.MULTILINE))
    assert imported <= {"feddep", "feddep.method"}


def test_the_package_says_what_is_private():
    assert "private" in feddep.__doc__
    assert "private" in method.__doc__
