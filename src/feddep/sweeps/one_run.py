"""``python -m feddep.sweeps.one_run``: a line of settings in, a line with the record out.

Every run is a fork of this process, so that neither its memory nor its threads remain, while
loading torch and compiled code, which takes longer than a small run, is done once. A run that fails
gives ``{"failed": reason}``, and the process waits for the next line.
"""

import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from feddep.errors import FeddepError
from feddep.runs.execute import execute
from feddep.runs.records import thin_history

_FIRST = {"method": "fedavg", "preset": "paper", "synthetic.nodes": 150, "training.rounds": 1}
"""The smallest run; it loads what was compiled."""


def main() -> None:
    """Answers until the input ends."""
    with suppress(KeyboardInterrupt):  # the process that started this one gets it as well
        outcome(_FIRST)
        for line in sys.stdin:
            sys.stdout.write(in_a_fork(json.loads(line)) + "\n")
            sys.stdout.flush()


def outcome(settings: dict[str, Any], *, history: bool = False) -> dict[str, Any]:
    """``record`` and perhaps ``history`` of one run with one worker."""
    # That a method diverges with these settings is a result, not a reason to end a sweep.
    result = execute(settings, workers=1, keep_diverged=True)
    found = {"record": result.record}
    return {**found, "history": thin_history(result.history)} if history else found


def in_a_fork(asked: dict[str, Any]) -> str:
    """The answer, as JSON in one line."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        _reply(asked, sender)
    os.close(sender)
    with os.fdopen(receiver) as file:
        answer = file.read()
    _, status = os.waitpid(child, 0)
    if status:
        code = os.waitstatus_to_exitcode(status)
        answer = json.dumps({"failed": f"its process ended with exit code {code}"})
    return answer


def _reply(asked: dict[str, Any], sender: int) -> NoReturn:
    """The fork's part; it must not return to the parent's loop."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        with os.fdopen(sender, "w") as file:
            file.write(json.dumps(_answer(asked)))
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return outcome(asked["settings"], history=asked["history"])
    except FeddepError as error:
        return {"failed": str(error)}


if __name__ == "__main__":
    main()
