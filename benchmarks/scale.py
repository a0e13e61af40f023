"""A million nodes: one FedAvg round over ten clients, its speed and its memory.

Memory is the peak of all processes together, less that of the same command on a graph of two
hundred nodes, as a multiple of the graph's raw arrays: once from the start of the federation on,
i.e. for the round, and once for the whole command, where igraph's Louvain needs most.
"""

import json
import subprocess
import sys
import tempfile

from benchmarks.memory import FEDDEP, Peak, available, measure_peak

NODES, MEAN_DEGREE, CLIENTS = 1_000_000, 20, 10


def measure() -> dict[str, object]:
    if not available():
        print("not measured: this system does not tell proportional set sizes")
        return {}
    empty, _ = one_round(nodes=200)
    peak, record = one_round(nodes=NODES)
    raw = raw_bytes()
    seconds = record["seconds"]["phases"]["averaging"]
    row = {
        "nodes": NODES,
        "edges": NODES * MEAN_DEGREE // 2,
        "clients": CLIENTS,
        "partition": "louvain",
        "seconds": seconds,
        "training_nodes_per_second": round(0.6 * NODES) / seconds,
        "loading_seconds": record["seconds"]["loading"],
        "raw_arrays_mb": raw / 1e6,
        "empty_run_mb": empty.federated / 1e6,
        "round_peak_mb": peak.federated / 1e6,
        "whole_peak_mb": peak.whole / 1e6,
        "round_memory_ratio": (peak.federated - empty.federated) / raw,
        "whole_memory_ratio": (peak.whole - empty.whole) / raw,
    }
    print(json.dumps(row, indent=2), flush=True)
    return row


def one_round(nodes: int) -> tuple[Peak, dict]:
    """Peak memory and record of one round."""
    with tempfile.TemporaryDirectory() as folder:
        command = [FEDDEP, "run", "--method", "fedavg", "--rounds", "1", "--json"]
        command += ["--clients", str(CLIENTS), "--out", f"{folder}/run"]
        command += ["--set", f"synthetic.nodes={nodes}"]
        command += ["--set", f"synthetic.mean_degree={MEAN_DEGREE if nodes == NODES else 4}"]
        peak = measure_peak(command)
    return peak, json.loads(peak.printed)


def raw_bytes() -> int:
    """Bytes of the arrays that make up the graph."""
    code = (
        "import feddep;"
        f"print(feddep.load('synthetic', nodes={NODES}, mean_degree={MEAN_DEGREE}).nbytes)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)
