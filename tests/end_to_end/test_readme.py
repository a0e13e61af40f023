"""The README is executed: commands as they stand, `make demo` on small banks."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if not kind for line in text.splitlines() if line]
PROGRAMS = [text for kind, text in BLOCKS if kind == "python"]
BIN = Path(sys.executable).parent


def run(command, folder):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_this_environment(line):
    words = shlex.split(line)
    assert words[0] == "feddep", f"an unknown kind of command in the README: {line}"
    return [str(BIN / "feddep"), *words[1:]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


def test_the_readme_s_commands_run_in_order(folder):
    lines = [line for line in COMMANDS if not line.startswith("make ")]
    assert len(lines) >= 3
    for line in lines:
        assert run(in_this_environment(line), folder).strip(), f"{line} printed nothing"


def test_the_demo_says_what_the_banks_gained(folder):
    assert "make demo" in COMMANDS
    makefile = (ROOT / "Makefile").read_text()
    (recipe,) = re.findall(r"^demo: setup\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)
    lines = [line.strip() for line in recipe.splitlines() if "$(BIN)/" in line]
    assert len(lines) == 4
    for line in lines:
        small = line.removeprefix("$(BIN)/").replace("--accounts 10000", "--accounts 800")
        printed = run(in_this_environment(small.replace("--rounds 50", "--rounds 2")), folder)
    assert all(way in printed for way in ("local", "fedavg", "trees"))
    assert (folder / "runs/demo/run/value.html").exists()


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_readme_s_python_runs(program, folder):
    run([sys.executable, "-c", program], folder)
    assert (folder / "runs/from-python/record.json").exists()
