"""Records: what they say about a run, and how they are stored."""

import json
import platform
from pathlib import Path

import pytest

from feddep.errors import DataError
from feddep.runs import records
from feddep.runs.files import read_record, write_atomically
from feddep.runs.records import make_record, sizes_of, versions, without_times
from feddep.scenario.spec import RunSpec


def entry(number: int, test: float, val: float) -> dict[str, object]:
    return {
        "round": number,
        "loss": 1 / number,
        "silo": {"test": test / 2, "val": val / 2},
        "global": {"test": test, "val": val},
        "seconds": float(number),
    }


def record_of(best: int = 2, **settings: object):
    return make_record(
        RunSpec().with_settings({key.replace("__", "."): v for key, v in settings.items()}),
        split=settings.get("split__kind", "stratified"),
        data={"nodes": 5, "features": 2},
        history=[entry(1, 0.2, 0.4), entry(2, 0.6, 0.9), entry(3, 0.8, 0.7)],
        best=best,
        privacy={"mechanism": "none", "verdict": "none"},
        seconds={"total": 3.0, "phases": {"averaging": 3.0}},
        traffic={
            "prototypes": {"up_bytes": 10, "down_bytes": 0},
            "averaging": {"up_bytes": 5, "down_bytes": 7},
            "silent": {"up_bytes": 0, "down_bytes": 0},
        },
    )


# Content


def test_a_record_says_what_was_run():
    record = record_of(
        method="local",
        dataset="cora",
        seed=4,
        partition__clients=7,
        partition__kind="random",
        split__kind="quota",
        training__rounds=3,
    )
    found = {
        key: record[key]
        for key in ("method", "dataset", "seed", "clients", "partition", "split", "rounds")
    }
    assert found == {
        "method": "local",
        "dataset": "cora",
        "seed": 4,
        "clients": 7,
        "partition": "random",
        "split": "quota",
        "rounds": 3,
    }
    assert record["preset"] == "tuned"


def test_a_record_keeps_the_preset_that_was_asked_for():
    assert record_of(preset="paper")["preset"] == "paper"


def test_scores_are_those_of_the_best_round_and_test_last_of_the_last():
    record = record_of(best=2)
    assert record["best_round"] == 2
    assert record["scores"] == {
        "global": {"test": 0.6, "val": 0.9, "test_last": 0.8},
        "silo": {"test": 0.3, "val": 0.45},
    }


def test_traffic_is_summed_over_phases_and_lists_silent_ones():
    assert record_of()["traffic"] == {
        "up_bytes": 15,
        "down_bytes": 7,
        "phases": {
            "prototypes": {"up_bytes": 10, "down_bytes": 0},
            "averaging": {"up_bytes": 5, "down_bytes": 7},
            "silent": {"up_bytes": 0, "down_bytes": 0},
        },
    }


def test_sizes_tell_how_large_the_data_are_and_what_is_lost(small_shards):
    graph, found = small_shards.graph, sizes_of(small_shards)
    assert (found["nodes"], found["edges"]) == (graph.nodes, graph.edges)
    assert found["lost_share"] == len(small_shards.lost_edges()) / graph.edges
    assert all(type(value) in (int, float) for value in found.values())


def test_a_record_is_plain_json():
    record = record_of()
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_versions_name_what_a_result_depends_on():
    found = versions()
    packages = {"python", "feddep", "torch", "numpy", "scipy", "numba", "igraph"}
    assert set(found) == packages | {"processor"}
    assert "unknown" not in found.values()


@pytest.mark.parametrize(
    ("loaded", "told"),
    [
        ([{"architecture": "Zen"}, {"architecture": "Zen"}, {"prefix": "libgomp"}], "Zen"),
        ([{"prefix": "libgomp"}], platform.machine()),
    ],
)
def test_a_record_tells_what_blas_takes_the_processor_for(monkeypatch, loaded, told):
    monkeypatch.setattr(records, "threadpool_info", lambda: loaded)
    assert versions()["processor"] == told


def test_without_times_only_the_times_are_gone():
    record = record_of()
    rest = without_times(record)
    assert set(record) - set(rest) == {"seconds"}
    assert all(rest[key] == record[key] for key in rest)


# Reading


def test_a_record_is_read_from_its_file_or_its_folder(tmp_path: Path):
    record = record_of()
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert read_record(tmp_path) == read_record(tmp_path / "record.json") == record


@pytest.mark.parametrize(
    "content", [b"", b'{"scores": ', b"[]", b"{}", b'"scores"', b"\xff\xfe\x00"]
)
def test_what_is_no_record_is_refused_by_name(tmp_path: Path, content: bytes):
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(DataError, match=r"record\.json"):
        read_record(tmp_path)


def test_a_missing_record_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"cannot read the record .*absent\.json"):
        read_record(tmp_path / "absent.json")


# Writing


@pytest.mark.parametrize("content", ["größer\n", b"\x00\xff"])
def test_a_file_is_written_as_given_and_nothing_else(tmp_path: Path, content: str | bytes):
    write_atomically(tmp_path / "file", content)
    expected = content.encode() if isinstance(content, str) else content
    assert (tmp_path / "file").read_bytes() == expected
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_who_reads_the_old_file_meanwhile_sees_all_of_it(tmp_path: Path):
    write_atomically(tmp_path / "file", "old")
    with (tmp_path / "file").open() as reader:
        write_atomically(tmp_path / "file", "new")
        assert reader.read() == "old"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_atomically(tmp_path / "file", "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "file", "new content")
    assert (tmp_path / "file").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
