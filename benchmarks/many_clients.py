"""FedDEP with up to a thousand clients on one graph, in one process: memory, and what it stores."""

import json
import tempfile
from pathlib import Path

from benchmarks.memory import FEDDEP, available, measure_peak

NODES, CLIENTS = 20_000, (100, 400, 1000)
_SETTINGS = (
    f"synthetic.nodes={NODES}",
    "partition.kind=random",
    "training.rounds=2",
    "embedding.epochs=1",
    "generator.epochs=1",
)


def measure() -> list[dict[str, object]]:
    if not available():
        print("not measured: this system does not tell proportional set sizes")
        return []
    rows: list[dict[str, object]] = []
    for method, clients in [("fedavg", CLIENTS[-1]), *(("feddep", number) for number in CLIENTS)]:
        rows.append(one_run(method, clients))
        print(json.dumps(rows[-1]), flush=True)
    return rows


def one_run(method: str, clients: int) -> dict[str, object]:
    """Peak memory of a run of two rounds, and what it leaves on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        command = [FEDDEP, "run", "--method", method, "--clients", str(clients)]
        command += ["--workers", "1", "--json", "--out", f"{folder}/run"]
        for setting in _SETTINGS:
            command += ["--set", setting]
        peak = measure_peak(command)
        files = [file for file in Path(folder).rglob("*") if file.is_file()]
        stored = sum(file.stat().st_size for file in files)
    record = json.loads(peak.printed)
    return {
        "method": method,
        "clients": clients,
        "nodes": NODES,
        "peak_mb": peak.whole / 1e6,
        "stored_mb": stored / 1e6,
        "seconds": sum(record["seconds"]["phases"].values()),
    }
