"""A silo of a million accounts and ten million transactions: checked, imported, trained.

Memory is the peak of all processes of a command, as a multiple of the arrays of the silo's graph:
in all, and above what the same command needs on a silo of a few hundred accounts.
"""

import json
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.memory import FEDDEP, available, measure_peak

ACCOUNTS, TRANSACTIONS = 1_000_000, 10_000_000
_AT_ONCE = 1_000_000


def measure() -> dict[str, object]:
    if not available():
        print("not measured: this system does not tell proportional set sizes")
        return {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_silo(folder / "idle", 300, 1500)
        write_silo(folder / "big", ACCOUNTS, TRANSACTIONS)
        idle = {name: peak for name, (peak, _) in steps(folder, "idle").items()}
        found = steps(folder, "big")
        arrays = array_bytes(folder / "big-graph")
        row: dict[str, object] = {
            "accounts": ACCOUNTS,
            "transactions": TRANSACTIONS,
            "arrays_mb": arrays / 1e6,
        }
        for name, (peak, seconds) in found.items():
            row[f"{name}_cpu_seconds"] = seconds
            row[f"{name}_memory_ratio"] = peak / arrays
            row[f"{name}_memory_ratio_above_idle"] = (peak - idle[name]) / arrays
    print(json.dumps(row, indent=2), flush=True)
    return row


def steps(folder: Path, name: str) -> dict[str, tuple[int, float]]:
    """Peak memory and seconds of the processors for each command on one silo."""
    tables, graph = str(folder / name), str(folder / f"{name}-graph")
    run = str(folder / f"{name}-run")
    train = f"run --method fedavg --rounds 1 --out {run} --silos {graph}"
    commands = {
        "check": ["check", tables],
        "import": ["import", tables, "--out", graph],
        "train": train.split(),
        "predict": ["predict", run, "--data", graph, "--out", str(folder / f"{name}.csv")],
    }
    return {step: costs([FEDDEP, *command]) for step, command in commands.items()}


def costs(command: Sequence[str]) -> tuple[int, float]:
    """Peak memory and processor seconds of a command and its children."""
    before = _seconds()
    peak = measure_peak(command)
    return peak.whole, _seconds() - before


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def array_bytes(graph: Path) -> int:
    """Bytes of the arrays of the graph in a folder."""
    from feddep.graph.folder import read_graph

    return read_graph(graph).nbytes


def write_silo(folder: Path, accounts: int, transactions: int) -> None:
    """Accounts with numbers, a category and missing cells; transactions with repeats."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    labels = rng.random(accounts) < 0.1
    age = rng.integers(18, 90, accounts)
    table = {
        "account_id": np.arange(accounts, dtype=np.int64) * 7 + 1_000_000,
        "is_fraud": labels.astype(np.int8),
        "balance": rng.lognormal(7 + labels, 1.5),
        "age": pa.array(age, mask=rng.random(accounts) < 0.02),
        "business": rng.random(accounts) < 0.2,
        "branch": pa.array(
            np.array(["north", "south", "east", "west"])[rng.integers(0, 4, accounts)]
        ),
        **{f"habit {i}": rng.normal(labels, 1) for i in range(8)},
    }
    pq.write_table(pa.table(table), folder / "accounts.parquet")
    ids, writer = table["account_id"], None
    for start in range(0, transactions, _AT_ONCE):
        count = min(_AT_ONCE, transactions - start)
        batch = pa.table(
            {
                "source": ids[rng.integers(0, accounts, count)],
                "target": ids[(accounts * rng.random(count) ** 2).astype(np.int64)],
                "amount": rng.lognormal(4, 1, count),
                "time": rng.integers(0, 86_400 * 30, count),
            }
        )
        writer = writer or pq.ParquetWriter(folder / "transactions.parquet", batch.schema)
        writer.write_table(batch)
    if writer is not None:
        writer.close()


if __name__ == "__main__":
    measure()
