"""The command line as a user starts it: as a process, in a terminal."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from calls import RUN, TINY, history, record, with_three_training_nodes
from feddep.graph.folder import write_graph
from feddep.graph.graph import Graph

COMMAND = [sys.executable, "-c", "from feddep.cli.main import main; main()"]


def test_as_a_process_json_is_all_there_is_on_standard_output(tmp_path: Path):
    command = [*COMMAND, *RUN, "--json", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads((tmp_path / "run" / "record.json").read_bytes())
    assert done.stdout.startswith(b"{\n")
    assert done.stdout.endswith(b"}\n")
    assert done.stderr == b""


def test_as_a_process_bad_input_and_a_warning_are_sentences_on_standard_error(
    tmp_path: Path, small_graph: Graph
):
    write_graph(with_three_training_nodes(small_graph), tmp_path / "mine")
    command = [*COMMAND, *RUN, "--dataset", "mine", "--clients", "5", "--device", "tpu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    warning, error = done.stderr.split("error:")
    assert "weight 0" in " ".join(warning.split())
    assert error.strip() == "device must be auto, cpu or cuda (got 'tpu')"


def test_as_a_process_ctrl_c_ends_with_130_and_resume_gives_the_same_result(
    tmp_path: Path,
):
    command = [*COMMAND, "run", *TINY, "--method", "fedavg", "--rounds", "100"]
    seen = interrupt_when_it_shows(
        b"validation 0.", [*command, "--out", "run"], tmp_path, expected_code=130
    )
    assert b"--resume" in seen
    assert 0 < len(history(tmp_path / "run")) < 100
    for options in (["run", "--resume"], ["undisturbed"]):
        subprocess.run([*command, "--out", *options], cwd=tmp_path, check=True)
    resumed, undisturbed = tmp_path / "run", tmp_path / "undisturbed"
    assert record(resumed) == record(undisturbed)
    assert history(resumed) == history(undisturbed)


def interrupt_when_it_shows(
    text: bytes, command: list[str], folder: Path, expected_code: int
) -> bytes:
    """Runs a command in a terminal and presses Ctrl-C as soon as ``text`` appears there."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=theirs, env=_terminal()
        )
        os.close(theirs)
        seen, pressed = b"", False
        while piece := _read(screen):
            seen += piece
            if text in seen and not pressed:
                process.send_signal(signal.SIGINT)
                pressed = True
    assert process.wait() == expected_code
    return seen


def _terminal() -> dict[str, str]:
    return os.environ | {"TERM": "xterm", "COLUMNS": "120"}


def _read(screen: Any) -> bytes:
    try:
        found: bytes = screen.read(4096)
    except OSError:  # so a terminal says that its last user is gone
        return b""
    return found


def test_as_a_process_it_tells_the_shell_how_to_complete(tmp_path: Path):
    program = tmp_path / "feddep"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o700)
    command = [program, "--show-completion", "bash"]
    ask = f"{shlex.join(map(str, command))}; exit $?"  # so that bash stays the parent
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_FEDDEP_COMPLETE=complete_bash" in done.stdout
