"""A step of DP-SGD against a step of SGD, and where its time goes; three kinds of noise.

One client of each data set, batches of 32 examples, two hops, 128 hidden units. DP-SGD reads full
lists and writes out every example's gradient; SGD samples 5 neighbours. Everything is repeated in
turn, and the shortest time of each counts. Noise is the simulation's, numpy's, and that of a silo
with a secret.
"""

import time
from collections.abc import Callable

import numpy as np

from feddep.errors import DataError
from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import NeighbourSampler, separate_ego_graphs
from feddep.models.dropout import DropoutStream
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.models.sgd import SageSgd
from feddep.privacy.gaussian import gaussian
from feddep.privacy.noise import with_noise
from feddep.privacy.secret_stream import SecretStream
from feddep.scenario.build import build
from feddep.scenario.spec import RunSpec
from feddep.seeding import Seeds

DATASETS = ("cora", "citeseer", "msacademic", "synthetic")
BATCH, REPEATS = 32, 50


def measure() -> list[dict[str, object]]:
    rows = []
    for dataset in DATASETS:
        try:
            graph = build(RunSpec().with_settings({"dataset": dataset}))[0]
        except DataError as error:
            print(f"{dataset}: not measured, {error}")
            continue
        row = {"dataset": dataset, **one(graph)}
        print(
            f"{dataset}: a step of DP-SGD takes {row['step_ratio']:.1f} times one of SGD: "
            f"ego-graphs {row['ego_ms']:.2f} ms, gradients {row['gradients_ms']:.2f} ms, "
            f"noise {row['noise_ms']:.2f} ms ({row['noise_ratio']:.1f} times as fast as numpy's; "
            f"a silo's own takes {row['secret_ratio']:.1f} times as long as numpy's)",
            flush=True,
        )
        rows.append(row)
    return rows


def one(graph: Graph) -> dict[str, float]:
    """Milliseconds of the parts of a step, and ratios."""
    model = FusedSage(ModelSpec(dropout=0.0), graph.feature_count, graph.classes)
    initialise(model, Seeds(0))
    sgd = SageSgd(
        model, graph.features, graph.labels, rate=1e-9, decay=0, dropout=DropoutStream(0, 0)
    )
    rng, secret = np.random.default_rng(0), SecretStream(Seeds(0).key("noise"))
    targets = rng.permutation(graph.members(Part.TRAIN))[:BATCH]
    sampler, total = NeighbourSampler(graph, fanout=5, layers=2), sgd.weights.zeros()
    ego, owner = separate_ego_graphs(graph, targets, 2)
    seconds = shortest(
        {
            "ego": lambda: separate_ego_graphs(graph, targets, 2),
            "gradients": lambda: sgd.add_clipped(ego, owner, total, 1.0),
            "noise": lambda: [gaussian(rng, array) for array in total.arrays()],
            "numpy": lambda: [
                rng.standard_normal(out=array, dtype=np.float32) for array in total.arrays()
            ],
            "secret": lambda: [with_noise(secret, array, 1.0) for array in total.arrays()],
            "sgd": lambda: sgd.step(sampler.sample(targets, rng)),
        }
    )
    step = seconds["ego"] + seconds["gradients"] + seconds["noise"]
    return {
        "step_ratio": step / seconds["sgd"],
        "noise_ratio": seconds["numpy"] / seconds["noise"],
        "secret_ratio": seconds["secret"] / seconds["numpy"],
        "ego_ms": 1e3 * seconds["ego"],
        "gradients_ms": 1e3 * seconds["gradients"],
        "noise_ms": 1e3 * seconds["noise"],
        "sgd_ms": 1e3 * seconds["sgd"],
    }


def shortest(parts: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The shortest of many times of each part, all of them in turn."""
    found = dict.fromkeys(parts, np.inf)
    for repeat in range(REPEATS + 1):
        for name, part in parts.items():
            began = time.perf_counter()
            part()
            if repeat:  # the first one compiles
                found[name] = min(found[name], time.perf_counter() - began)
    return found
