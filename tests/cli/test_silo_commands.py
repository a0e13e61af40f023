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
