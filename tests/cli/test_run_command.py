"""`feddep run`: what it stores and prints, and what it takes from flags, settings and presets."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

from calls import FILES, RUN, TINY, Feddep, history, interrupt_in, record
from feddep.cli import options
from feddep.scenario.spec import RunSpec

OF_THE_PRESET = {"selection.metric": "accuracy", "selection.ties": "first"}
"""What the embedded data have from the preset, beside the defaults."""


def leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path


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


def test_the_run_folder_holds_its_files_and_one_line_a_round(feddep: Feddep):
    assert feddep(*RUN, "--out", "a/run").code == 0
    last = {"last_model.safetensors"} if record("a/run")["best_round"] == 1 else set()
    assert {file.name for file in Path("a/run").iterdir()} == FILES | last
    assert [entry["round"] for entry in history("a/run")] == [1, 2]
    assert load_file("a/run/model.safetensors")["bias"].shape == (8,)


def test_the_stored_spec_is_fully_resolved(feddep: Feddep):
    feddep(*RUN, "--seed", 3, "--out", "run")
    settings = {"training.rounds": 2, "synthetic.nodes": 150, "model.hidden": 8, "seed": 3}
    expected = RunSpec().with_settings(settings | {"method": "fedavg"} | OF_THE_PRESET)
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
    assert {file.name for file in folder.iterdir()} >= FILES
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
    spec = options.spec_of(options.given_settings(None, method=None, seed=None))
    assert spec == RunSpec().with_settings(OF_THE_PRESET)
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
    monkeypatch.setattr("feddep.cli.run.err_console", console)
    outcome = feddep(*RUN, "--json", "--out", "run")
    val = history("run")[-1]["silo"]["val"]
    shown = screen.getvalue()
    assert "fedavg: averaging" in shown
    assert "3/3" in shown
    assert f"validation {val:.4f}" in shown
    assert "0:00:00" in shown
    assert outcome.json["rounds"] == 2, "and nothing of it on standard output"


def test_flower_without_ray_is_said_in_a_line(feddep: Feddep, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    outcome = feddep(*RUN, "--runtime", "flower-sim")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert "pip install 'feddep[flower-sim]'" in outcome.err


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
