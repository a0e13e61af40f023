"""The command line, called in this process."""

from pathlib import Path

import pytest

from calls import Feddep, Outcome
from feddep.cli.main import app, exit_code


@pytest.fixture
def feddep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Feddep:
    """Calls the command line in an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDDEP_DEBUG", raising=False)
    monkeypatch.delenv("FEDDEP_DATA", raising=False)
    monkeypatch.setenv("FEDDEP_CACHE", str(tmp_path / "cache"))

    def call(*arguments: object) -> Outcome:
        code = exit_code(app, "feddep", [str(argument) for argument in arguments])
        return Outcome(code, *capsys.readouterr())

    return call
