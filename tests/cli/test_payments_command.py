import json
from pathlib import Path

from calls import Feddep


def test_banks_are_made_and_described(feddep: Feddep, tmp_path: Path):
    out = tmp_path / "banks"
    words = "data make payments --banks 3 --accounts 600 --rate 0.1 --typologies fan-in,cycle=2"
    facts = feddep(*words.split(), "--out", out, "--json").json
    assert facts["types"]["cycle"] > facts["types"]["fan_in"] > 0
    assert sum(facts["types"].values()) == facts["types"]["cycle"] + facts["types"]["fan_in"]
    banks = sorted(path.name for path in out.iterdir() if path.is_dir())
    assert banks == ["bank-0", "bank-1", "bank-2"]
    assert json.loads((out / "facts.json").read_text()) == facts
    again = feddep(*words.split(), "--out", out)
    assert again.code == 2
    assert "exists already" in again.err


def test_shares_that_are_no_numbers_are_refused(feddep: Feddep, tmp_path: Path):
    done = feddep("data", "make", "payments", "--out", "banks", "--typologies", "cycle=two")
    assert done.code == 2
    assert "such as fan-in,cycle=2 (got 'cycle=two')" in done.err
    assert not (tmp_path / "banks").exists()
