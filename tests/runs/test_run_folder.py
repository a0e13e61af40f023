"""The run folder: who may write where, what it holds, and that nothing is left half-done."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from feddep.errors import DataError, InputError
from feddep.privacy.events import OneShotSampling
from feddep.runs.clients import ClientPart
from feddep.runs.folder import RunFolder, default_folder
from feddep.runs.weight_files import write_model
from feddep.scenario.spec import RunSpec

SPEC = RunSpec()
OTHER = RunSpec(seed=1)
RECORD = {"scores": {"global": {"test": 0.5}}}


def content(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def finished_run(path: Path) -> RunFolder:
    folder = RunFolder.claim(path, SPEC, resume=False)
    weights = {"bias": np.zeros(2, np.float32)}
    clients = {0: ClientPart("a graph", {}, weights)}
    folder.finish(RECORD, [{"round": 1}], [weights], clients, [[OneShotSampling(5, 0.5, 0.75)]])
    return folder


# The default


def test_the_default_folder_stands_under_runs_and_tells_what_was_run():
    folder = default_folder(SPEC)
    assert folder.parent == Path("runs")
    assert folder.name.startswith("synthetic-m5-feddep-s0-")


def test_the_default_folder_is_the_same_for_the_same_spec_only():
    assert default_folder(SPEC) == default_folder(RunSpec())
    others = [{"seed": 1}, {"model.hidden": 64}, {"dataset": "cora"}, {"method": "local"}]
    folders = {default_folder(SPEC.with_settings(settings)) for settings in others}
    assert len(folders | {default_folder(SPEC)}) == len(others) + 1


@pytest.mark.parametrize("dataset", ["/a/b/my shards", "../up", "..", "ä:ö", "/", "x" * 500])
def test_the_default_folder_of_a_path_is_one_plain_name_under_runs(dataset: str):
    folder = default_folder(SPEC.with_settings({"dataset": dataset}))
    assert folder.parent == Path("runs")
    assert folder.name.isascii()
    assert not set(folder.name) & set(" ./\\:")
    assert len(folder.name) < 100


# Claiming


def test_claiming_makes_the_folder_with_the_resolved_spec(tmp_path: Path):
    RunFolder.claim(tmp_path / "a" / "b", SPEC, resume=False)
    assert content(tmp_path / "a" / "b") == {"spec.toml"}
    assert RunSpec.read(tmp_path / "a" / "b" / "spec.toml") == SPEC


def test_an_empty_folder_can_be_claimed(tmp_path: Path):
    RunFolder.claim(tmp_path, SPEC, resume=False)
    assert content(tmp_path) == {"spec.toml"}


def test_an_unfinished_run_is_not_overwritten(tmp_path: Path):
    finished_run(tmp_path / "run").save_checkpoint({}, {})
    before = content(tmp_path / "run")
    with pytest.raises(InputError, match="unfinished run; add --resume"):
        RunFolder.claim(tmp_path / "run", SPEC, resume=False)
    assert content(tmp_path / "run") == before


def test_an_earlier_run_of_the_same_spec_is_replaced(tmp_path: Path):
    finished_run(tmp_path / "run")
    folder = RunFolder.claim(tmp_path / "run", SPEC, resume=False)
    assert content(tmp_path / "run") == {"spec.toml"}
    assert folder.finished() is None
    assert folder.load_checkpoint() is None


def test_with_resume_an_earlier_run_of_the_same_spec_is_kept(tmp_path: Path):
    finished_run(tmp_path / "run").save_checkpoint({"round": 3}, {})
    before = content(tmp_path / "run")
    folder = RunFolder.claim(tmp_path / "run", SPEC, resume=True)
    assert content(tmp_path / "run") == before
    assert folder.finished() == RECORD
    assert folder.load_checkpoint() == ({"round": 3}, {})


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_of_another_spec_is_refused_with_the_difference_and_kept(
    tmp_path: Path, resume: bool
):
    finished_run(tmp_path / "run")
    before = content(tmp_path / "run")
    with pytest.raises(InputError, match="seed = 0 there, seed = 1 here"):
        RunFolder.claim(tmp_path / "run", OTHER, resume=resume)
    assert content(tmp_path / "run") == before
    assert RunSpec.read(tmp_path / "run" / "spec.toml") == SPEC


def test_a_folder_with_something_else_is_refused_and_kept(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="not empty and holds no run"):
        RunFolder.claim(tmp_path, SPEC, resume=False)
    assert content(tmp_path) == {"thesis.tex"}


def test_a_spec_without_any_result_does_not_keep_others_out(tmp_path: Path):
    RunFolder.claim(tmp_path / "run", SPEC, resume=False)  # and then the machine went down
    RunFolder.claim(tmp_path / "run", OTHER, resume=False)
    assert RunSpec.read(tmp_path / "run" / "spec.toml") == OTHER


def test_a_damaged_spec_is_named(tmp_path: Path):
    finished_run(tmp_path / "run")
    (tmp_path / "run" / "spec.toml").write_text("seed =")
    with pytest.raises(InputError, match=r"run/spec\.toml: the spec is not TOML"):
        RunFolder.claim(tmp_path / "run", SPEC, resume=True)


@pytest.mark.parametrize("name", ["file", "file/run", "file/a/b", "n" * 300])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, name: str):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(InputError, match=r"cannot write to .*choose another --out"):
        RunFolder.claim(tmp_path / name, SPEC, resume=False)
    assert content(tmp_path) == {"file"}
    assert (tmp_path / "file").read_text() == "precious"


def test_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def read_only(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", read_only)
    with pytest.raises(InputError, match=r"cannot write to .*: Permission denied"):
        RunFolder.claim(tmp_path, SPEC, resume=False)


# Taking a claim back


def fail_inside(folder: RunFolder) -> None:
    with pytest.raises(InputError), folder:
        raise InputError("no such data set")


def test_a_run_that_fails_before_it_has_results_leaves_no_folder(tmp_path: Path):
    fail_inside(RunFolder.claim(tmp_path / "run", SPEC, resume=False))
    assert not (tmp_path / "run").exists()


def test_a_folder_that_was_there_before_stays_but_empty(tmp_path: Path):
    fail_inside(RunFolder.claim(tmp_path, SPEC, resume=False))
    assert content(tmp_path) == set()


def test_a_run_that_fails_with_a_checkpoint_can_be_resumed(tmp_path: Path):
    folder = RunFolder.claim(tmp_path / "run", SPEC, resume=False)
    folder.save_checkpoint({}, {})
    fail_inside(folder)
    assert content(tmp_path / "run") == {"spec.toml", "checkpoint.bin"}


def test_a_run_that_goes_well_keeps_its_folder(tmp_path: Path):
    with RunFolder.claim(tmp_path / "run", SPEC, resume=False) as folder:
        assert content(folder.path) == {"spec.toml"}
    assert content(tmp_path / "run") == {"spec.toml"}


# Content


def test_a_finished_run_holds_the_four_files(tmp_path: Path):
    folder = RunFolder.claim(tmp_path, SPEC, resume=False)
    folder.save_checkpoint({}, {})
    weights = {"bias": np.arange(3, dtype=np.float32)}
    folder.finish(RECORD, [{"round": 1}, {"round": 2}], [weights])
    names = {"spec.toml", "history.jsonl", "model.safetensors", "SHA256SUMS", "record.json"}
    assert content(tmp_path) == names
    assert json.loads((tmp_path / "record.json").read_text()) == RECORD == folder.finished()
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"round": 1}, {"round": 2}]
    assert np.array_equal(load_file(tmp_path / "model.safetensors")["bias"], weights["bias"])


def test_the_record_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = RunFolder.claim(tmp_path, SPEC, resume=False)
    written = []
    monkeypatch.setattr(
        "feddep.runs.folder.write_atomically", lambda path, _: written.append(path.name)
    )
    monkeypatch.setattr("feddep.runs.folder.write_sums", lambda *_: written.append("sums"))
    folder.finish(RECORD, [], [{}])
    assert written[-2:] == ["sums", "record.json"]


def test_several_classifiers_are_stored_by_client(tmp_path: Path):
    write_model(tmp_path / "model", [{"w": np.full(2, i, np.float32)} for i in range(3)])
    stored = load_file(tmp_path / "model")
    assert {name: array.tolist() for name, array in stored.items()} == {
        "client-0/w": [0, 0],
        "client-1/w": [1, 1],
        "client-2/w": [2, 2],
    }


# Checkpoints


def test_a_checkpoint_is_read_back_exactly(tmp_path: Path):
    folder = RunFolder(tmp_path)
    header = {"round": 3, "history": [{"loss": 0.1, "silo": {"val": None}}]}
    arrays = {"server/w": np.array([[0.1, 2]], np.float32), "client-0/n": np.array(7)}
    folder.save_checkpoint(header, arrays)
    found_header, found = folder.load_checkpoint() or ({}, {})
    assert found_header == header
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert np.array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_a_newer_checkpoint_replaces_the_older(tmp_path: Path):
    folder = RunFolder(tmp_path)
    folder.save_checkpoint({"round": 1}, {"a": np.zeros(1)})
    folder.save_checkpoint({"round": 2}, {})
    assert folder.load_checkpoint() == ({"round": 2}, {})


def test_without_checkpoint_there_is_none(tmp_path: Path):
    assert RunFolder(tmp_path).load_checkpoint() is None
    assert RunFolder(tmp_path).finished() is None


@pytest.mark.parametrize("kept", [0, 5, 9, 40])
def test_a_truncated_checkpoint_is_named_with_what_to_do(tmp_path: Path, kept: int):
    folder = RunFolder(tmp_path)
    folder.save_checkpoint({"round": 1}, {"a": np.zeros(4)})
    whole = (tmp_path / "checkpoint.bin").read_bytes()
    assert kept < len(whole)
    (tmp_path / "checkpoint.bin").write_bytes(whole[:kept])
    with pytest.raises(DataError, match=r"checkpoint\.bin is damaged.*delete it and start again"):
        folder.load_checkpoint()
