"""Randomised response: seconds and memory as the number of flips grows tenfold."""

import json
import math
import time
import tracemalloc

import numpy as np

import feddep
from feddep.privacy.perturb import randomised_response

EPSILON = 4.0
FLIPS = (1_000_000, 10_000_000)


def measure() -> dict[str, object]:
    randomised_response(graph_for(1000), EPSILON, np.random.default_rng(0))  # compiles
    rows = [one(flips) for flips in FLIPS]
    found = {
        "epsilon": EPSILON,
        "rows": rows,
        "time_ratio": rows[1]["seconds"] / rows[0]["seconds"],
    }
    print(json.dumps(found, indent=2), flush=True)
    return found


def one(flips: int) -> dict[str, float]:
    """Time without, then memory with Python's bookkeeping of every array."""
    graph = graph_for(flips)
    began = time.perf_counter()
    randomised_response(graph, EPSILON, np.random.default_rng(1))
    seconds = time.perf_counter() - began
    tracemalloc.start()
    result = randomised_response(graph, EPSILON, np.random.default_rng(1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    output = result.indptr.nbytes + result.indices.nbytes
    return {
        "nodes": graph.nodes,
        "flips": result.edges - graph.edges,
        "seconds": seconds,
        "output_mb": output / 1e6,
        "memory_ratio": peak / output,
    }


def graph_for(flips: int) -> "feddep.Graph":
    """One with so many pairs that so many of them are flipped, and few edges."""
    nodes = math.ceil(math.sqrt(2 * flips * (1 + math.exp(EPSILON))))
    return feddep.load("synthetic", nodes=nodes)
