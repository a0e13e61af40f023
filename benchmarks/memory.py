"""Peak memory of a process and its children: proportional set size, shared pages counted once."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FEDDEP = str(Path(sys.executable).with_name("feddep"))


@dataclass(frozen=True)
class Peak:
    """Peak memory of a command, in bytes.

    Attributes:
        whole: of the whole command.
        federated: while it had worker processes, i.e. from the start of the federation on.
        printed: what it wrote to standard output.
    """

    whole: int
    federated: int
    printed: str


def measure_peak(command: Sequence[str]) -> Peak:
    """Runs a command and watches its process tree."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    whole = federated = 0
    while process.poll() is None:
        members = family(process.pid)
        now = sum(proportional_bytes(pid) for pid in members)
        whole = max(whole, now)
        if len(members) > 1:
            federated = max(federated, now)
        time.sleep(0.1)
    printed = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Peak(whole, federated, printed)


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found += family(int(child))
        except OSError:
            continue
    return found


def proportional_bytes(pid: int) -> int:
    """Pss of one process; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def available() -> bool:
    """Whether this system tells proportional set sizes."""
    return Path(f"/proc/{os.getpid()}/smaps_rollup").exists()
