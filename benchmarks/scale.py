"""A million nodes: one FedAvg round over ten clients, its speed and its memory.

Memory is the peak of all processes together, less that of the same command on a graph of two
hundred nodes, as a multiple of the graph's raw arrays.
"""

import json
import sys
import tempfile

from benchmarks.memory import FEDDEP, available, peak_bytes

NODES, MEAN_DEGREE, CLIENTS = 1_000_000, 20, 10


def measure() -> dict[str, object]:
    if not available():
        print("not measured: this system does not tell proportional set sizes")
        return {}
    empty, _ = one_round(nodes=200)
    peak, record = one_round(nodes=NODES)
    raw = raw_bytes()
    training_nodes = round(0.6 * NODES)
    seconds = record["seconds"]["phases"]["averaging"]
    row = {
        "nodes": NODES,
        "edges": NODES * MEAN_DEGREE // 2,
        "clients": CLIENTS,
        "seconds": seconds,
        "training_nodes_per_second": training_nodes / seconds,
        "loading_seconds": record["seconds"]["loading"],
        "peak_mb": peak / 1e6,
        "empty_run_mb": empty / 1e6,
        "raw_arrays_mb": raw / 1e6,
        "memory_ratio": (peak - empty) / raw,
    }
    print(json.dumps(row, indent=2), flush=True)
    return row


def one_round(nodes: int) -> tuple[int, dict]:
    """Peak bytes and record of one round."""
    with tempfile.TemporaryDirectory() as folder:
        command = [FEDDEP, "run", "--method", "fedavg", "--rounds", "1", "--json"]
        command += ["--clients", str(CLIENTS), "--partition", "random", "--out", f"{folder}/run"]
        command += ["--set", f"synthetic.nodes={nodes}"]
        command += ["--set", f"synthetic.mean_degree={min(MEAN_DEGREE, nodes // 10)}"]
        peak, printed = peak_bytes(command)
    return peak, json.loads(printed)


def raw_bytes() -> int:
    """Bytes of the arrays that make up the graph."""
    code = (
        "import feddep;"
        f"print(feddep.load('synthetic', nodes={NODES}, mean_degree={MEAN_DEGREE}).nbytes)"
    )
    _, printed = peak_bytes([sys.executable, "-c", code])
    return int(printed)
