"""Failures and Ctrl-C: exit codes, what is said, and what a stopped run leaves to be resumed."""

import signal
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import load_file

from calls import FILES, RUN, TINY, Feddep, history, interrupt_in, record
from feddep.errors import RuntimeFailureError


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeFailureError("the worker ended"), 1, "error: the worker ended"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (MemoryError(), 1, "error: MemoryError"),
        (KeyError("weights"), 1, "KeyError: 'weights'\nThis should not happen"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_a_failure_is_one_sentence_and_an_exit_code(
    feddep: Feddep,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    said: str,
):
    monkeypatch.setattr("feddep.runs.pipeline.run", Mock(side_effect=error))
    outcome = feddep(*RUN, "--json", "--out", "run")
    assert outcome.code == code
    assert outcome.out == ""
    assert said in outcome.err
    assert "Traceback" not in outcome.err
    assert not Path("run").exists(), "there is nothing to resume"


def test_with_feddep_debug_an_unexpected_error_is_raised(
    feddep: Feddep, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("feddep.runs.pipeline.run", Mock(side_effect=KeyError("weights")))
    monkeypatch.setenv("FEDDEP_DEBUG", "1")
    with pytest.raises(KeyError):
        feddep(*RUN)


BROKEN_METHOD = """\
from feddep.method import Averaging, Method

class Broken(Averaging):
    def serve(self, spec, ask, state):
        return {}["size"]

    def rounds(self, spec):
        return super().rounds({spec})

METHOD = Method(name="broken", summary="It fails.", phases=(Broken(),))
"""


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ("spec", "line 5, in serve: KeyError: 'size'\n"),
        ("'spec'", "line 8, in rounds: AttributeError: "),  # raised in what the method calls
    ],
)
def test_an_error_in_a_method_of_one_s_own_is_told_with_its_place(
    feddep: Feddep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: str, said: str
):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_method", raising=False)
    Path("broken_method.py").write_text(BROKEN_METHOD.replace("{spec}", rounds))
    outcome = feddep("run", *TINY, "--method", "broken_method:METHOD", "--out", "run")
    assert outcome.code == 1
    assert outcome.err.startswith(f"error: broken_method.py, {said}")
    assert "should not happen" not in outcome.err
    assert "FEDDEP_DEBUG" in outcome.err


# Ctrl-C


@pytest.mark.parametrize("method", ["fedavg", "local"])
def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_result(
    feddep: Feddep, monkeypatch: pytest.MonkeyPatch, method: str
):
    command = ["run", *TINY, "--rounds", 4, "--method", method]
    feddep(*command, "--out", "undisturbed")
    with monkeypatch.context() as patch:
        interrupt_in(patch, round_=2)
        outcome = feddep(*command, "--json", "--out", "run")
    assert outcome.code == 130
    assert outcome.out == ""
    assert "--resume" in outcome.err
    assert not Path("run/record.json").exists()
    assert Path("run/checkpoint.bin").exists()

    assert feddep(*command, "--out", "run", "--resume").code == 0
    assert record("run") == record("undisturbed")
    assert history("run") == history("undisturbed")
    assert {file.name for file in Path("run").iterdir()} == FILES
    one, other = (load_file(f"{run}/model.safetensors") for run in ("run", "undisturbed"))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_second_ctrl_c_stops_at_once(feddep: Feddep, monkeypatch: pytest.MonkeyPatch):
    interrupt_in(monkeypatch, round_=1, times=2)
    assert feddep(*RUN, "--out", "run").code == 130
    assert not Path("run").exists(), "it did not even wait for a checkpoint"


def test_after_a_run_ctrl_c_is_what_it_was_before(feddep: Feddep):
    before = signal.getsignal(signal.SIGINT)
    feddep(*RUN)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_damaged_checkpoint_is_named(feddep: Feddep, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        interrupt_in(patch, round_=1)
        feddep(*RUN, "--out", "run")
    Path("run/checkpoint.bin").write_bytes(b"x" * 20)
    outcome = feddep(*RUN, "--out", "run", "--resume")
    assert outcome.code == 2
    assert "run/checkpoint.bin is damaged" in outcome.err
    assert "delete it and start again" in outcome.err
