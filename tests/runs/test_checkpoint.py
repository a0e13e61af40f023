"""Checkpoints: an altered or foreign one is refused, and the one before it takes its place."""

import os
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import feddep
from feddep.algorithms import find_method
from feddep.errors import DataError, InterruptedRunError
from feddep.federation.messages import pack
from feddep.graph.shard import Shards
from feddep.runs import checkpoint, pipeline
from feddep.runs.execute import execute
from feddep.runs.folder import RunFolder
from feddep.runs.journal import Journal
from feddep.scenario.spec import RunSpec
from small_runs import spec_of

ARRAYS = {"server/w": np.arange(6, dtype=np.float32), "client-0/n": np.array(7)}


def folder_with(path: Path, *rounds: int, seed: int = 0) -> RunFolder:
    folder = RunFolder.claim(path, RunSpec(seed=seed), resume=False)
    for number in rounds:
        folder.save_checkpoint({"round": number}, ARRAYS)
    return folder


def test_no_altered_byte_is_taken(tmp_path: Path):
    """Every byte once in a small file, and a few hundred random changes of other kinds."""
    folder = folder_with(tmp_path / "run", 1)
    file, draws = folder.path / checkpoint.NAME, random.Random(0)
    whole = file.read_bytes()
    altered = [whole[:at] + bytes([whole[at] ^ 1 << draws.randrange(8)]) + whole[at + 1 :]
               for at in range(len(whole))]  # fmt: skip
    altered += [whole[: draws.randrange(len(whole))] for _ in range(50)]
    altered += [whole + draws.randbytes(draws.randrange(1, 20)) for _ in range(50)]
    for content in altered:
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"checkpoint\.bin is damaged"):
            folder.load_checkpoint()
    file.write_bytes(whole)
    found = folder.load_checkpoint()
    assert found is not None
    assert found[0] == {"round": 1}


def test_one_of_another_seed_is_refused_by_name(tmp_path: Path):
    other = folder_with(tmp_path / "other", 4, seed=5)
    folder = folder_with(tmp_path / "run", 1)
    (other.path / checkpoint.NAME).replace(folder.path / checkpoint.NAME)
    with pytest.raises(DataError, match=r"another run \(seed = 5 there, seed = 0 here\)"):
        folder.load_checkpoint()


def test_the_one_before_takes_the_place_of_a_damaged_one(tmp_path: Path, caplog):
    folder = folder_with(tmp_path / "run", 1, 2, 3)
    (folder.path / checkpoint.NAME).write_bytes(b"x" * 20)
    found = folder.load_checkpoint()
    assert found is not None
    assert found[0] == {"round": 2}
    assert "checkpoint.bin is damaged" in caplog.text
    assert "continuing from the one before" in caplog.text


def test_killed_between_its_two_renames_it_goes_on_from_the_one_before(tmp_path: Path, caplog):
    folder = folder_with(tmp_path / "run", 1)
    (folder.path / checkpoint.NAME).rename(folder.path / checkpoint.BEFORE)
    assert checkpoint.has_checkpoint(folder.path)
    found = folder.load_checkpoint()
    assert found is not None
    assert found[0] == {"round": 1}
    assert caplog.text == ""


def test_if_both_are_damaged_it_says_so(tmp_path: Path):
    folder = folder_with(tmp_path / "run", 1, 2)
    for name in (checkpoint.NAME, checkpoint.BEFORE):
        (folder.path / name).write_bytes(b"")
    with pytest.raises(DataError, match="none before it to continue from: delete it"):
        folder.load_checkpoint()


def test_one_that_holds_something_else_is_refused(tmp_path: Path):
    folder = folder_with(tmp_path / "run", 1)
    runtime = SimpleNamespace(restore=lambda *_: None)
    journal = Journal(runtime, None, {}, folder)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="does not hold what this version continues from"):
        journal.restore()


