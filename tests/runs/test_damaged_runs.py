"""A file of a run that is damaged or of another run is named; no wrong model is ever opened."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import feddep
from feddep.algorithms import find_method
from feddep.errors import DataError
from feddep.graph.shard import Shards
from feddep.runs import pipeline
from feddep.runs.weight_files import read_arrays
from small_runs import spec_of

MODEL, GENERATOR, MENDING = (
    "model.safetensors",
    "clients/1/generator.safetensors",
    "clients/1/mending.safetensors",
)
Arrays = dict[str, np.ndarray]


def stored(name: str, shards: Shards, folder: Path) -> Path:
    spec = spec_of(find_method(name), shards)
    return pipeline.run(spec, shards, workers=1, device="cpu").save(folder / name)


@pytest.fixture(scope="module")
def runs(small_shards: Shards, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("feddep", "local", "fedsage", "oracle", "fedavg"):
        stored(name, small_shards, folder)
    return folder


@pytest.fixture
def copy(runs: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A run without the sums of its files, so that what is wrong is noticed by what it is."""
    without = shutil.ignore_patterns("SHA256SUMS")
    return lambda name: Path(shutil.copytree(runs / name, tmp_path / name, ignore=without))


def changed(file: Path, change: Callable[[Arrays], object]) -> None:
    """Changes a file's arrays and leaves the words about them."""
    with safe_open(file, framework="numpy") as opened:
        about = opened.metadata()
    arrays = load_file(file)
    change(arrays)
    save_file(arrays, file, about)


def refuses(folder: Path, *words: str) -> None:
    with pytest.raises(DataError) as refused:
        feddep.open_run(folder)
    for word in words:
        assert word in str(refused.value)
    assert "\n" not in str(refused.value)


# Bytes


@pytest.mark.parametrize("file", [MODEL, GENERATOR, MENDING])
@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_a_file_that_was_cut(copy, file: str, keep: int):
    folder = copy("feddep")
    whole = (folder / file).read_bytes()
    (folder / file).write_bytes(whole[:keep])
    refuses(folder, str(folder / file), "damaged")


@pytest.mark.parametrize("content", [b"no safetensors", b"\xff" * 200, b"{}"])
def test_a_file_of_another_kind(copy, content: bytes):
    folder = copy("feddep")
    (folder / MODEL).write_bytes(content)
    refuses(folder, MODEL, "damaged or not a safetensors file")


def test_a_folder_in_a_file_s_place(copy):
    folder = copy("feddep")
    (folder / MODEL).unlink()
    (folder / MODEL).mkdir()
    refuses(folder, MODEL)


def test_a_model_that_is_missing(copy):
    folder = copy("feddep")
    (folder / MODEL).unlink()
    refuses(folder, f"{MODEL} is missing")


# Weights


@pytest.mark.parametrize("file", [MODEL, GENERATOR])
def test_weights_of_other_shapes(copy, file: str):
    folder = copy("feddep")
    name = sorted(load_file(folder / file))[0]
    changed(folder / file, lambda arrays: arrays.update({name: np.zeros((2, 2, 2), np.float32)}))
    refuses(folder, file, f"expected {name} as float32", "(2, 2, 2)")


@pytest.mark.parametrize("file", [MODEL, GENERATOR])
def test_weights_of_another_type(copy, file: str):
    folder = copy("feddep")
    name = sorted(load_file(folder / file))[0]
    changed(folder / file, lambda arrays: arrays.update({name: arrays[name].astype(np.float64)}))
    refuses(folder, file, name, "float64")


@pytest.mark.parametrize("file", [MODEL, GENERATOR])
def test_a_part_that_is_missing(copy, file: str):
    folder = copy("feddep")
    name = sorted(load_file(folder / file))[0]
    changed(folder / file, lambda arrays: arrays.pop(name))
    refuses(folder, file, f"lacks {name}")


@pytest.mark.parametrize("file", [MODEL, GENERATOR])
def test_a_part_too_many(copy, file: str):
    folder = copy("feddep")
    changed(folder / file, lambda arrays: arrays.update(more=np.zeros(1, np.float32)))
    refuses(folder, file, "holds more, which the run's spec does not know")


def test_many_strange_parts_are_not_all_named(copy):
    folder = copy("feddep")
    more = {f"part{i}": np.zeros(1, np.float32) for i in range(9)}
    changed(folder / MODEL, lambda arrays: arrays.update(more))
    refuses(folder, "part0, part1, part2 and 6 more")


def test_the_model_of_another_method(copy, runs: Path):
    folder = copy("feddep")
    shutil.copy(runs / "fedavg" / MODEL, folder / MODEL)
    refuses(folder, MODEL, "lacks")


