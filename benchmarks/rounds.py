"""One FedAvg round: ours against plain PyTorch Geometric, same data, same batches, one run.

The opponent is what one would write first: dense features, two ``SAGEConv`` layers, clients one
after the other, torch with its default threads. Batches of 32 training nodes with 5 neighbours in
each of two hops, every training node once a round. ``NeighborLoader`` is used where torch-sparse
or pyg-lib is installed; otherwise PyG's layers are fed with our sampler's batches. Ours includes
sending the weights and scoring the classifier at every client; the opponent only trains.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import SAGEConv
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

from benchmarks.memory import FEDDEP, available, measure_peak
from feddep.algorithms import find_method
from feddep.errors import DataError
from feddep.federation.phase import Ask
from feddep.graph.graph import Graph, Part
from feddep.graph.interchange import to_pyg
from feddep.graph.sampling import NeighbourSampler
from feddep.graph.shard import Shards
from feddep.runtime.inprocess import InProcess
from feddep.scenario.build import build, learning_spec_for
from feddep.scenario.spec import RunSpec

ROUNDS = {"cora": 10, "msacademic": 3}
HAS_LOADER = WITH_PYG_LIB or WITH_TORCH_SPARSE


def measure() -> list[dict[str, object]]:
    rows = []
    for dataset, rounds in ROUNDS.items():
        spec = RunSpec().with_settings({"dataset": dataset})
        try:
            shards = build(spec)
        except DataError as error:
            print(f"{dataset}: not measured, {error}")
            continue
        ours = our_rounds(spec, shards, rounds)
        theirs = pyg_rounds(shards, rounds if dataset == "cora" else 1)
        row = {
            "dataset": dataset,
            "clients": shards.clients,
            "batches": "NeighborLoader" if HAS_LOADER else "our sampler",
            "ours_seconds": statistics.median(ours),
            "pyg_seconds": statistics.median(theirs),
            "ratio": statistics.median(theirs) / statistics.median(ours),
            "ours_peak_mb": our_peak_megabytes(dataset),
        }
        print(
            f"{dataset}: ours {row['ours_seconds']:.3f} s, PyG ({row['batches']}) "
            f"{row['pyg_seconds']:.3f} s a round, ratio {row['ratio']:.1f}; "
            f"our peak memory {row['ours_peak_mb']} MB",
            flush=True,
        )
        rows.append(row)
    return rows


def our_rounds(spec: RunSpec, shards: Shards, rounds: int) -> list[float]:
    """Seconds of each round of the averaging phase, two workers."""
    method = find_method("fedavg")
    (phase,) = method.phases
    learning = learning_spec_for(spec, shards.graph, method)
    seconds = []
    with InProcess(shards, method, learning, workers=2) as runtime:
        state = {}
        for number in range(rounds + 1):
            started = time.perf_counter()
            ask = Ask(runtime.clients, phase.name, number, runtime.exchange)
            state, _ = phase.serve(learning, ask, state)
            seconds.append(time.perf_counter() - started)
    return seconds[1:]  # the first warms caches


class PygSage(torch.nn.Module):
    """Two SAGEConv layers, as in PyG's own examples."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first = SAGEConv(features, 128)
        self.second = SAGEConv(128, classes)

    def forward(self, x, first, second, middle, last):
        """``first`` and ``second`` are edge indices; the targets of a layer come first."""
        x = self.first((x, x[:middle]), first).relu()
        x = dropout(x, 0.5, self.training)
        return self.second((x, x[:last]), second)


def pyg_rounds(shards: Shards, rounds: int) -> list[float]:
    """Seconds of each round of plain PyG."""
    graph = shards.graph
    model = PygSage(graph.feature_count, graph.classes)
    clients = [to_pyg(shard, dense=True) for shard in shards]
    graphs = list(shards)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        sums, total = None, 0
        for data, shard in zip(clients, graphs, strict=True):
            model.load_state_dict(weights)
            optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, first, second, middle, labels in pyg_batches(data, shard):
                loss = cross_entropy(model(x, first, second, middle, len(labels)), labels)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            count = int(data.train_mask.sum())
            own = {name: value * count for name, value in model.state_dict().items()}
            sums = own if sums is None else {name: sums[name] + own[name] for name in own}
            total += count
        weights = {name: value / total for name, value in sums.items()}
        seconds.append(time.perf_counter() - started)
    return seconds


def pyg_batches(data, shard: Graph) -> Iterator[tuple]:
    """Dense features, edge indices, number of middle nodes, labels of the batch."""
    if HAS_LOADER:
        loader = NeighborLoader(
            data, [5, 5], input_nodes=data.train_mask, batch_size=32, shuffle=True
        )
        for batch in loader:
            nodes = len(batch.x)
            labels = batch.y[: batch.batch_size]
            yield batch.x, batch.edge_index, batch.edge_index, nodes, labels
        return
    sampler = NeighbourSampler(shard, fanout=5, layers=2)
    rng = np.random.default_rng(0)
    for ego in sampler.batches(shard.members(Part.TRAIN), 32, rng):
        outer, inner = (edge_index(block) for block in ego.blocks)
        nodes = torch.from_numpy(ego.nodes)
        labels = data.y[nodes[: ego.blocks[-1].targets]]
        yield data.x[nodes], outer, inner, ego.blocks[0].targets, labels


def edge_index(block) -> torch.Tensor:
    targets = np.repeat(np.arange(block.targets), np.diff(block.indptr))
    return torch.from_numpy(np.stack([block.indices.astype(np.int64), targets]))


def our_peak_megabytes(dataset: str) -> float | None:
    """Peak memory of a whole run of one round, all processes together."""
    if not available():
        return None
    with tempfile.TemporaryDirectory() as folder:
        command = [FEDDEP, "run", "--method", "fedavg", "--dataset", dataset, "--rounds", "1"]
        peak = measure_peak([*command, "--workers", "2", "--out", f"{folder}/run"])
    return round(peak.whole / 1e6)
