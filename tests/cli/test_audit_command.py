"""`feddep audit`: what it prints and where it leaves its files."""

import json
from pathlib import Path

import pytest

from calls import Feddep, Outcome

AUDIT = ["audit", "--method", "fedavg", "--rounds", "1"]
SMALL = ["--set", "synthetic.nodes=150", "--set", "model.hidden=8"]


def test_json_and_files(feddep: Feddep):
    done = feddep(*AUDIT, *SMALL, "--canaries", 20, "--runs", 2, "--out", "out", "--json")
    assert done.code == 0
    assert done.json == json.loads(Path("out/audit.json").read_text())
    assert done.json["canaries"] == 40
    assert Path("out/audit.png").exists()


@pytest.mark.parametrize("flag", ["--mechanism", "--privacy"])
def test_table_and_sentences(feddep: Feddep, flag: str):
    done = feddep(*AUDIT, *SMALL, flag, "randomized-response", "--epsilon", 4, "--plant-leak")
    assert done.code == 0
    (folder,) = Path("runs").glob("audit-*")
    found = json.loads((folder / "audit.json").read_text())
    assert found["planted_leak"]
    assert found["mechanism"] == "randomised-response"
    assert found["claim"]["epsilon"] == 4
    assert f"picture: {folder}/audit.png" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["--share", 0],
        ["--share", 1.5],
        ["--canaries", 0],
        ["--runs", 0],
        ["--crafted", "nice"],
    ],
)
def test_bad_input_leaves_nothing_behind(feddep: Feddep, words: list[object]):
    done: Outcome = feddep(*AUDIT, *SMALL, *words, "--out", "out")
    assert (done.code, done.out) == (2, "")
    assert list(Path().iterdir()) == []
