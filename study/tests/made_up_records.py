"""Records that nobody ran: what a sweep would hold, with made-up scores."""

import json
import random
from pathlib import Path
from typing import Any

from feddep.algorithms import METHODS
from feddep.runs.records import make_record, thin_history
from feddep.scenario.build import resolve
from feddep.scenario.spec import RunSpec
from feddep.sweeps.declaration import Cell
from feddep.sweeps.sweep import spec_of
from feddep_study.source import declared_sweep

LEVELS = {"cora": 0.88, "citeseer": 0.76, "pubmed": 0.87, "msacademic": 0.94, "synthetic": 0.8}
DATA = {"nodes": 2708, "edges": 5278, "features": 1433, "classes": 7, "validation_nodes": 542}

SWEEPS = {
    "table1": """
        [[grid]]
        dataset = ["cora"]
        preset = ["paper"]
        "partition.clients" = [5, 3]
        method = ["global", "local", "fedavg", "fedgnn", "fedgsl", "feddep"]
        seed = [0, 1]
        [[grid]]
        dataset = ["cora"]
        preset = ["tuned"]
        "partition.clients" = [5, 3]
        method = ["fedavg", "feddep"]
        seed = [0, 1]
        """,
    "quota": """
        [grid]
        "split.kind" = ["quota"]
        method = ["fedavg"]
        seed = [0, 1, 2]
        """,
    "table2": """
        [grid]
        dataset = ["cora"]
        "partition.clients" = [3, 5]
        method = ["feddep"]
        "embedding.clusters" = [3, 5, 10]
        seed = [0, 1]
        """,
    "hops": """
        [[grid]]
        dataset = ["cora"]
        method = ["feddep"]
        "embedding.depth" = [0, 1, 2]
        seed = [0, 1]
        [[grid]]
        dataset = ["cora"]
        method = ["fedsage"]
        seed = [0, 1]
        """,
    "privacy": """
        [[grid]]
        dataset = ["cora"]
        method = ["fedavg", "feddep"]
        "privacy.mechanism" = ["randomised-response"]
        "privacy.epsilon" = [2.0, 8.0]
        seed = [0, 1]
        [[grid]]
        dataset = ["cora"]
        method = ["feddep"]
        "privacy.mechanism" = ["nfdp", "none"]
        seed = [0, 1]
        [[grid]]
        dataset = ["msacademic"]
        method = ["fedgnn", "feddep"]
        seed = [0]
        """,
    "curves": """
        history = true
        [grid]
        dataset = ["cora"]
        method = ["local", "fedavg", "feddep"]
        "training.rounds" = [5]
        seed = [0, 1]
        """,
    "costs": """
        [grid]
        dataset = ["cora"]
        method = ["fedavg", "fedsage", "feddep"]
        seed = [0]
        """,
    "pays": """
        [[grid]]
        dataset = ["cora"]
        "partition.kind" = ["louvain", "random"]
        "partition.clients" = [3, 10]
        method = ["fedavg", "feddep"]
        seed = [0]
        [[grid]]
        dataset = ["cora"]
        "partition.kind" = ["louvain"]
        "partition.clients" = [10]
        feature_share = [0.1, 0.3]
        method = ["fedavg", "feddep"]
        seed = [0]
        """,
    "longer": """
        [grid]
        dataset = ["cora"]
        "training.rounds" = [6]
        "partition.kind" = ["louvain", "random"]
        "partition.clients" = [3, 10]
        method = ["local", "fedavg", "feddep"]
        seed = [0, 1]
        """,
    "mine": """
        [grid]
        method = ["local", "fedavg"]
        "model.form" = ["separate", "closed"]
        seed = [0, 1]
        """,
}


def history_of(spec: RunSpec, rng: random.Random) -> list[dict[str, Any]]:
    level = LEVELS[spec.dataset] + 0.01 * list(METHODS).index(spec.method) / len(METHODS)
    level -= 0.3 if spec.method == "local" else 0
    level -= 0.02 * (1 - spec.feature_share) + 0.002 * spec.partition.clients
    level -= 0.5 / (spec.privacy.epsilon or 1e9)
    entries = []
    for number in range(1, spec.training.rounds + 1):
        score = level * (1 - 0.8 ** (number + 2)) + rng.gauss(0, 0.004)
        entries.append(
            {
                "round": number,
                "loss": 2 * 0.93**number + 0.05,
                "silo": {"test": score - 0.01, "val": score + rng.gauss(0, 0.002)},
                "global": {"test": score, "val": score},
                "seconds": number * (0.05 if spec.method == "fedavg" else 0.09),
            }
        )
    return entries


def privacy_of(spec: RunSpec) -> dict[str, Any]:
    mechanism = spec.privacy.mechanism
    bounded = mechanism == "randomised-response"
    nothing = {"epsilon": None, "delta": 1.0, "verdict": "none"}
    holds = {"epsilon": spec.privacy.epsilon, "delta": 0.0, "verdict": "holds"}
    return {
        "mechanism": mechanism,
        "verdict": "holds" if bounded else "none",
        "statement": "A statement in <words>.",
        "paper": {"epsilon": 1.1, "delta": 0.02, "verdict": "none"},
        "composed": {"epsilon": 12.5, "delta": 0.3, "verdict": "none"},
        "sound": holds if bounded else nothing,
    }


def lost_share_of(spec: RunSpec) -> float:
    clients = spec.partition.clients
    return 1 - 1 / clients if spec.partition.kind == "random" else 0.05 * clients**0.5


def row_of(cell: Cell, *, history: bool = False) -> dict[str, Any]:
    spec = resolve(RunSpec().with_settings(cell), cell)
    one_run = spec_of(cell)  # it may serve several cells and sweeps
    rng = random.Random(repr(one_run))
    entries = history_of(one_run, rng)
    sent = 10**7 if METHODS[spec.method].discloses else 0
    names = [phase.name for phase in METHODS[spec.method].phases]
    record = make_record(
        spec,
        split=spec.split.kind,
        data=DATA | {"lost_share": lost_share_of(spec)},
        history=entries,
        best=rng.randint(spec.training.rounds // 2, spec.training.rounds),
        privacy=privacy_of(spec),
        seconds={
            "total": entries[-1]["seconds"],
            "phases": {name: entries[-1]["seconds"] / len(names) for name in names},
            "loading": 0.1,
            "setup": 0.2,
            "measuring": 0.3,
        },
        traffic={name: {"up_bytes": sent, "down_bytes": sent} for name in names},
    )
    row = {"settings": cell, "record": record}
    return row | {"history": thin_history(entries)} if history else row


def fill(study: Path, name: str, share: float = 1.0) -> None:
    """Writes the first so many of a sweep's runs."""
    sweep = declared_sweep(study, name)
    cells = sweep.cells[: round(share * len(sweep.cells))]
    sweep.results.parent.mkdir(exist_ok=True)
    rows = [json.dumps(row_of(cell, history=sweep.history)) + "\n" for cell in cells]
    sweep.results.write_text("".join(rows))
