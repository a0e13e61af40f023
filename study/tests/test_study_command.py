"""The command ``feddep-study`` on a small study."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from feddep.cli.main import exit_code
from feddep.scenario import presets
from feddep_study import cli
from feddep_study.reproduce import PARTS
from feddep_study.source import STUDY
from made_up_records import row_of

DECLARED = """
[grid]
method = ["local", "fedavg"]
seed = [0, 1]
[quick]
seed = [1]
"training.rounds" = [1]
"""
Study = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A part of the paper and a sweep of one's own, on the embedded data."""
    (tmp_path / "study/declarations").mkdir(parents=True)
    (tmp_path / "study/declarations/hops.toml").write_text(DECLARED)
    (tmp_path / "study/declarations/mine.toml").write_text('[grid]\nmethod = ["global"]\n')
    shutil.copy(STUDY / "paper.toml", tmp_path / "study")
    return tmp_path / "study"


@pytest.fixture
def command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Study:
    """Calls the command beside the study; gives exit code, standard output and error."""
    monkeypatch.chdir(folder.parent)

    def call(*arguments: object) -> tuple[int, str, str]:
        command, *others = map(str, arguments)
        where = ["--folder", "study"] if command in ("reproduce", "report", "documents") else []
        code = exit_code(cli.app, "feddep-study", [command, *others, *where])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was run."""
    cells: list[dict[str, Any]] = []

    def pretend(cell: dict[str, Any], *, history: bool) -> dict[str, Any]:
        cells.append(cell)
        scores = {"silo": {"val": 0.5, "test": 0.5}, "global": {"test": 0.5}}
        seconds = dict.fromkeys(("total", "loading", "setup", "measuring"), 1.0)
        return {"record": {"scores": scores, "seconds": seconds}}

    monkeypatch.setattr("feddep.sweeps.sweep.run_apart", pretend)
    return cells


def test_a_part_is_reproduced_once(command: Study, folder: Path, tried: list[Any]):
    code, out, err = command("reproduce", "hops")
    assert (code, len(tried)) == (0, 4)
    assert "hops: 0 of 4 results are there" in err
    assert "| local | 0.5000 ± 0.000 |" in out
    assert len((folder / "results/hops.jsonl").read_text().splitlines()) == 4
    again, same, err = command("reproduce", "hops")
    assert (again, same, len(tried)) == (0, out, 4)
    assert "hops: 4 of 4 results are there" in err


def test_the_small_version_of_a_part_is_kept_apart(command: Study, folder: Path, tried: list[Any]):
    assert command("reproduce", "hops", "--quick")[0] == 0
    assert [(cell["seed"], cell["training.rounds"]) for cell in tried] == [(1, 1)] * 2
    assert not (folder / "results/hops.jsonl").exists()
    assert len((folder / "results/quick/hops.jsonl").read_text().splitlines()) == 2


def test_any_declared_sweep_can_be_run(command: Study, folder: Path, tried: list[Any]):
    code, _, err = command("reproduce", "mine")
    assert (code, len(tried)) == (0, 1)
    assert "mine: 0 of 1 results are there" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name what to reproduce: data, impairment, payments"),
        (["hopps"], "unknown part of the study 'hopps'"),
        (["table2"], "cannot read the sweep study/declarations/table2.toml"),
        (["mine", "--quick"], "unknown part of the study 'mine'"),
        (["all"], "cannot read the sweep study/declarations/table1.toml"),
    ],
)
def test_what_cannot_be_reproduced_is_an_error_and_nothing_runs(
    command: Study, folder: Path, tried: list[Any], arguments: list[str], says: str
):
    (folder / "paper.toml").write_text("[accuracy]\n[data]\n")
    code, _, err = command("reproduce", *arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert says in err
    assert tried == []


def test_the_data_table_needs_the_paper_s_numbers(command: Study, folder: Path):
    (folder / "paper.toml").unlink()
    code, _, err = command("reproduce", "data")
    assert code == 2
    assert "cannot read the paper's numbers from study/paper.toml" in err


def test_the_report_is_written_from_the_declared_sweeps(command: Study, folder: Path):
    code, out, _ = command("report", "--out", "there")
    assert code == 0
    assert out.split() == ["there/report.md", "there/tables.tex", "there/index.html"]
    assert "Not run yet (0 of 4 runs)." in Path("there/index.html").read_text()
    assert command("report", "--quick")[0] == 0
    assert "quick version" in Path("report/quick/report.md").read_text()


def test_without_declarations_there_is_no_report(command: Study, folder: Path):
    shutil.rmtree(folder / "declarations")
    code, _, err = command("report")
    assert code == 2
    assert "declares no sweeps" in err
    assert not Path("report").exists()


def test_the_documents_are_filled(command: Study, folder: Path):
    place = "<!-- hops means:begin -->\nold\n<!-- hops means:end -->\n"
    Path("README.md").write_text(place)
    assert command("documents")[0] == 0
    assert Path("README.md").read_text() == place.replace("old", "4 of 4 runs are not run yet.")


def test_costs_stand_beside_the_formulas(command: Study, folder: Path):
    record = row_of({"method": "feddep", "dataset": "cora"})["record"]
    (folder / "record.json").write_text(json.dumps(record))
    code, out, _ = command("costs", "study")
    assert code == 0
    assert "\n| feddep | 60.0 MB |" in out
    assert "| feddep | bytes in all | M·C·d_z × M | 5·10·128 × 5 |" in out
    assert command("costs", "nowhere")[0] in (1, 2)


def test_a_choice_becomes_a_preset_of_the_library(
    command: Study, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(presets, "FILE", folder / "presets.toml")
    presets.FILE.write_text("")
    code, _, err = command("preset", STUDY / "tuning/fedavg-cora.toml")
    assert (code, err) == (0, "preset stored for fedavg on cora\n")
    assert "[tuned.fedavg.cora]" in presets.FILE.read_text()
    code, _, err = command("preset", "study/paper.toml")
    assert code == 2
    assert "expected a method and [settings]" in err


def test_the_help_names_what_can_be_reproduced():
    shown = get_command(cli.app).commands["reproduce"].help
    assert all(part in shown for part in PARTS)
