"""Peak memory of a process and its children: proportional set size, shared pages counted once."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

FEDDEP = str(Path(sys.executable).with_name("feddep"))


def peak_bytes(command: Sequence[str]) -> tuple[int, str]:
    """Runs a command; returns the peak of its process tree and what it printed."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(proportional_bytes(pid) for pid in family(process.pid)))
        time.sleep(0.1)
    printed = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return peak, printed


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
