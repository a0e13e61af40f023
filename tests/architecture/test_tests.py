"""What holds of every test."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("study/tests/**/*.py")])

TOLERANCES = re.compile(
    r"\b(allclose|isclose|assert_close|assert_allclose|almost_equal\w*|atol|rtol)\b"
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_agreement_means_is_said_in_one_place(file):
    """A tolerance of one's own holds on the processor where it was chosen."""
    found = TOLERANCES.findall(file.read_text())
    assert not found or file == Path(__file__), f"{found}: see tests/agreement.py"
