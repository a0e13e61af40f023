"""`feddep sweep`, `tune`, `costs` and `report`."""

from pathlib import Path
from typing import Any

import pytest

from calls import RUN, TINY, TUNE, Feddep, record
from feddep.scenario.spec import RunSpec


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was run; a higher learning rate is better."""
    cells: list[dict[str, Any]] = []

    def pretend(cell: dict[str, Any], *, history: bool) -> dict[str, Any]:
        cells.append(cell)
        val = cell.get("training.learning_rate", 0.1)
        scores = {"silo": {"val": val, "test": 0.5}, "global": {"test": 0.5}}
        seconds = dict.fromkeys(("total", "loading", "setup", "measuring"), 1.0)
        return {"record": {"scores": scores, "seconds": seconds}}

    monkeypatch.setattr("feddep.sweeps.sweep.run_apart", pretend)
    return cells


DECLARED = """
[grid]
method = ["local", "fedavg"]
seed = [0, 1]
"""


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    """A sweep on the embedded data."""
    file = tmp_path / "sweeps" / "hops.toml"
    file.parent.mkdir()
    file.write_text(DECLARED)
    return file


def test_a_sweep_is_run_once_and_shown(feddep: Feddep, declared: Path, tried: list[Any]):
    first = feddep("sweep", "sweeps/hops.toml", "--at-once", 1)
    assert (first.code, len(tried)) == (0, 4)
    assert "| local | 0.5000 ± 0.000 |" in first.out
    assert "| fedavg | 0.5000 ± 0.000 |" in first.out
    assert len((declared.parent / "results/hops.jsonl").read_text().splitlines()) == 4
    again = feddep("sweep", "sweeps/hops.toml")
    assert (again.code, again.out, len(tried)) == (0, first.out, 4)


def test_a_sweep_that_is_not_there_is_an_error(feddep: Feddep, declared: Path, tried: list[Any]):
    outcome = feddep("sweep", "nowhere.toml")
    assert outcome.code == 2
    assert outcome.err.startswith("error: cannot read the sweep nowhere.toml")
    assert tried == []
    assert not (declared.parent / "results").exists()


def test_where_records_cannot_be_written_nothing_runs(
    feddep: Feddep, declared: Path, tried: list[Any]
):
    (declared.parent / "results").write_text("precious")
    outcome = feddep("sweep", declared.relative_to(Path.cwd()))
    assert outcome.code == 2
    assert "cannot write to sweeps/results" in outcome.err
    assert tried == []


def test_data_that_are_not_there_are_asked_for_before_anything_runs(
    feddep: Feddep, declared: Path, tried: list[Any]
):
    declared.write_text(DECLARED.replace("[grid]", '[grid]\ndataset = ["./gone"]'))
    outcome = feddep("sweep", declared)
    assert outcome.code == 2
    assert "gone" in outcome.err
    assert tried == []


# feddep tune


def test_tune_prints_the_trials_and_stores_the_choice(feddep: Feddep, tried: list[Any]):
    tune = ["tune", *TUNE, "--set", "synthetic.nodes=150", "--clients", 3]
    outcome = feddep(*tune, "--set", "training.rounds=1")
    assert outcome.code == 0
    assert len(tried) == 2 * 12, "six learning rates, two penalties"
    assert "1.0000" in outcome.out
    assert outcome.out.count("chosen") == 1
    folder = Path("runs/tuning")
    assert f"choice: {folder}/local-synthetic.toml" in outcome.err
    assert {file.name for file in folder.iterdir()} == {
        "local-synthetic.jsonl",
        "local-synthetic.toml",
    }


def test_tune_again_runs_nothing_and_says_the_same(feddep: Feddep, tried: list[Any]):
    tune = ["tune", *TUNE, "--trials", 3, "--seeds", 1, "--out", "there"]
    first = feddep(*tune)
    assert len(tried) == 3
    choice = Path("there/local-synthetic.toml").read_bytes()
    Path("there/local-synthetic.toml").unlink()
    assert feddep(*tune).out == first.out
    assert len(tried) == 3
    assert Path("there/local-synthetic.toml").read_bytes() == choice


def test_the_choice_can_be_given_to_a_run(feddep: Feddep, tried: list[Any]):
    assert feddep("tune", *TUNE, "--set", "training.rounds=1").code == 0
    choice = "runs/tuning/local-synthetic.toml"
    command = ["run", *TINY, "--method", "local", "--out", "run"]
    assert feddep(*command, "--preset", choice).code == 0
    spec = RunSpec.read(Path("run/spec.toml"))
    assert (spec.training.learning_rate, spec.training.rounds) == (1.0, 1)
    assert spec.model.hidden == 8, "what is given wins"


def test_a_tuning_that_is_interrupted_goes_on_where_it_was(
    feddep: Feddep, tried: list[Any], monkeypatch: pytest.MonkeyPatch
):
    tune = ["tune", *TUNE, "--trials", 2, "--seeds", 1, "--at-once", 1]
    from feddep.sweeps import sweep

    pretend = sweep.run_apart

    def interrupted(cell: dict[str, Any], *, history: bool) -> dict[str, Any]:
        if tried:
            raise KeyboardInterrupt
        return pretend(cell, history=history)

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "run_apart", interrupted)
        outcome = feddep(*tune)
    assert (outcome.code, outcome.out) == (130, "")
    assert not Path("runs/tuning/local-synthetic.toml").exists()
    assert feddep(*tune).code == 0
    assert len(tried) == 2


@pytest.mark.parametrize("out", ["file", "file/tuning"])
def test_tune_finds_an_unwritable_out_before_any_work(feddep: Feddep, tried: list[Any], out: str):
    Path("file").write_text("precious")
    outcome = feddep("tune", *TUNE, "--out", out)
    assert outcome.code == 2
    assert f"cannot write to {out}" in outcome.err
    assert tried == []


# feddep costs


def test_costs_from_runs_are_those_from_their_folders(feddep: Feddep):
    settings = ["--clients", 2, "--set", "embedding.epochs=1", "--set", "generator.epochs=1"]
    arguments = ["costs", *TINY, *settings, "--methods", "feddep", "--out", "a/costs.md"]
    from_runs = feddep(*arguments)
    assert from_runs.code == 0
    (folder,) = Path("runs").iterdir()
    stored = [folder / "fedavg", folder / "feddep"]
    assert sorted(folder.iterdir()) == stored
    assert feddep("costs", *stored).out == from_runs.out == Path("a/costs.md").read_text()
    assert from_runs.out.startswith("# Costs: synthetic, 2 clients, 3 rounds, seed 0")
    assert [cost["method"] for cost in feddep("costs", *stored, "--json").json] == [
        *("fedavg", "feddep")
    ]
    assert record(folder / "feddep")["preset"] == "paper"
    again = feddep("costs", folder / "fedavg", folder / "fedavg")
    assert (again.code, "two of fedavg" in again.err) == (2, True)


# feddep report


def test_a_run_has_a_page_of_its_own(feddep: Feddep):
    assert feddep(*RUN, "--out", "one").code == 0
    outcome = feddep("report", "one")
    assert (outcome.code, outcome.out) == (0, "one/report.html\n")
    score = f"{record('one')['scores']['global']['test']:.4f}"
    assert f"<td>{score}</td>" in Path("one/report.html").read_text()
    assert feddep("report", "one", "--out", "pages").out == "pages/one.html\n"
    assert Path("pages/one.html").read_text() == Path("one/report.html").read_text()
    # The page does not make the folder a foreign one.
    assert feddep(*RUN, "--out", "one", "--resume").code == 0
    assert Path("one/report.html").exists()
    assert feddep(*RUN, "--out", "one").code == 0
    assert not Path("one/report.html").exists()  # it was about the run before


def test_pages_that_would_have_one_name_are_refused(feddep: Feddep):
    for folder in ("a/one", "b/one"):
        assert feddep(*RUN, "--out", folder).code == 0
    outcome = feddep("report", "a/one", "b/one", "--out", "pages")
    assert outcome.code == 2
    assert "have the same name" in outcome.err
    assert not Path("pages").exists()
    assert feddep("report", "a/one", "b/one").out.split() == [
        *("a/one/report.html", "b/one/report.html")
    ]


def test_a_report_about_no_run_is_an_error(feddep: Feddep):
    outcome = feddep("report", "nowhere")
    assert outcome.code in (1, 2)
    assert outcome.err.startswith("error: ")
    assert list(Path().iterdir()) == []


def test_an_unfinished_run_and_a_folder_of_runs_are_named_as_such(feddep: Feddep):
    Path("stopped").mkdir()
    Path("stopped/spec.toml").touch()
    Path("several/fedavg").mkdir(parents=True)
    Path("several/fedavg/record.json").write_text("{}")
    assert "not finished; continue it with feddep run --resume" in feddep("report", "stopped").err
    assert "name one, such as several/fedavg" in feddep("privacy", "several").err