def test_one_classifier_where_each_client_has_its_own(copy, runs: Path):
    folder = copy("local")
    shutil.copy(runs / "fedavg" / MODEL, folder / MODEL)
    refuses(folder, MODEL, "local trains one for each of 3 clients")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda a: [a.pop(n) for n in list(a) if n.startswith("client-2/")], "lacks"),
        (lambda a: [a.pop(n) for n in list(a) if n.startswith("client-0/")], "holds 1 classifier"),
        (lambda a: a.update({"client-3/bias": a["client-0/bias"]}), "client-3/bias"),
        (lambda a: a.pop("client-1/bias"), "lacks bias"),
    ],
)
def test_clients_classifiers_that_are_not_those_of_the_run(copy, change, says: str):
    folder = copy("local")
    changed(folder / MODEL, change)
    refuses(folder, MODEL, says)


def test_a_spec_of_another_run(copy):
    folder = copy("feddep")
    text = (folder / "spec.toml").read_text()
    (folder / "spec.toml").write_text(text.replace("hidden = 8", "hidden = 9"))
    refuses(folder, MODEL, "9")


# How subgraphs were mended


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        (
            "feddep",
            lambda a: a.pop("missing_embeddings"),
            "should hold counts, missing_embeddings",
        ),
        ("oracle", lambda a: a.clear(), "should hold counts, missing_embeddings (got nothing)"),
        (
            "feddep",
            lambda a: a.update(other=np.zeros(1)),
            "counts, missing_embeddings, other)",
        ),
        ("feddep", lambda a: a.update(counts=np.zeros((4, 1), np.float32)), "expected float32 (n)"),
        (
            "feddep",
            lambda a: a.update(missing_embeddings=np.zeros((4, 99), np.float32)),
            "(4, 99), expected float32 (n, 6)",
        ),
        ("oracle", lambda a: a.update(missing_embeddings=np.zeros((4, 6))), "float64"),
        ("fedsage", lambda a: a.update({"added/links": np.zeros((3, 2))}), "expected int64 (L, 2)"),
        ("fedsage", lambda a: a["added/links"].__setitem__((0, 1), 10**6), "beyond"),
        ("fedsage", lambda a: a["added/links"].__setitem__((0, 0), -1), "beyond"),
        ("fedsage", lambda a: a["added/indices"].__setitem__(0, 60), "columns from 0 to 59"),
        ("fedsage", lambda a: a["added/indptr"].__setitem__(1, 10**6), "never fall"),
        ("fedsage", lambda a: a.update({"added/data": a["added/data"][1:]}), "values"),
        ("fedsage", lambda a: a.update({"added/indptr": np.zeros(0, np.int64)}), "not be empty"),
    ],
)
def test_what_no_client_could_have_kept(copy, name: str, change, says: str):
    folder = copy(name)
    changed(folder / MENDING, change)
    refuses(folder, MENDING, says)


def test_a_file_that_does_not_say_whose_it_is(copy):
    folder = copy("feddep")
    save_file(load_file(folder / MENDING), folder / MENDING)
    refuses(folder, MENDING, "does not say whose it is")


def test_embeddings_of_other_nodes_are_found_when_they_are_used(copy, small_shards: Shards):
    folder = copy("feddep")
    changed(folder / MENDING, lambda a: a.update(missing_embeddings=a["missing_embeddings"][1:]))
    with pytest.raises(feddep.InputError, match="is from another run"):
        feddep.open_run(folder).predict(small_shards[1], client=1)


# The rest


@pytest.mark.parametrize("file", ["history.jsonl", "privacy_events.json", "record.json"])
@pytest.mark.parametrize("content", [b"{", b"[1]\n", b"\xff\xfe", b'["a", {"event": "none"}]'])
def test_text_that_is_no_part_of_a_run(copy, file: str, content: bytes):
    folder = copy("fedavg")
    (folder / file).write_bytes(content)
    refuses(folder, file.split(".")[0].split("_")[-1])


def test_sizes_that_no_record_has_are_taken_from_the_model(copy):
    folder = copy("feddep")
    record = json.loads((folder / "record.json").read_text())
    del record["data"]
    (folder / "record.json").write_text(json.dumps(record))
    assert feddep.open_run(folder).model.spec.features == 60


def test_a_model_without_any_size_is_refused(copy):
    folder = copy("feddep")
    record = json.loads((folder / "record.json").read_text())
    del record["data"]
    (folder / "record.json").write_text(json.dumps(record))
    changed(folder / MODEL, lambda arrays: arrays.pop("features"))
    refuses(folder, "how many features and classes")


def test_a_folder_without_a_run(tmp_path: Path):
    refuses(tmp_path, "cannot read the record")
    refuses(tmp_path / "none", "no such file")


def test_arrays_are_read_with_what_was_said_about_them(tmp_path: Path):
    save_file({"a": np.zeros((0, 3), np.int64)}, tmp_path / "x", {"graph": "1"})
    arrays, about = read_arrays(tmp_path / "x")
    assert arrays["a"].shape == (0, 3)
    assert about == {"graph": "1"}
