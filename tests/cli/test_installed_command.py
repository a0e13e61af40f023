"""The command line as it is installed."""

import sys
from importlib.metadata import entry_points

import pytest

from feddep.cli import main as cli


def test_main_leaves_with_the_exit_code(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["feddep", "train"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2


def test_the_installed_command_is_main():
    (found,) = entry_points(group="console_scripts", name="feddep")
    assert found.load() is cli.main
