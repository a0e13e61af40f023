"""`feddep audit`: what it prints and where it leaves its files."""

import json
import sys

import pytest

from feddep.cli import main as cli

TINY = ["--set", "synthetic.nodes=150", "--set", "model.hidden=8", "--rounds", "1"]


def call(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["feddep", "audit", "--method", "fedavg", *TINY, *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, capsys.readouterr()


def test_json_and_files(monkeypatch, capsys, tmp_path):
    out = tmp_path / "out"
    code, printed = call(
        monkeypatch, capsys, "--canaries", "20", "--runs", "2", "--out", str(out), "--json"
    )
    assert code == 0
    found = json.loads(printed.out)
    assert found == json.loads((out / "audit.json").read_text())
    assert found["canaries"] == 40
    assert (out / "audit.png").exists()


def test_table_and_sentences(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = ["--privacy", "randomised-response", "--epsilon", "4", "--plant-leak"]
    code, _ = call(monkeypatch, capsys, *words)
    assert code == 0
    (folder,) = (tmp_path / "runs").glob("audit-*")
    found = json.loads((folder / "audit.json").read_text())
    assert found["planted_leak"]
    assert found["claim"]["epsilon"] == 4


@pytest.mark.parametrize(
    "words",
    [["--share", "0"], ["--share", "1.5"], ["--canaries", "0"], ["--runs", "0"]],
)
def test_bad_input_leaves_nothing_behind(monkeypatch, capsys, tmp_path, words):
    code, _ = call(monkeypatch, capsys, *words, "--out", str(tmp_path / "out"))
    assert code == 2
    assert not (tmp_path / "out").exists()
