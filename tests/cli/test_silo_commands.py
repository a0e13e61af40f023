"""`feddep run --silos`: folders of tables, from files to predictions."""

from pathlib import Path

import pytest

from calls import Feddep
from feddep.scenario.build import build
from feddep.scenario.spec import RunSpec


def test_the_command_takes_folders_and_predicts_for_them(feddep: Feddep, banks):
    run = ["run", "--silos", *banks, "--method", "fedavg", "--rounds", 2, "--out", "run"]
    done = feddep(*run)
    assert done.code == 0, done.err
    spec = RunSpec.read(Path("run/spec.toml"))
    assert (spec.dataset, spec.silos) == ("silos", tuple(map(str, banks)))
    assert build(spec).names == ("north", "south")
    done = feddep(*run, "--resume")
    assert done.code == 0, done.err
    done = feddep("predict", "run", "--data", banks[1], "--out", "p.csv")
    assert done.code == 0, done.err
    assert "as those of silo south" in done.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--silos", "north", "--dataset", "cora"], "silos are the data"),
        (["--silos", "north", "--clients", "3"], "silos are the data"),
        (["north"], "folders of silos follow --silos"),
        (["--silos", "missing"], "holds neither a graph"),
    ],
)
def test_the_command_says_what_is_wrong(feddep: Feddep, banks, arguments, told):
    found = [banks[0] if word == "north" else word for word in arguments]
    done = feddep("run", *found, "--method", "fedavg", "--out", "run")
    assert done.code == 2
    assert told in done.err
    assert not Path("run").exists()


def test_silos_agree_on_scales_and_import_by_them(feddep: Feddep, banks):
    for name, bank in zip(("n", "s"), banks, strict=True):
        assert feddep("schema", "make", bank, "--out", f"{name}.json").code == 0
    assert feddep("schema", "join", "n.json", "s.json", "--out", "agreed.json").code == 0
    for name, bank in zip(("n", "s"), banks, strict=True):
        done = feddep("schema", "sums", bank, "--schema", "agreed.json", "--out", f"{name}.sums")
        assert done.code == 0, done.err
        assert "age: 24 cells" in done.out
    done = feddep("schema", "scale", "agreed.json", "n.sums", "s.sums", "--out", "scaled.json")
    assert done.code == 0, done.err
    assert "age: mean 35, deviation 15" in done.out
    done = feddep("import", banks[0], "--schema", "scaled.json", "--out", "graph")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--bound", "age=0:1"], "--bound is for noise"),
        (["--epsilon", "1", "--bound", "age"], "expected --bound name=lowest:highest"),
        (["--epsilon", "1"], "none for 'age'"),
    ],
)
def test_sums_that_cannot_be_made_are_said_in_a_line(feddep: Feddep, banks, flags, told):
    assert feddep("schema", "make", banks[0], "--out", "n.json").code == 0
    done = feddep("schema", "sums", banks[0], "--schema", "n.json", *flags)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert told in done.err
    assert not Path("sums.json").exists()
