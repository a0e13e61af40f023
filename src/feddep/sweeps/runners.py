"""Processes that carry out a sweep's runs, each one run at a time."""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from subprocess import PIPE, Popen
from typing import IO, Any, cast

from feddep.errors import RuntimeFailureError


class FailedRunError(RuntimeFailureError):
    """One run failed; others may not."""


def run_apart(settings: Mapping[str, Any], *, history: bool) -> dict[str, Any]:
    """``record`` and perhaps ``history`` of one run, in a fork of a process with torch loaded.

    Raises:
        FailedRunError: the run failed; it says which and why.
        RuntimeFailureError: the process that carries out runs has ended.
    """
    try:
        runner = _IDLE.get_nowait()
    except Empty:
        # -P: otherwise a module in the current folder could shadow one of the library's.
        command = [sys.executable, "-P", "-m", "feddep.sweeps.one_run"]
        runner = Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=_KEEP_MEMORY | os.environ)
    answer = _answer(runner, json.dumps({"settings": settings, "history": history}))
    if not answer:
        raise RuntimeFailureError(
            f"the process that carries out runs ended with exit code {runner.wait()}, "
            f"at the run {json.dumps(settings)}; see above"
        )
    _IDLE.put(runner)
    output: dict[str, Any] = json.loads(answer)
    if "failed" in output:
        raise FailedRunError(f"the run {json.dumps(settings)} failed: {output['failed']}")
    return output


def _answer(runner: "Popen[str]", question: str) -> str:
    """A line; empty if the process has ended."""
    stdin, stdout = cast(IO[str], runner.stdin), cast(IO[str], runner.stdout)
    with suppress(BrokenPipeError):
        stdin.write(question + "\n")
        stdin.flush()
    return stdout.readline()


_KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000"}
"""For the C library: large arrays come and go in every step, and returning their memory to the
system only to get it back, page by page, takes up to a quarter of a run's time."""

_IDLE: "SimpleQueue[Popen[str]]" = SimpleQueue()
"""Processes that wait for the next run; they end when this process does, as their input closes."""
