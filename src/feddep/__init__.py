"""Subgraph federated learning: one graph neural network over silos that keep their graphs.

What a notebook needs::

    import feddep

    graph = feddep.load("cora")  # or feddep.from_pyg(data), feddep.read_tables(nodes, edges)
    shards = feddep.partition(graph, clients=5, seed=0)
    result = feddep.run("fedavg", shards, rounds=50)  # any name in feddep.methods()
    result.accuracy, result.traffic, result.history
    result.model.predict(graph)
    result.save("runs/first")
    feddep.open_run("runs/first")  # the same result, in another session

These names, and those in :mod:`feddep.method` for whoever writes a method, are stable and
documented in ``docs/python.md``. Every other module is private and may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from feddep.api import load, methods, open_run, partition, run, shards
    from feddep.errors import FeddepError, InputError
    from feddep.graph.folder import write_graph
    from feddep.graph.graph import Graph, Part
    from feddep.graph.interchange import from_pyg, to_pyg
    from feddep.graph.payments.folders import make_payments
    from feddep.graph.shard import Shards, read_shards, write_shards
    from feddep.graph.silos import Silos
    from feddep.graph.tables import read_tables
    from feddep.learning.classifier import Classifier
    from feddep.runs.result import Result

_HOMES = {
    "feddep.api": ("load", "methods", "open_run", "partition", "run", "shards"),
    "feddep.errors": ("FeddepError", "InputError"),
    "feddep.runs.result": ("Result",),
    "feddep.graph.folder": ("write_graph",),
    "feddep.graph.graph": ("Graph", "Part"),
    "feddep.graph.interchange": ("from_pyg", "to_pyg"),
    "feddep.graph.payments.folders": ("make_payments",),
    "feddep.graph.shard": ("Shards", "read_shards", "write_shards"),
    "feddep.graph.silos": ("Silos",),
    "feddep.graph.tables": ("read_tables",),
    "feddep.learning.classifier": ("Classifier",),
}

__all__ = [
    "Classifier",
    "FeddepError",
    "Graph",
    "InputError",
    "Part",
    "Result",
    "Shards",
    "Silos",
    "from_pyg",
    "load",
    "make_payments",
    "methods",
    "open_run",
    "partition",
    "read_shards",
    "read_tables",
    "run",
    "shards",
    "to_pyg",
    "write_graph",
    "write_shards",
]


def __getattr__(name: str) -> object:
    # Importing torch takes seconds; `feddep --help` should not.
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'feddep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
