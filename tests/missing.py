"""What a test may need that not every machine has, and how the end of a run says so."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

DATA = "the paper's data are not there; set FEDDEP_DATA"
BROWSER = "there is no Chromium, so nobody looks at the page; apt-get install chromium"
ONNX = "onnx and onnxruntime are not there; pip install feddep[onnx] onnxruntime"
RAY = "Flower's simulation is not there; pip install feddep[flower-sim]"


def published_folder(folder: str | None, *names: str) -> Path:
    """The folder that holds the paper's data sets of these names; without it the test is skipped.

    Args:
        folder: what ``FEDDEP_DATA`` says.
        names: of data sets.
    """
    if not folder:
        pytest.skip(DATA)
    for name in names:
        if not Path(folder, name).is_dir():
            pytest.skip(f"FEDDEP_DATA ({folder}) does not hold {name}")
    return Path(folder)


def summary(skipped: Iterable[Any]) -> list[str]:
    """A line for each reason to skip tests, the most frequent first."""
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    return [
        f"{count} {'test' if count == 1 else 'tests'} skipped: {reason}"
        for reason, count in reasons.most_common()
    ]
