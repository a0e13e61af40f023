"""The end of a test run says what was skipped, also with several workers."""

import os
import subprocess
import sys
from pathlib import Path

from missing import DATA

ROOT = Path(__file__).parents[2]


def test_without_the_paper_s_data_it_is_said_in_one_line():
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "FEDDEP_DATA" and not name.startswith("PYTEST_")
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "tests/graph/test_published_data.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    lines = [line for line in done.stdout.splitlines() if DATA in line]
    assert lines == [f"11 tests skipped: {DATA}"]
