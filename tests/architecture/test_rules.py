"""Rules that hold of every file: how long it may be, and what a test may know."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("study/tests/**/*.py")])
SOURCES = sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("study/feddep_study/**/*.py")])
LONGEST = {"test": 500, "source": 450}

TOLERANCES = re.compile(
    r"\b(allclose|isclose|assert_close|assert_allclose|almost_equal\w*|atol|rtol)\b"
)


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_there_are_files_to_look_at():
    assert len(TESTS) > 100
    assert len(SOURCES) > 100


@pytest.mark.parametrize(("kind", "files"), [("test", TESTS), ("source", SOURCES)])
def test_no_file_is_too_long_to_be_read_at_a_sitting(kind, files):
    lines = {name_of(file): len(file.read_text().splitlines()) for file in files}
    assert {name: n for name, n in lines.items() if n > LONGEST[kind]} == {}


@pytest.mark.parametrize("file", TESTS, ids=name_of)
def test_what_agreement_means_is_said_in_one_place(file):
    """A tolerance of one's own holds on the processor where it was chosen."""
    found = TOLERANCES.findall(file.read_text())
    assert not found or file == Path(__file__), f"{found}: see tests/agreement.py"


@pytest.mark.parametrize("file", TESTS, ids=name_of)
def test_tests_use_public_names(file):
    """To replace a private name, with ``monkeypatch``, is another matter: it makes things fail."""
    assert list(private_names(file.read_text())) == []


def private_names(text: str) -> Iterator[str]:
    """The names with an underscore that a file takes from the packages under test."""
    tree = ast.parse(text)
    ours = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and is_ours(node.module or ""):
            yield from (name.name for name in node.names if is_private(name.name))
            ours |= {name.asname or name.name for name in node.names}
        if isinstance(node, ast.Import):
            ours |= {name.asname or name.name for name in node.names if is_ours(name.name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner in ours or is_ours(owner):
                yield f"{owner}.{node.attr}"


def is_ours(module: str) -> bool:
    return module.split(".")[0] in ("feddep", "feddep_study")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from feddep.graph.readers import _order, load", ["_order"]),
        ("from feddep.graph import readers\nreaders._order()", ["readers._order"]),
        ("from feddep.graph import readers as r\nr._order", ["r._order"]),
        ("import feddep.graph.readers\nfeddep.graph.readers._x", ["feddep.graph.readers._x"]),
        ("from feddep.runtime import InProcess\nInProcess._start(1)", ["InProcess._start"]),
        ("from feddep import __version__\nfrom numpy import _core\nself._x", []),
        ("from feddep.models import sage\nsetattr(sage, '_SLICE', 3)", []),
    ],
)
def test_private_names_are_found(text, found):
    assert list(private_names(text)) == found
