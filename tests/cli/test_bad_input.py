"""Wrong usage and bad input: a sentence, exit code 2, and nothing left behind."""

from pathlib import Path

import pytest

from calls import RUN, TINY, TUNE, Feddep, record
from feddep.scenario.spec import RunSpec

BAD = {
    "a method": (["run", "--method", "fedprox"], ["'fedprox'", "fedavg", "global", "local"]),
    "a data set": (["run", "--dataset", "coras"], ["'coras'", "cora", "citeseer", "synthetic"]),
    "a key": (["run", "--set", "training.round=3"], ["'training.round'", "training.rounds"]),
    "a key without section": (["run", "--set", "rounds=3"], ["'rounds'", "training.rounds"]),
    "no pair": (["run", "--set", "training.rounds"], ["key=value", "'training.rounds'"]),
    "a value": (["run", "--set", "model.hidden=wide"], ["model.hidden", "integer", "'wide'"]),
    "a partition": (["run", "--partition", "metis"], ["'metis'", "louvain", "label-skew"]),
    "a split": (["run", "--split", "half"], ["'half'", "stratified", "quota"]),
    "no client": (["run", "--clients", "0"], ["at least 1 client"]),
    "no round": (["run", "--rounds", "0"], ["training.rounds", "1"]),
    "a preset": (
        ["run", "--preset", "best"],
        ["'tuned', 'paper'", "feddep tune", "'best'"],
    ),
    "a seed": (["run", "--seed", "-1"], ["seed", "-1"]),
    "a mechanism": (["run", "--mechanism", "laplace"], ["privacy.mechanism", "'laplace'", "nfdp"]),
    "ε for a mechanism without": (
        ["run", "--epsilon", "2"],
        [
            "privacy.epsilon",
            "nfdp does not take",
            "perturbation or dp-sgd",
            "leave it out",
        ],
    ),
    "ε for no mechanism": (["audit", "--mechanism", "none", "--epsilon", "2"], ["none does not"]),
    "clients": (["run", *TINY, "--clients", "151"], ["at most 150 clients", "151"]),
    "a device": (["run", *TINY, "--device", "tpu"], ["'tpu'", "auto, cpu or cuda"]),
    "a long name": (["run", "--dataset", "x" * 300], ["unknown data set", "cora"]),
    "a graph that cannot be": (["run", "--set", "synthetic.nodes=3"], ["nodes", "(got 3)"]),
    "no worker": (["run", "--workers", "0"], ["--workers"]),
    "no number": (["run", "--rounds", "many"], ["--rounds"]),
    "an option": (["run", "--round", "3"], ["--round"]),
    "an argument": (["run", "cora"], ["cora"]),
    "a command": (["train"], ["train"]),
    "no name to get": (["data", "get"], ["names"]),
    "a name to get": (["data", "get", "coras"], ["'coras'", "cora"]),
    "a name to find": (["data", "path", "coras"], ["'coras'", "cora"]),
    "a data set to partition": (["partition", "--dataset", "coras"], ["'coras'", "synthetic"]),
    "clients to partition": (["partition", "--clients", "3001"], ["at most 3000 clients", "3001"]),
    "a method to tune": (["tune", *TUNE, "--method", "fedprox"], ["'fedprox'", "fedavg"]),
    "a variant to tune": (["tune", *TUNE, "--method", "feddep-wo-dgen"], ["tune feddep"]),
    "a data set to tune": (["tune", *TUNE, "--dataset", "coras"], ["'coras'", "cora"]),
    "no trial": (["tune", *TUNE, "--trials", "0"], ["trials", "(got 0)"]),
    "no seed": (["tune", *TUNE, "--seeds", "0"], ["seeds", "(got 0)"]),
    "a key to tune": (["tune", *TUNE, "--set", "training.round=3"], ["'training.round'"]),
    "a seed to tune": (["tune", *TUNE, "--set", "seed=3"], ["decides seed", "(got 3)"]),
    "a method to compare": (["compare", "--methods", "local,fedprox"], ["'fedprox'", "fedavg"]),
    "a method to price": (["costs", "--methods", "fedprox"], ["'fedprox'", "fedavg"]),
    "a method of one client": (["costs", "--methods", "feddep,global"], ["global sends nothing"]),
    "no run to price": (["costs", "nowhere"], ["cannot read the record", "nowhere"]),
    "runs and what to run": (["costs", "nowhere", "--clients", "3"], ["not both"]),
    "a folder for a page": (["costs", *TINY, "--out", "."], ["is a folder"]),
    "a file for a run": (["report", str(Path(__file__))], ["expected the folder of a run"]),
    "a name for a file": (["sweep", "table1"], ["a file such as table1.toml"]),
    "a module": (["run", "--method", "nowhere:METHOD"], ["nowhere", "PYTHONPATH"]),
}


@pytest.mark.parametrize(("arguments", "named"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_explained_with_exit_code_2_and_leaves_no_trace(
    feddep: Feddep, tmp_path: Path, arguments: list[str], named: list[str]
):
    outcome = feddep(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert "should not happen" not in outcome.err
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1, "one line"
    for word in named:
        assert word.lower() in outcome.err.lower()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("command", [RUN, ["partition"]])
@pytest.mark.parametrize("out", ["file", "file/run", "file/a/b"])
def test_an_unwritable_out_is_found_before_any_work(
    feddep: Feddep, monkeypatch: pytest.MonkeyPatch, command: list[str], out: str
):
    Path("file").write_text("precious")
    monkeypatch.setattr("feddep.scenario.build.build", lambda _: pytest.fail("worked"))
    outcome = feddep(*command, "--out", out)
    assert outcome.code == 2
    assert f"cannot write to {out}" in outcome.err
    assert Path("file").read_text() == "precious"


@pytest.mark.parametrize("command", [RUN, ["partition"]])
def test_an_out_with_a_name_that_is_too_long_is_refused(feddep: Feddep, command: list[str]):
    outcome = feddep(*command, "--out", "n" * 300)
    assert outcome.code == 2
    assert "choose another --out" in outcome.err


def test_an_out_that_holds_something_else_is_refused_and_kept(feddep: Feddep, tmp_path: Path):
    Path("notes.txt").write_text("precious")
    assert feddep(*RUN, "--out", tmp_path).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_out_with_another_run_is_refused_with_the_difference(feddep: Feddep):
    feddep(*RUN, "--out", "run")
    before = record("run")
    outcome = feddep(*RUN, "--seed", 1, "--out", "run")
    assert outcome.code == 2
    assert "seed = 0 there, seed = 1 here" in outcome.err
    assert record("run") == before


def test_after_a_typing_error_the_same_out_can_be_used(feddep: Feddep):
    assert feddep(*RUN, "--dataset", "sythetic", "--out", "run").code == 2
    assert feddep(*RUN, "--dataset", "synthetic", "--out", "run").code == 0


@pytest.mark.parametrize(
    ("arguments", "commands"), [([], ["run", "partition"]), (["data"], ["list", "get", "path"])]
)
def test_without_a_command_the_commands_are_listed(
    feddep: Feddep, arguments: list[str], commands: list[str]
):
    outcome = feddep(*arguments)
    assert outcome.code in (0, 2), "older versions of Typer do not count it as wrong usage"
    for command in commands:
        assert f" {command} " in outcome.out + outcome.err


def test_help_is_no_error(feddep: Feddep, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    outcome = feddep("run", "--help")
    assert outcome.code == 0
    assert "--method" in outcome.out
    assert f"default: {RunSpec().method}." in outcome.out
