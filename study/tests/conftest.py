"""A small set of sweeps with made-up records, and the report about them."""

import shutil
from pathlib import Path

import pytest
from feddep_study.report import write_report
from pretend import SWEEPS, fill

ROOT = Path(__file__).parents[2]
NOT_RUN = ("quota",)


@pytest.fixture(scope="session")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experiments")
    shutil.copy(ROOT / "experiments/paper.toml", folder)
    for name, text in SWEEPS.items():
        (folder / f"{name}.toml").write_text(text)
        if name not in NOT_RUN:
            fill(folder / f"{name}.toml")
    return folder


@pytest.fixture(scope="session")
def out(experiments: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(experiments, folder)
    return folder
