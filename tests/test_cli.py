"""The command line: what it prints where, its exit codes, and that bad input leaves no trace.

Most tests call it in this process; a few start it as a user would.
"""

import hashlib
import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

from feddep.cli import main as cli
from feddep.cli import options as cli_common
from feddep.errors import RuntimeFailureError
from feddep.graph import datasets
from feddep.graph.folder import write_graph
from feddep.graph.graph import Graph, Part
from feddep.runs.journal import Journal
from feddep.runs.records import without_times
from feddep.runtime import inprocess
from feddep.scenario.spec import RunSpec

TINY = ["--set", "synthetic.nodes=150", "--set", "model.hidden=8", "--workers", "1"]
RUN = ["run", *TINY, "--rounds", "2", "--method", "fedavg"]
TUNE = ["--method", "local", "--dataset", "synthetic"]
FILES = {"record.json", "history.jsonl", "spec.toml", "model.safetensors", "ledger.json"}


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Feddep = Callable[..., Outcome]


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
        monkeypatch.setattr(sys, "argv", ["feddep", *map(str, arguments)])
        code = cli._exit_code()
        return Outcome(code, *capsys.readouterr())

    return call


def history(folder: Path | str) -> list[dict[str, Any]]:
    """The stored history, without times."""
    lines = (Path(folder) / "history.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def record(folder: Path | str) -> dict[str, Any]:
    """The stored record, without times."""
    return without_times(json.loads((Path(folder) / "record.json").read_text()))


def leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path


# feddep run


def test_json_prints_the_stored_record_and_nothing_else(feddep: Feddep):
    outcome = feddep(*RUN, "--json", "--out", "run")
    assert outcome.code == 0
    assert outcome.json == json.loads(Path("run/record.json").read_text())


def test_the_record_holds_what_the_contract_lists(feddep: Feddep):
    found = set(leaves(feddep(*RUN, "--json").json))
    assert {
        *("method", "dataset", "clients", "rounds", "seed", "split", "partition", "preset"),
        *("scores.global.test", "scores.global.val", "scores.global.test_last"),
        *("scores.silo.test", "scores.silo.val"),
        *("seconds.total", "seconds.phases.averaging"),
        *("traffic.up_bytes", "traffic.down_bytes"),
        *("traffic.phases.averaging.up_bytes", "traffic.phases.averaging.down_bytes"),
        *("privacy.statement", "privacy.sound.verdict", "privacy.paper.epsilon"),
        *("privacy.composed.delta", "versions.feddep", "versions.torch"),
    } <= found


def test_the_run_folder_holds_five_files_and_one_line_a_round(feddep: Feddep):
    assert feddep(*RUN, "--out", "a/run").code == 0
    assert {file.name for file in Path("a/run").iterdir()} == FILES
    assert [entry["round"] for entry in history("a/run")] == [1, 2]
    assert load_file("a/run/model.safetensors")["bias"].shape == (8,)


def test_the_stored_spec_is_fully_resolved(feddep: Feddep):
    feddep(*RUN, "--seed", 3, "--out", "run")
    settings = {"training.rounds": 2, "synthetic.nodes": 150, "model.hidden": 8, "seed": 3}
    expected = RunSpec().with_settings(settings | {"method": "fedavg"})
    assert Path("run/spec.toml").read_text() == expected.to_toml()


def test_without_json_a_summary_goes_to_output_and_the_rest_to_error(feddep: Feddep):
    outcome = feddep(*RUN, "--out", "run")
    score = record("run")["scores"]["global"]["test"]
    assert f"{score:.4f}" in outcome.out
    assert "best round" in outcome.out
    assert outcome.err == "stored in run\n"


def test_by_default_a_run_is_stored_under_runs(feddep: Feddep):
    outcome = feddep(*RUN)
    (folder,) = Path("runs").iterdir()
    assert {file.name for file in folder.iterdir()} == FILES
    assert f"stored in {folder}" in outcome.err


def test_every_flag_reaches_the_run(feddep: Feddep):
    flags = {
        "--method": "local",
        "--dataset": "synthetic",
        "--clients": 2,
        "--partition": "label-skew",
        "--split": "random",
        "--rounds": 1,
        "--seed": 7,
        "--preset": "paper",
        "--device": "cpu",
    }
    words = [str(word) for pair in flags.items() for word in pair]
    found = feddep("run", *TINY, *words, "--json").json
    keys = ("method", "dataset", "clients", "partition", "split", "rounds", "seed", "preset")
    assert [found[key] for key in keys] == list(flags.values())[:-1]


def test_the_defaults_are_feddep_on_synthetic_with_5_clients_50_rounds_seed_0():
    spec = cli_common.spec_of(cli_common.given_settings(None, method=None, seed=None))
    assert spec == RunSpec()
    assert (spec.method, spec.dataset, spec.seed) == ("feddep", "synthetic", 0)
    assert (spec.partition.clients, spec.training.rounds) == (5, 50)


def test_a_flag_wins_over_a_setting_of_the_same_key(feddep: Feddep):
    found = feddep(*RUN, "--set", "training.rounds=9", "--set", "seed=4", "--json").json
    assert (found["rounds"], found["seed"]) == (2, 4)


def test_the_same_seed_gives_the_same_record_and_history(feddep: Feddep):
    feddep(*RUN, "--out", "one")
    feddep(*RUN, "--out", "other")
    assert record("one") == record("other")
    assert history("one") == history("other")
    one, other = (load_file(f"{run}/model.safetensors") for run in ("one", "other"))
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_another_seed_gives_another_history(feddep: Feddep):
    feddep(*RUN, "--out", "one")
    feddep(*RUN, "--seed", 1, "--out", "other")
    assert history("one") != history("other")


@pytest.mark.usefixtures("thread_workers")
def test_two_workers_give_the_same_record_as_one(feddep: Feddep):
    feddep(*RUN, "--out", "one")
    assert feddep(*RUN, "--workers", 2, "--out", "two").code == 0
    assert record("one") == record("two")
    assert history("one") == history("two")


def test_running_again_without_resume_replaces_the_run(feddep: Feddep):
    feddep(*RUN, "--out", "run")
    Path("run/record.json").write_text("{}")
    assert feddep(*RUN, "--out", "run").code == 0
    assert record("run")["rounds"] == 2


def test_resume_of_a_finished_run_prints_its_record_without_running(
    feddep: Feddep, monkeypatch: pytest.MonkeyPatch
):
    first = feddep(*RUN, "--json", "--out", "run")
    monkeypatch.setattr("feddep.scenario.build.build", lambda _: pytest.fail("ran again"))
    assert feddep(*RUN, "--json", "--out", "run", "--resume").json == first.json


def test_resume_without_anything_to_resume_starts_at_the_beginning(feddep: Feddep):
    assert feddep(*RUN, "--out", "run", "--resume").code == 0
    assert len(history("run")) == 2


def test_progress_shows_phase_round_validation_accuracy_and_time_left(
    feddep: Feddep, monkeypatch: pytest.MonkeyPatch
):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(cli_common, "err_console", console)
    outcome = feddep(*RUN, "--json", "--out", "run")
    val = history("run")[-1]["silo"]["val"]
    shown = screen.getvalue()
    assert "fedavg: averaging" in shown
    assert "3/3" in shown
    assert f"validation {val:.4f}" in shown
    assert "0:00:00" in shown
    assert outcome.json["rounds"] == 2, "and nothing of it on standard output"


# Wrong usage and bad input

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
    "a preset": (["run", "--preset", "best"], ["preset", "'tuned' or 'paper'", "'best'"]),
    "a seed": (["run", "--seed", "-1"], ["seed", "-1"]),
    "clients": (["run", *TINY, "--clients", "151"], ["150 nodes", "151"]),
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
    "clients to partition": (["partition", "--clients", "3001"], ["3000 nodes", "3001"]),
    "a method to tune": (["tune", *TUNE, "--method", "fedprox"], ["'fedprox'", "fedavg"]),
    "a variant to tune": (["tune", *TUNE, "--method", "feddep-wo-dgen"], ["tune feddep"]),
    "a data set to tune": (["tune", *TUNE, "--dataset", "coras"], ["'coras'", "cora"]),
    "no trial": (["tune", *TUNE, "--trials", "0"], ["trials", "(got 0)"]),
    "no seed": (["tune", *TUNE, "--seeds", "0"], ["seeds", "(got 0)"]),
    "a key to tune": (["tune", *TUNE, "--set", "training.round=3"], ["'training.round'"]),
    "a seed to tune": (["tune", *TUNE, "--set", "seed=3"], ["decides seed", "(got 3)"]),
    "a method to compare": (["compare", "--methods", "local,fedprox"], ["'fedprox'", "fedavg"]),
    "a method to price": (["costs", "--methods", "fedprox"], ["'fedprox'", "fedavg"]),
    "a method of one party": (["costs", "--methods", "feddep,global"], ["global sends nothing"]),
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


def test_help_is_no_error(feddep: Feddep):
    outcome = feddep("run", "--help")
    assert outcome.code == 0
    assert "--method" in outcome.out
    assert f"default: {RunSpec().method}." in " ".join(outcome.out.split())


# Failures


def fail_with(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeFailureError("the worker ended"), 1, "error: the worker ended"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (MemoryError(), 1, "error: MemoryError"),
        (KeyError("weights"), 1, "KeyError: 'weights'\nThis should not happen"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_a_failure_is_one_sentence_and_an_exit_code(
    feddep: Feddep,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    said: str,
):
    monkeypatch.setattr("feddep.runs.pipeline.run", fail_with(error))
    outcome = feddep(*RUN, "--json", "--out", "run")
    assert outcome.code == code
    assert outcome.out == ""
    assert said in outcome.err
    assert "Traceback" not in outcome.err
    assert not Path("run").exists(), "there is nothing to resume"


def test_with_feddep_debug_an_unexpected_error_is_raised(
    feddep: Feddep, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("feddep.runs.pipeline.run", fail_with(KeyError("weights")))
    monkeypatch.setenv("FEDDEP_DEBUG", "1")
    with pytest.raises(KeyError):
        feddep(*RUN)


def test_main_leaves_with_the_exit_code(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["feddep", "train"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2


def test_the_installed_command_is_main():
    (found,) = entry_points(group="console_scripts", name="feddep")
    assert found.load() is cli.main


# Ctrl-C


def interrupt_in(monkeypatch: pytest.MonkeyPatch, round_: int, times: int = 1) -> None:
    """Lets Ctrl-C arrive while a round of the next run is being finished."""
    after_round = Journal.after_round

    def interrupted(self: Journal, phase: Any, report: Any, progress: Any) -> None:
        if progress.round == round_:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
        after_round(self, phase, report, progress)

    monkeypatch.setattr(Journal, "after_round", interrupted)


@pytest.mark.parametrize("method", ["fedavg", "local"])
def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_result(
    feddep: Feddep, monkeypatch: pytest.MonkeyPatch, method: str
):
    command = ["run", *TINY, "--rounds", 4, "--method", method]
    feddep(*command, "--out", "undisturbed")
    with monkeypatch.context() as patch:
        interrupt_in(patch, round_=2)
        outcome = feddep(*command, "--json", "--out", "run")
    assert outcome.code == 130
    assert outcome.out == ""
    assert "--resume" in outcome.err
    assert not Path("run/record.json").exists()
    assert Path("run/checkpoint.bin").exists()

    assert feddep(*command, "--out", "run", "--resume").code == 0
    assert record("run") == record("undisturbed")
    assert history("run") == history("undisturbed")
    assert {file.name for file in Path("run").iterdir()} == FILES
    one, other = (load_file(f"{run}/model.safetensors") for run in ("run", "undisturbed"))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_second_ctrl_c_stops_at_once(feddep: Feddep, monkeypatch: pytest.MonkeyPatch):
    interrupt_in(monkeypatch, round_=1, times=2)
    assert feddep(*RUN, "--out", "run").code == 130
    assert not Path("run").exists(), "it did not even wait for a checkpoint"


def test_after_a_run_ctrl_c_is_what_it_was_before(feddep: Feddep):
    before = signal.getsignal(signal.SIGINT)
    feddep(*RUN)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_worker_is_out_of_reach_of_ctrl_c_and_of_modules_in_the_current_folder():
    worker = inprocess._Worker([0], {})
    try:
        assert os.getpgid(worker._process.pid) != os.getpgrp()
        assert "-P" in worker._process.args
    finally:
        worker.stop()


def test_a_damaged_checkpoint_is_named(feddep: Feddep, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        interrupt_in(patch, round_=1)
        feddep(*RUN, "--out", "run")
    Path("run/checkpoint.bin").write_bytes(b"x" * 20)
    outcome = feddep(*RUN, "--out", "run", "--resume")
    assert outcome.code == 2
    assert "run/checkpoint.bin is damaged" in outcome.err
    assert "delete it and start again" in outcome.err


# feddep partition


def test_partition_json_holds_nodes_edges_and_what_is_lost(feddep: Feddep):
    outcome = feddep("partition", "--clients", 4, "--partition", "random", "--seed", 2, "--json")
    assert outcome.code == 0
    found = outcome.json
    graph = feddep_graph()
    assert len(found["clients"]) == 4
    assert all(client.keys() == {"nodes", "edges"} for client in found["clients"])
    assert sum(client["nodes"] for client in found["clients"]) == graph.nodes
    kept = sum(client["edges"] for client in found["clients"])
    assert found["lost_edges"] == graph.edges - kept > 0
    assert found["lost_share"] == pytest.approx(found["lost_edges"] / graph.edges)
    assert (found["partition"], found["seed"]) == ("random", 2)


def feddep_graph() -> Graph:
    import feddep as package

    return package.load("synthetic")


def test_partition_prints_a_table_with_the_paper_statistics(feddep: Feddep):
    arguments = ["partition", "--clients", 3, "--set", "synthetic.nodes=150"]
    found = feddep(*arguments, "--json").json
    outcome = feddep(*arguments)
    assert outcome.err == ""
    assert f"ΔE = {found['lost_edges']}" in outcome.out
    for client in found["clients"]:
        assert str(client["edges"]) in outcome.out


@pytest.mark.parametrize("kind", ["louvain", "random", "label-skew"])
def test_a_run_on_stored_shards_gives_the_scores_of_the_run_by_name(feddep: Feddep, kind: str):
    how = ["--clients", 3, "--partition", kind, "--split", "random", "--seed", 4]
    stored = feddep("partition", *how, "--set", "synthetic.nodes=150", "--out", "shards")
    assert stored.code == 0
    assert "shards stored in shards" in stored.err
    feddep(*RUN, *how, "--out", "by-name")
    assert feddep(*RUN, "--dataset", "shards", "--seed", 4, "--out", "by-path").code == 0
    by_name, by_path = record("by-name"), record("by-path")
    assert by_path.pop("dataset") == "shards"
    assert by_name.pop("dataset") == "synthetic"
    assert by_path == by_name
    assert history("by-path") == history("by-name")


def test_clients_that_contradict_stored_shards_are_refused(feddep: Feddep):
    feddep("partition", "--clients", 3, "--set", "synthetic.nodes=150", "--out", "shards")
    outcome = feddep(*RUN, "--dataset", "shards", "--clients", 4)
    assert outcome.code == 2
    assert "partition.clients = 3 (got 4)" in outcome.err


def test_stored_shards_are_not_replaced_by_others(feddep: Feddep):
    arguments = ["partition", "--set", "synthetic.nodes=150", "--out", "shards"]
    feddep(*arguments)
    before = Path("shards/manifest.json").read_bytes()
    assert feddep(*arguments, "--seed", 1).code == 2
    assert Path("shards/manifest.json").read_bytes() == before


def test_shards_do_not_replace_what_is_there(feddep: Feddep):
    Path("shards").mkdir()
    Path("shards/notes.txt").write_text("precious")
    assert feddep("partition", "--set", "synthetic.nodes=150", "--out", "shards").code == 2
    assert [path.name for path in Path("shards").iterdir()] == ["notes.txt"]


# Somebody's own graph


def put(folder: Path, name: str, content: bytes) -> None:
    """Changes a file of a graph folder together with its hash in the manifest."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = hashlib.sha256(content).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture
def mine(small_graph: Graph, tmp_path: Path) -> Path:
    """A graph folder with dense features."""
    graph = Graph.from_edges(
        small_graph.edge_list(), small_graph.features.toarray(), small_graph.labels, name="mine"
    )
    write_graph(graph, tmp_path / "mine")
    return tmp_path / "mine"


def test_a_graph_folder_can_be_run(feddep: Feddep, mine: Path):
    assert feddep(*RUN, "--dataset", mine, "--json").json["dataset"] == str(mine)


@pytest.mark.parametrize("file", ["nodes.csv", "edges.csv", "features.npy"])
@pytest.mark.parametrize("damage", [lambda whole: whole[:-9], lambda whole: whole[:-1] + b"!"])
def test_a_damaged_file_is_named_with_the_expected_and_the_found_hash(
    feddep: Feddep, mine: Path, file: str, damage: Callable[[bytes], bytes]
):
    whole = (mine / file).read_bytes()
    (mine / file).write_bytes(damage(whole))
    outcome = feddep(*RUN, "--dataset", mine)
    assert outcome.code == 2
    assert str(mine / file) in outcome.err
    assert hashlib.sha256(whole).hexdigest() in outcome.err
    assert hashlib.sha256(damage(whole)).hexdigest() in outcome.err


def test_features_that_are_not_numbers_are_refused(feddep: Feddep, mine: Path):
    features = np.load(mine / "features.npy")
    features[7, 3] = np.nan
    put(mine, "features.npy", npy(features))
    outcome = feddep(*RUN, "--dataset", mine)
    assert outcome.code == 2
    assert "NaN or infinite, the first in row 7" in outcome.err


def test_an_edge_to_an_unknown_node_is_refused(feddep: Feddep, mine: Path):
    put(mine, "edges.csv", (mine / "edges.csv").read_bytes() + b"0,9999\n")
    outcome = feddep(*RUN, "--dataset", mine)
    assert outcome.code == 2
    assert "edges.csv" in outcome.err
    assert "'9999'" in outcome.err


def test_a_manifest_that_is_none_is_refused(feddep: Feddep, mine: Path):
    (mine / "manifest.json").write_text("{")
    outcome = feddep(*RUN, "--dataset", mine)
    assert outcome.code == 2
    assert "manifest.json" in outcome.err


def test_a_class_without_training_nodes_is_refused(
    feddep: Feddep, small_graph: Graph, tmp_path: Path
):
    split = np.where(small_graph.labels == 2, Part.TEST, Part.TRAIN)
    write_graph(small_graph.with_split(split), tmp_path / "mine")
    outcome = feddep(*RUN, "--dataset", "mine")
    assert outcome.code == 2
    assert "class 2 of synthetic has nodes but none to train on" in outcome.err


def with_three_training_nodes(graph: Graph) -> Graph:
    """One of each class; so of five clients at least two have none."""
    split = np.full(graph.nodes, Part.TEST)
    split[np.unique(graph.labels, return_index=True)[1]] = Part.TRAIN
    return graph.with_split(split)


def test_clients_without_training_nodes_take_part_with_a_warning(
    feddep: Feddep, small_graph: Graph, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    write_graph(with_three_training_nodes(small_graph), tmp_path / "mine")
    outcome = feddep(*RUN, "--dataset", "mine", "--clients", 5, "--json")
    assert outcome.code == 0
    assert outcome.json["scores"]["silo"]["val"] is None
    assert "clients without training nodes take part with weight 0" in caplog.text


# feddep methods, data, compare


def test_methods_are_listed_with_what_leaves_a_client(feddep: Feddep):
    found = feddep("methods", "--json").json
    assert {"fedavg", "local", "global"} <= found.keys()
    assert found["fedavg"]["discloses"] == ["classifier"]
    assert found["local"]["discloses"] == []
    table = feddep("methods").out
    assert all(name in table for name in found)


def test_methods_that_know_more_or_are_reconstructed_are_marked(feddep: Feddep, monkeypatch):
    monkeypatch.setattr(cli, "out_console", Console(width=400))
    found = feddep("methods", "--json").json
    see = {name for name, method in found.items() if method["sees_cross_edges"]}
    assert see == {"fedgnn", "fedgraph", "oracle"}
    assert {name for name, method in found.items() if method["reconstruction"]} == {"fedgsl"}
    table = feddep("methods").out
    assert all(f" {name}† " in table for name in see)
    assert " fedgsl‡ " in table
    assert " fedavg " in table
    assert "† sees cross-client edges" in table
    assert "‡ a reconstruction" in table


def test_data_sets_are_listed_with_where_they_are(feddep: Feddep, monkeypatch, tmp_path: Path):
    (tmp_path / "data" / "cora").mkdir(parents=True)
    (tmp_path / "data" / "cora" / "cora.content").touch()
    monkeypatch.setenv("FEDDEP_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(cli, "out_console", Console(width=400))
    found = {row["name"]: row["path"] for row in feddep("data", "list", "--json").json}
    assert found["cora"] == str(tmp_path / "data" / "cora")
    assert found["pubmed"] is None
    table = feddep("data", "list").out
    assert str(tmp_path / "data" / "cora") in table
    assert "feddep data get pubmed" in table
    assert "synthetic" in table


def test_data_path_prints_the_folder_and_nothing_else(
    feddep: Feddep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    folder = tmp_path / "data" / ("long" * 30) / "cora"
    folder.mkdir(parents=True)
    (folder / "cora.content").touch()
    monkeypatch.setenv("FEDDEP_DATA", str(folder.parent))
    assert feddep("data", "path", "cora").out == f"{folder}\n"


def test_data_path_of_what_is_not_there_says_how_to_get_it(feddep: Feddep):
    outcome = feddep("data", "path", "cora")
    assert outcome.code == 2
    assert "feddep data get cora" in outcome.err


def test_data_get_says_what_it_did(feddep: Feddep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    receipts = [
        datasets.Receipt("cora", tmp_path / "a", fetched=True),
        datasets.Receipt("pubmed", tmp_path / "b", fetched=False),
    ]
    asked = []
    monkeypatch.setattr(datasets, "get", lambda names: asked.append(names) or iter(receipts))
    outcome = feddep("data", "get", "cora", "pubmed")
    assert asked == [["cora", "pubmed"]]
    assert outcome.out.splitlines() == [
        f"cora: fetched into {tmp_path / 'a'}",
        f"pubmed: already in {tmp_path / 'b'}",
    ]


def test_a_damaged_data_set_is_named_with_the_expected_and_the_found_hash(
    feddep: Feddep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    file = datasets.DATASETS["msacademic"].editions[0].files[0]
    path = tmp_path / "data" / "msacademic" / file.name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"truncated")
    monkeypatch.setenv("FEDDEP_DATA", str(tmp_path / "data"))
    outcome = feddep(*RUN, "--dataset", "msacademic", "--out", "run")
    assert outcome.code == 2
    assert str(path) in outcome.err
    assert file.sha256 in outcome.err
    assert hashlib.sha256(b"truncated").hexdigest() in outcome.err
    assert not Path("run").exists()


def test_compare_runs_the_methods_and_writes_a_report(feddep: Feddep):
    arguments = ["compare", *TINY, "--rounds", 1, "--methods", "local, fedavg", "--out", "both"]
    outcome = feddep(*arguments)
    assert outcome.code == 0
    report = Path("both/report.md").read_text()
    for method in ("local", "fedavg"):
        score = f"{record(f'both/{method}')['scores']['global']['test']:.4f}"
        assert score in outcome.out
        assert f"| {method} | {score} |" in report


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
    assert not Path("report").exists()


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


def test_compare_reuses_finished_runs(feddep: Feddep, monkeypatch: pytest.MonkeyPatch):
    arguments = ["compare", *TINY, "--rounds", 1, "--methods", "local,global", "--out", "both"]
    first = feddep(*arguments)
    monkeypatch.setattr("feddep.scenario.build.build", lambda _: pytest.fail("ran again"))
    assert feddep(*arguments).out == first.out


def test_compare_takes_a_preset(feddep: Feddep):
    methods = ["--methods", "local", "--preset", "paper", "--out", "both"]
    assert feddep("compare", *TINY, "--rounds", 1, *methods).code == 0
    assert "preset `paper`" in Path("both/report.md").read_text()


# Presets


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A presets file with one tuned entry."""
    file = tmp_path_factory.mktemp("tuned") / "presets.toml"
    file.write_text('[tuned.fedavg.synthetic]\n"training.rounds" = 3\n"model.hidden" = 4\n')
    monkeypatch.setattr("feddep.scenario.presets.FILE", file)
    return file


SMALL = ["run", "--method", "fedavg", "--set", "synthetic.nodes=150", "--workers", "1"]


def test_a_run_takes_what_is_left_out_from_the_preset_and_stores_it(feddep: Feddep, tuned: Path):
    found = feddep(*SMALL, "--json", "--out", "run").json
    assert (found["preset"], found["rounds"]) == ("tuned", 3)
    stored = RunSpec.read(Path("run/spec.toml"))
    assert (stored.training.rounds, stored.model.hidden) == (3, 4)


def test_a_flag_and_a_setting_win_over_the_preset(feddep: Feddep, tuned: Path):
    feddep(*SMALL, "--rounds", 1, "--set", "model.hidden=5", "--out", "run")
    stored = RunSpec.read(Path("run/spec.toml"))
    assert (stored.training.rounds, stored.model.hidden) == (1, 5)


def test_another_preset_does_not_change_a_run_that_is_resumed(
    feddep: Feddep, tuned: Path, monkeypatch: pytest.MonkeyPatch
):
    feddep(*SMALL, "--out", "undisturbed")
    with monkeypatch.context() as patch:
        interrupt_in(patch, round_=2)
        assert feddep(*SMALL, "--out", "run").code == 130
    tuned.write_text('[tuned.fedavg.synthetic]\n"training.learning_rate" = 0.5\n')
    assert feddep(*SMALL, "--out", "run", "--resume").code == 0
    assert record("run") == record("undisturbed")
    assert history("run") == history("undisturbed")
    assert Path("run/spec.toml").read_text() == Path("undisturbed/spec.toml").read_text()


def test_what_is_given_must_agree_with_the_run_that_is_resumed(feddep: Feddep, tuned: Path):
    feddep(*SMALL, "--out", "run")
    outcome = feddep(*SMALL, "--rounds", 2, "--out", "run", "--resume")
    assert outcome.code == 2
    assert "rounds = 3 there, rounds = 2 here" in outcome.err


def test_without_resume_another_preset_is_another_run(feddep: Feddep, tuned: Path):
    feddep(*SMALL, "--out", "run")
    tuned.write_text(tuned.read_text().replace("= 3", "= 2"))
    assert "rounds = 3 there, rounds = 2 here" in feddep(*SMALL, "--out", "run").err


# feddep sweep


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    """A sweep on the embedded data."""
    file = tmp_path / "mine.toml"
    file.write_text('[grid]\nmethod = ["local", "fedavg"]\nseed = [0, 1]\n')
    return file


def test_a_sweep_is_run_once_and_its_records_stand_beside_it(
    feddep: Feddep, declared: Path, tried: list[Any]
):
    outcome = feddep("sweep", "mine.toml", "--at-once", 1)
    assert (outcome.code, len(tried)) == (0, 4)
    assert "| fedavg | 0.5000 ± 0.000 |" in outcome.out
    assert len((declared.parent / "results/mine.jsonl").read_text().splitlines()) == 4
    again = feddep("sweep", "mine.toml")
    assert (again.code, again.out, len(tried)) == (0, outcome.out, 4)


def test_a_sweep_that_is_not_there_is_an_error(feddep: Feddep, tried: list[Any]):
    outcome = feddep("sweep", "nowhere.toml")
    assert outcome.code == 2
    assert "error: cannot read the sweep nowhere.toml" in outcome.err


def test_where_records_cannot_be_written_nothing_runs(
    feddep: Feddep, declared: Path, tried: list[Any]
):
    (declared.parent / "results").write_text("precious")
    outcome = feddep("sweep", "mine.toml")
    assert outcome.code == 2
    assert "cannot write to results" in outcome.err
    assert tried == []


def test_data_that_are_not_there_are_asked_for_before_anything_runs(
    feddep: Feddep, declared: Path, tried: list[Any]
):
    declared.write_text('[grid]\ndataset = ["./gone"]\n')
    outcome = feddep("sweep", "mine.toml")
    assert outcome.code == 2
    assert "gone" in outcome.err
    assert tried == []


# feddep tune


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


def test_tune_prints_the_trials_and_stores_the_choice(feddep: Feddep, tried: list[Any]):
    tune = ["tune", *TUNE, "--set", "synthetic.nodes=150", "--clients", 3]
    outcome = feddep(*tune, "--set", "training.rounds=1")
    assert outcome.code == 0
    assert len(tried) == 2 * 8, "trial 0 is one of the eight points of the search space"
    assert "0.5000" in outcome.out
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


# As a user starts it

COMMAND = [sys.executable, "-c", "from feddep.cli.main import main; main()"]


def test_as_a_process_json_is_all_there_is_on_standard_output(tmp_path: Path):
    command = [*COMMAND, *RUN, "--json", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads((tmp_path / "run" / "record.json").read_bytes())
    assert done.stdout.startswith(b"{\n")
    assert done.stdout.endswith(b"}\n")
    assert done.stderr == b""


def test_as_a_process_bad_input_and_a_warning_are_sentences_on_standard_error(
    tmp_path: Path, small_graph: Graph
):
    write_graph(with_three_training_nodes(small_graph), tmp_path / "mine")
    command = [*COMMAND, *RUN, "--dataset", "mine", "--clients", "5", "--device", "tpu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    warning, error = done.stderr.split("error:")
    assert "weight 0" in " ".join(warning.split())
    assert error.strip() == "device must be auto, cpu or cuda (got 'tpu')"


def test_as_a_process_ctrl_c_ends_with_130_and_resume_gives_the_same_result(
    tmp_path: Path, feddep: Feddep
):
    # The process has its own presets.
    command = ["run", *TINY, "--method", "fedavg", "--rounds", "100", "--preset", "paper"]
    seen = interrupt_when_it_shows(
        b"validation 0.", [*COMMAND, *command, "--out", "run"], tmp_path, expected_code=130
    )
    assert b"--resume" in seen
    assert 0 < len(history("run")) < 100
    assert feddep(*command, "--out", "run", "--resume").code == 0
    feddep(*command, "--out", "undisturbed")
    assert record("run") == record("undisturbed")
    assert history("run") == history("undisturbed")


def interrupt_when_it_shows(
    text: bytes, command: list[str], folder: Path, expected_code: int
) -> bytes:
    """Runs a command in a terminal and presses Ctrl-C as soon as ``text`` appears there."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=theirs, env=_terminal()
        )
        os.close(theirs)
        seen, pressed = b"", False
        while piece := _read(screen):
            seen += piece
            if text in seen and not pressed:
                process.send_signal(signal.SIGINT)
                pressed = True
    assert process.wait() == expected_code
    return seen


def _terminal() -> dict[str, str]:
    return os.environ | {"TERM": "xterm", "COLUMNS": "120"}


def _read(screen: Any) -> bytes:
    try:
        found: bytes = screen.read(4096)
    except OSError:  # so a terminal says that its last user is gone
        return b""
    return found


# What stands where


def test_an_unfinished_run_and_a_folder_of_runs_are_named_as_such(feddep: Feddep):
    Path("stopped").mkdir()
    Path("stopped/spec.toml").touch()
    Path("several/fedavg").mkdir(parents=True)
    Path("several/fedavg/record.json").write_text("{}")
    assert "not finished; go on with it by feddep run --resume" in feddep("report", "stopped").err
    assert "name one, such as several/fedavg" in feddep("privacy", "several").err


def test_a_method_whose_file_has_changed_is_run_again(
    feddep: Feddep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(tmp_path)
    own = tmp_path / "own_method_of_a_comparison.py"
    own.write_text("from feddep.algorithms.fedavg import METHOD\n")
    command = ["compare", *TINY, "--rounds", 1, "--methods", f"{own.stem}:METHOD", "--out", "both"]
    assert feddep(*command).code == 0
    assert "running it again" not in feddep(*command).err
    own.write_text(own.read_text() + "# another one\n")
    assert "has changed since it was run; running it again" in feddep(*command).err
    assert "running it again" not in feddep(*command).err


def test_flower_without_ray_is_said_in_a_line(feddep: Feddep, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    outcome = feddep(*RUN, "--runtime", "flower-sim")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert "pip install 'feddep[flower-sim]'" in outcome.err
