"""What FedDEP costs beyond FedAvg: its averaging rounds, and its whole run, as ratios.

Both methods run in turn, several times, with the same preset on the same machine; what counts is
the median of the ratios of neighbours in time.
"""

import json
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.memory import FEDDEP

REPEATS = 5


def measure() -> dict[str, Any]:
    """Cora, 5 clients, preset ``paper``, as many workers as cores."""
    averaging, whole, seconds = [], [], []
    for _ in range(REPEATS):
        fedavg, feddep = (_seconds(method) for method in ("fedavg", "feddep"))
        averaging.append(feddep["phases"]["averaging"] / fedavg["phases"]["averaging"])
        whole.append(feddep["total"] / fedavg["total"])
        seconds.append({"fedavg": fedavg["total"], "feddep": feddep["phases"]})
    found = {
        "averaging_ratio": median(averaging),
        "whole_ratio": median(whole),
        "averaging_ratios": averaging,
        "whole_ratios": whole,
        "seconds": seconds,
    }
    print(
        f"cora: FedDEP's averaging takes {found['averaging_ratio']:.2f} times FedAvg's, "
        f"its whole run {found['whole_ratio']:.2f} times",
        flush=True,
    )
    return found


def _seconds(method: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [FEDDEP, "run", "--method", method, "--dataset", "cora", "--clients", "5"]
        command += ["--preset", "paper", "--json", "--out", str(Path(folder) / "run")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)["seconds"]
    return found
