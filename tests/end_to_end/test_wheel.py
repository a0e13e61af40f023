"""What ``pip install feddep`` gives, in an empty environment and an empty folder.

The wheel is installed with its dependencies and without extras, as a user would do it, which takes
some minutes and 1.5 GB where the packages are at hand.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SWEEP = """
[fixed]
"synthetic.nodes" = 150
"training.rounds" = 1
[grid]
method = ["local", "fedavg"]
"""
# A user's environment knows neither this checkout nor the data of the paper.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PYTHON", "FEDDEP", "COV", "PYTEST")) and name != "VIRTUAL_ENV"
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing of an earlier build gets into it."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "results", "tuning")
    for name in ("src", "study"):
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", "dist", ".", cwd=copy)
    (built,) = (copy / "dist").glob("feddep-*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the programs of an environment with nothing but the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    call(folder / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    yield folder / "venv/bin"
    shutil.rmtree(folder / "venv")  # pytest keeps folders for a while, and this one is large


def call(*command: object, cwd: Path) -> str:
    """What a program prints; it has to end well."""
    words = list(map(str, command))
    done = subprocess.run(
        words, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_has_the_library_with_its_files_and_nothing_of_the_study(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    assert {Path(name).parts[0].partition("-")[0] for name in names} == {"feddep"}
    assert not [name for name in names if "study" in name]
    files = ("scenario/presets.toml", "reports/page.css", "reports/page.js", "py.typed")
    assert {f"feddep/{file}" for file in files} <= set(names)


def test_it_is_the_wheel_that_is_used_without_study_and_extras(programs: Path, tmp_path: Path):
    where = call(programs / "python", "-c", "import feddep; print(feddep.__file__)", cwd=tmp_path)
    assert Path(where).is_relative_to(programs.parent)
    for module in ("feddep_study", "flwr", "ray", "torch_geometric", "pytest"):
        code = f"import importlib.util as u; print(u.find_spec({module!r}))"
        assert call(programs / "python", "-c", code, cwd=tmp_path) == "None\n"


def test_runs_are_made_compared_swept_and_reported_in_an_empty_folder(
    programs: Path, tmp_path: Path
):
    feddep = programs / "feddep"
    small = ("--rounds", 2, "--set", "synthetic.nodes=150")
    call(feddep, "run", "--rounds", 5, "--out", "first", cwd=tmp_path)
    assert call(feddep, "report", "first", cwd=tmp_path) == "first/report.html\n"
    assert "<svg" in (tmp_path / "first/report.html").read_text()
    call(feddep, "compare", "--methods", "local,fedavg", *small, "--out", "both", cwd=tmp_path)
    assert "| fedavg |" in (tmp_path / "both/report.md").read_text()
    (tmp_path / "mine.toml").write_text(SWEEP)
    assert "| fedavg |" in call(feddep, "sweep", "mine.toml", cwd=tmp_path)
    assert len((tmp_path / "results/mine.jsonl").read_text().splitlines()) == 2
