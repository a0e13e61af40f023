"""A small set of sweeps with made-up records, and the report about them."""

import shutil
from pathlib import Path

import pytest

from feddep_study.report import write_report
from feddep_study.source import STUDY
from made_up_records import SWEEPS, fill

NOT_RUN = ("quota",)


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    shutil.copy(STUDY / "paper.toml", folder)
    (folder / "declarations").mkdir()
    for name, text in SWEEPS.items():
        (folder / f"declarations/{name}.toml").write_text(text)
        if name not in NOT_RUN:
            fill(folder, name)
    return folder


@pytest.fixture(scope="session")
def out(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(study, folder)
    return folder
