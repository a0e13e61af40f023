"""The commands of docs/deployment.md, as they stand there."""

import os
import re
import shlex
import subprocess
from pathlib import Path

from cluster import FEDDEP, Program

DOCUMENT = Path(__file__).parents[3] / "docs" / "deployment.md"


def commands() -> list[str]:
    """One for each line of the blocks, but a line that begins a text goes to the text's end."""
    blocks = re.findall(r"^```sh\n(.*?)^```", DOCUMENT.read_text(), flags=re.M | re.S)
    text = "".join(blocks)
    return re.findall(r"^[^\n]*<<END\n.*?^END\n|^[^\n]+\n", text, flags=re.M | re.S)


def test_the_walk_through_with_two_silos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(FEDDEP).parent}{os.pathsep}{os.environ['PATH']}")
    going = []
    try:
        for number, command in enumerate(commands()):
            line = command.strip()
            if line.endswith("&"):
                program = Program(line, tmp_path / f"{number}.log", *shlex.split(line[:-1]))
                program.wait_until("is ready")
                going.append(program)
                continue
            done = subprocess.run(
                line, shell=True, capture_output=True, text=True, check=False, timeout=600
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    finally:
        for program in going:
            program.kill()
    assert len(going) == 3
    assert (tmp_path / "run" / "record.json").exists()
