"""The commands and the program of docs/own_data.md are executed as they stand, on small banks."""

import re
import shlex
from pathlib import Path

import pytest

from feddep.cli.main import app, exit_code

DOCUMENT = (Path(__file__).parents[2] / "docs/own_data.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", DOCUMENT, flags=re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if not kind for line in text.splitlines() if line]
SMALL = {"data": ["--accounts", "600"], "run": ["--rounds", "2", "--workers", "1"]}


@pytest.mark.slow
def test_the_commands_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) > 10
    for line in COMMANDS:
        words = shlex.split(line)[1:]
        code = exit_code(app, "feddep", [*words, *SMALL.get(words[0], [])])
        assert code == 0, f"{line}: {capsys.readouterr().err}"
    assert (tmp_path / "predictions.csv").read_text().startswith("id,class,probability_0")
    assert (tmp_path / "first/value.html").exists()


@pytest.mark.slow
def test_the_program_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (program,) = [text for kind, text in BLOCKS if kind == "python"]
    exec(program, {})
    assert (tmp_path / "first/record.json").exists()
