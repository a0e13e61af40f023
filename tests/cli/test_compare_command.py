"""`feddep compare` and `feddep methods`."""

from pathlib import Path

import pytest
from rich.console import Console

from calls import TINY, Feddep, record


def test_compare_runs_the_methods_and_writes_a_report(feddep: Feddep):
    arguments = [
        "compare",
        *TINY,
        "--rounds",
        1,
        "--methods",
        "local, fedavg,local",
        "--out",
        "both",
    ]
    outcome = feddep(*arguments)
    assert outcome.code == 0
    report = Path("both/report.md").read_text()
    for method in ("local", "fedavg"):
        score = f"{record(f'both/{method}')['scores']['global']['test']:.4f}"
        assert score in outcome.out
        assert report.count(f"| {method} | {score} |") == 1


def test_compare_reuses_finished_runs(feddep: Feddep, monkeypatch: pytest.MonkeyPatch):
    arguments = ["compare", *TINY, "--rounds", 1, "--methods", "local,global", "--out", "both"]
    first = feddep(*arguments)
    monkeypatch.setattr("feddep.scenario.build.build", lambda _: pytest.fail("ran again"))
    assert feddep(*arguments).out == first.out


def test_compare_takes_a_preset(feddep: Feddep):
    methods = ["--methods", "local", "--preset", "paper", "--out", "both"]
    assert feddep("compare", *TINY, "--rounds", 1, *methods).code == 0
    assert "preset `paper`" in Path("both/report.md").read_text()


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


def test_methods_are_listed_with_what_leaves_a_client(feddep: Feddep):
    found = feddep("methods", "--json").json
    assert {"fedavg", "local", "global"} <= found.keys()
    assert found["fedavg"]["discloses"] == ["classifier"]
    assert found["local"]["discloses"] == []
    table = feddep("methods").out
    assert all(name in table for name in found)


def test_methods_that_know_more_or_are_reconstructed_are_marked(feddep: Feddep, monkeypatch):
    monkeypatch.setattr("feddep.cli.run.out_console", Console(width=400))
    found = feddep("methods", "--json").json
    see = {name for name, method in found.items() if method["sees_cross_edges"]}
    assert see == {"fedgnn", "fedgnn-update", "fedgraph", "oracle"}
    assert {name for name, method in found.items() if method["reconstruction"]} == {"fedgsl"}
    table = feddep("methods").out
    assert all(f" {name}† " in table for name in see)
    assert " fedgsl‡ " in table
    assert " fedavg " in table
    assert "† sees cross-client edges" in table
    assert "‡ a reconstruction" in table
