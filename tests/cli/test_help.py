"""What a user finds without reading the documents: help in panels, the version, completion."""

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args

import pytest
from typer.main import get_command

from calls import Feddep
from feddep.cli import main as cli
from feddep.cli import options
from feddep.graph.partition import KINDS
from feddep.privacy.spec import Mechanism
from feddep.scenario.spec import RunSpec

PANELS = {
    "Train": {"run", "compare", "methods"},
    "Use": {"predict", "export", "value", "links"},
    "Data": {"check", "data", "import", "partition", "schema"},
    "Privacy": {"privacy", "statement", "audit"},
    "Sweeps and reports": {"sweep", "tune", "costs", "report"},
    "Several machines": {"server", "silo", "node", "federate", "doctor", "deploy", "disclosures"},
}


def commands(group: Any, path: str = "feddep") -> dict[str, Any]:
    """Every command that is not hidden, by what a user types."""
    found = {}
    for name, command in group.commands.items():
        if not command.hidden:
            own = f"{path} {name}"
            found |= commands(command, own) if hasattr(command, "commands") else {own: command}
    return found


COMMANDS = commands(get_command(cli.app))


def test_the_commands_stand_in_panels_and_those_that_moved_are_not_shown(feddep: Feddep):
    titles = re.split(r"╭─ ([\w ]+?) ─+╮", feddep("--help").out)
    shown = dict(zip(titles[1::2], titles[2::2], strict=True))
    assert list(shown) == ["Options", *PANELS]
    assert "feddep[onnx]" in shown["Use"], "brackets are no markup"
    for panel, names in PANELS.items():
        assert set(re.findall(r"^│ (\w+) ", shown[panel], flags=re.MULTILINE)) == names


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_every_command_and_every_option_says_what_it_is_for(command: Any):
    first, *_ = command.help.splitlines()
    assert first[0].isupper()
    assert first[-1] == "."
    for option in command.params:
        if option.param_type_name == "option" and not option.hidden:
            assert option.help, f"{option.name} has no help"
            assert option.help[-1] == ".", f"{option.name}: {option.help}"


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version(feddep: Feddep, monkeypatch: pytest.MonkeyPatch, flag: str):
    outcome = feddep(flag)
    assert (outcome.code, outcome.out, outcome.err) == (0, f"feddep {version('feddep')}\n", "")

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(cli, "version", missing)
    assert feddep(flag).out == "feddep, not installed\n"


def test_the_names_that_options_offer_are_those_that_there_are():
    assert tuple(KINDS) == options.PARTITIONS
    assert get_args(Mechanism) == options.MECHANISMS
    for split in options.SPLITS:
        assert RunSpec().with_settings({"split.kind": split}).split.kind == split


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("feddep comp", {"compare"}),
        ("feddep re", {"report"}),  # and not what has moved
        ("feddep run --mecha", {"--mechanism"}),
        ("feddep run --mechanism r", {"randomised-response"}),
        ("feddep run --partition l", {"louvain", "label-skew"}),
        ("feddep audit --method fedgr", {"fedgraph", "fedgraph-linked"}),
        ("feddep data get c", {"cora", "citeseer"}),
    ],
)
def test_what_the_shell_offers(
    feddep: Feddep,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    offered: set[str],
):
    monkeypatch.setenv("_FEDDEP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    with pytest.raises(SystemExit) as ended:
        feddep()
    assert ended.value.code == 0
    assert set(capsys.readouterr().out.split()) == offered


# What has moved

MOVED = {
    "reproduce": ["reproduce"],
    "reproduce with anything": ["reproduce", "all", "--quick", "--folder", "x", "--help"],
    "a report of all sweeps": ["report"],
    "a report of the small sweeps": ["report", "--quick"],
    "a report of some run and the small sweeps": ["report", "run", "--quick"],
    "a preset in the package": ["tune", "--method", "local", "--dataset", "cora", "--write"],
}


@pytest.mark.parametrize("arguments", MOVED.values(), ids=MOVED.keys())
def test_what_belongs_to_the_study_says_so_in_one_line(
    feddep: Feddep, tmp_path: Any, arguments: list[str]
):
    outcome = feddep(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert "`feddep-study" in outcome.err
    assert list(tmp_path.iterdir()) == []
