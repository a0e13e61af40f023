"""A disk that fills at the very end: the result stays in memory until it is somewhere."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

import feddep
from feddep.algorithms import find_method
from feddep.errors import InputError
from feddep.graph.shard import Shards
from feddep.runs import checkpoint, files, pipeline, storing
from feddep.runs.folder import RunFolder
from feddep.runs.storing import store
from feddep.scenario.spec import RunSpec
from small_runs import spec_of


def full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be flushed to files in this folder any more."""
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(folder):
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(files.os, "fsync", fsync)


def test_somebody_makes_room_and_it_is_tried_again(tmp_path: Path):
    folder, asked, tried = RunFolder(tmp_path), [], []

    def write(place: RunFolder) -> None:
        tried.append(place)
        if len(tried) < 3:
            raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "model"))

    store(folder, write, lambda trouble: not asked.append(trouble))
    assert tried == [folder] * 3
    assert "model: No space left on device" in asked[0]
    assert "MB are free there" in asked[0]


def test_without_a_terminal_it_is_put_elsewhere_and_can_be_opened_there(
    tmp_path: Path, small_shards: Shards, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    spec = spec_of(find_method("fedavg"), small_shards)
    with RunFolder.claim(tmp_path / "run", spec, resume=False) as folder:
        full(tmp_path / "run", monkeypatch)
        with pytest.raises(InputError, match=r"it is in .*feddep-result-.* instead") as told:
            pipeline.run(spec, small_shards, workers=1, device="cpu", folder=folder)
    assert "--resume" in str(told.value)
    [other] = (tmp_path / "elsewhere").iterdir()
    assert feddep.open_run(other).spec == spec
    assert not (tmp_path / "run" / "record.json").exists()


def test_if_there_is_no_room_anywhere_the_checkpoint_is_left(
    tmp_path: Path, small_shards: Shards, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    monkeypatch.setattr("feddep.runs.journal.CHECKPOINT_SECONDS", 1e-9)
    spec = spec_of(find_method("fedavg"), small_shards, **{"training.rounds": 3})
    whole = pipeline.run(spec, small_shards, workers=1, device="cpu")

    def nearly_full(phase: str, round: int, rounds: int, val: float | None) -> None:
        if round == 2:
            full(tmp_path, monkeypatch)

    folder = RunFolder.claim(tmp_path / "run", spec, resume=False)
    with folder, pytest.raises(InputError, match="make room and run the same command"):
        pipeline.run(spec, small_shards, workers=1, device="cpu", folder=folder,
                     watch=nearly_full)  # fmt: skip
    monkeypatch.undo()
    assert not list((tmp_path / "elsewhere").iterdir())
    assert checkpoint.has_checkpoint(tmp_path / "run")
    with RunFolder.claim(tmp_path / "run", spec, resume=True) as folder:
        found = pipeline.run(spec, small_shards, workers=1, device="cpu", folder=folder)
    assert {**found.record, "seconds": 0} == {**whole.record, "seconds": 0}


def test_at_a_terminal_enter_tries_again_and_the_end_of_input_gives_up(monkeypatch, caplog):
    monkeypatch.setattr(storing.sys, "stdin", open(os.devnull))  # noqa: SIM115, PTH123
    monkeypatch.setattr(storing.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(storing.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda: "")
    assert storing.at_the_terminal("trouble")
    assert "press Enter" in caplog.text

    def gone() -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", gone)
    assert not storing.at_the_terminal("trouble")


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path):
    spec = RunSpec()
    with RunFolder.claim(tmp_path / "run", spec, resume=False):
        with pytest.raises(InputError, match="another process is working in"):
            RunFolder.claim(tmp_path / "run", spec, resume=True)
        assert (tmp_path / "run" / "spec.toml").exists()
    with RunFolder.claim(tmp_path / "run", spec, resume=True):
        pass


def test_whoever_comes_next_deletes_drafts_of_this_run_only(tmp_path: Path):
    RunFolder.claim(tmp_path, RunSpec(), resume=False).leave()
    drafts = [".checkpoint.bin.123", ".model.safetensors.9"]
    for name in [*drafts, ".notes.1", ".hidden"]:
        (tmp_path / name).write_text("")
    with pytest.raises(InputError, match="holds a run with another spec"):
        RunFolder.claim(tmp_path, RunSpec(seed=1), resume=False)
    for name in (".notes.1", ".hidden"):
        (tmp_path / name).unlink()
    RunFolder.claim(tmp_path, RunSpec(), resume=True).leave()
    assert [file.name for file in tmp_path.iterdir()] == ["spec.toml"]