def test_one_of_an_earlier_version_is_read_with_a_word(tmp_path: Path, caplog):
    folder = folder_with(tmp_path / "run")
    (folder.path / checkpoint.NAME).write_bytes(pack({"round": 9}, ARRAYS))
    found = folder.load_checkpoint()
    assert found is not None
    assert found[0] == {"round": 9}
    assert "earlier version" in caplog.text


def test_file_and_folder_are_on_the_disk_before_it_counts(tmp_path: Path, monkeypatch):
    folder = folder_with(tmp_path / "run", 1)
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def noted_sync(descriptor: int) -> None:
        done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def noted_replace(self: Path, target: Path) -> Path:
        done.append(f"{target.name} in place")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    folder.save_checkpoint({"round": 2}, ARRAYS)
    draft = f".checkpoint.bin.{os.getpid()}"
    assert done == [draft, f"{checkpoint.BEFORE} in place", f"{checkpoint.NAME} in place", "run"]


def test_an_error_of_the_disk_names_the_file_and_leaves_the_last_one(tmp_path: Path, monkeypatch):
    folder = folder_with(tmp_path / "run", 1)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"No space left on device: .*run/checkpoint\.bin"):
            folder.save_checkpoint({"round": 2}, ARRAYS)
    found = folder.load_checkpoint()
    assert found is not None
    assert found[0] == {"round": 1}
    assert sorted(file.name for file in folder.path.iterdir()) == [checkpoint.NAME, "spec.toml"]


@pytest.mark.parametrize("name", ["fedavg", "feddep"])
def test_a_run_with_a_damaged_checkpoint_ends_as_if_nothing_had_been(
    name: str, small_shards: Shards, tmp_path: Path, monkeypatch
):
    spec = spec_of(find_method(name), small_shards, **{"training.rounds": 4})
    whole = pipeline.run(spec, small_shards, workers=1, device="cpu")
    monkeypatch.setattr("feddep.runs.journal.CHECKPOINT_SECONDS", 0.0)
    stop = iter([False] * 4 + [True] * 9)
    folder = RunFolder.claim(tmp_path / "run", spec, resume=False)
    with pytest.raises(InterruptedRunError), folder:
        pipeline.run(spec, small_shards, workers=1, device="cpu", folder=folder,
                     stop_requested=lambda: next(stop))  # fmt: skip
    file = tmp_path / "run" / checkpoint.NAME
    file.write_bytes(file.read_bytes()[:-1])
    with RunFolder.claim(tmp_path / "run", spec, resume=True) as folder:
        found = pipeline.run(spec, small_shards, workers=1, device="cpu", folder=folder)
    assert {**found.record, "seconds": 0} == {**whole.record, "seconds": 0}
    assert all(
        np.array_equal(one.weights[name], other.weights[name])
        for one, other in zip(found.models, whole.models, strict=True)
        for name in one.weights
    )


# What a finished run holds


@pytest.mark.parametrize(
    "name", ["model.safetensors", "clients/1/generator.safetensors", "history.jsonl", "spec.toml"]
)
def test_a_finished_run_with_an_altered_file_is_not_opened(
    name: str, small_shards: Shards, tmp_path: Path
):
    spec = spec_of(find_method("feddep"), small_shards)
    path = pipeline.run(spec, small_shards, workers=1, device="cpu").save(tmp_path / "run")
    assert feddep.open_run(path).spec == spec
    content = bytearray((path / name).read_bytes())
    content[-2] ^= 1
    (path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name} is not the file that the run wrote"):
        feddep.open_run(path)


def test_asked_for_again_a_finished_run_keeps_its_spec_as_it_was_written(tmp_path: Path):
    settings = {"method": "fedavg", "training.rounds": 1, "synthetic.nodes": 150}
    execute(settings, out=tmp_path, workers=1, device="cpu")
    before = (tmp_path / "spec.toml").stat().st_mtime_ns
    execute(settings, out=tmp_path, resume=True)
    assert (tmp_path / "spec.toml").stat().st_mtime_ns == before
