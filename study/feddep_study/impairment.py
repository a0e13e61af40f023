"""Whether the number of lost neighbours can be learnt from an impaired graph at all.

DGen learns counts by hiding nodes of its own graph. Where a silo has lost many edges its counts do
not follow what is missing. Is that DGen's fault? Here boosted trees have the task alone, with every
advantage: one model for all silos, a node's degree, its neighbours' degrees, its own and its
neighbours' topics, and no noise. Five correlations with the true number tell where it fails.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingRegressor

from feddep.graph.graph import Graph
from feddep.graph.impair import impair
from feddep.graph.partition import PartitionSpec, assign
from feddep.graph.shard import Shards
from feddep.reports.table import Table
from feddep.scenario.build import load
from feddep.scenario.spec import RunSpec
from feddep.seeding import Seeds

DATASETS = ("cora", "citeseer", "synthetic")
PARTITIONS = (
    *(PartitionSpec(kind="louvain", clients=clients) for clients in (3, 10, 20, 50)),
    *(PartitionSpec(kind="random", clients=clients) for clients in (3, 10, 20)),
)
TOPICS = 16
_DEGREES = 3

Floats = npt.NDArray[np.float64]
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Task:
    """What a node shows and how many neighbours it lacks; one row for each node of all silos."""

    shown: Floats
    lacking: Floats

    @classmethod
    def joined(cls, tasks: Sequence["Task"]) -> "Task":
        """The nodes of several silos."""
        shown = np.concatenate([task.shown for task in tasks])
        return cls(shown, np.concatenate([task.lacking for task in tasks]))

    def learnt(self, seed: int) -> HistGradientBoostingRegressor:
        """Boosted trees for the expected number."""
        trees = HistGradientBoostingRegressor(loss="poisson", random_state=seed)
        return trees.fit(self.shown, self.lacking)

    def without_degrees(self) -> "Task":
        """As an encoder sees it that averages over neighbours."""
        return Task(self.shown[:, _DEGREES:], self.lacking)


def columns(graph: Graph, topics: Floats) -> Floats:
    """Degree, mean and sum of the neighbours' degrees, own topics, mean of the neighbours'."""
    degrees = np.asarray(graph.degrees, float)
    ones = np.ones(len(graph.indices))
    sums = sp.csr_array((ones, graph.indices, graph.indptr), shape=(graph.nodes, graph.nodes))
    share = 1 / np.maximum(degrees, 1)
    around = np.stack([degrees, sums @ degrees * share, sums @ degrees], axis=1)
    return np.hstack([around, topics, (sums @ topics) * share[:, None]])


def correlation(guess: Floats, truth: Floats) -> float | None:
    """Pearson's; None where one of the two is constant."""
    if not (np.ptp(guess) and np.ptp(truth)):
        return None
    return round(float(np.corrcoef(guess, truth)[0, 1]), 4)


def measure(datasets: Sequence[str], seeds: Sequence[int]) -> Iterator[Row]:
    """One row for each data set, partition and seed."""
    for name in datasets:
        graph = load(name, RunSpec().synthetic)
        for spec in PARTITIONS:
            for seed in seeds:
                shards = Shards(graph, assign(graph, spec, Seeds(seed)), spec.kind, seed)
                where = {"dataset": name, "partition": spec.kind, "clients": spec.clients}
                yield where | {"seed": seed} | _measured(shards, Seeds(seed))


def _measured(shards: Shards, seeds: Seeds) -> Row:
    graph = shards.graph
    topics = TruncatedSVD(TOPICS, random_state=0).fit_transform(graph.features)
    lost = Task.joined([_lost(shards, client, topics) for client in range(len(shards))])
    lesson, other = (
        Task.joined(
            [
                _hidden(shards, client, topics, seeds.stream("impairment", draw, client))
                for client in range(len(shards))
            ]
        )
        for draw in range(2)
    )
    trees = lesson.learnt(0)
    blind, unaware = lesson.without_degrees(), lost.without_degrees()
    told = seeds.stream("impairment", "told").random(len(lost.lacking)) < 0.5
    pupil = Task(lost.shown[told], lost.lacking[told]).learnt(0)
    return {
        "lost_share": round(shards.lost_share, 4),
        "degree": correlation(lost.shown[:, 0], lost.lacking),
        "hidden": correlation(trees.predict(other.shown), other.lacking),
        "lost": correlation(trees.predict(lost.shown), lost.lacking),
        "lost_without_degrees": correlation(
            blind.learnt(0).predict(unaware.shown), unaware.lacking
        ),
        "told": correlation(pupil.predict(lost.shown[~told]), lost.lacking[~told]),
    }


def _lost(shards: Shards, client: int, topics: Floats) -> Task:
    """The whole graph of a silo, and the edges that it lost to others."""
    members = shards.members(client)
    shard = shards.shard(client)
    lacking = shards.graph.degrees[members] - shard.degrees
    return Task(columns(shard, topics[members]), lacking.astype(float))


def _hidden(shards: Shards, client: int, topics: Floats, rng: np.random.Generator) -> Task:
    """The graph that is left when half of a silo's nodes are hidden, and what it lacks."""
    members, shard = shards.members(client), shards.shard(client)
    left = impair(shard, np.arange(shard.nodes), 0.5, rng)
    shown = columns(left.graph, topics[members[left.remaining]])
    return Task(shown, left.missing_degree.astype(float))


_HEADINGS = {
    "degree": "own degree",
    "hidden": "learnt, asked about hidden nodes",
    "lost": "learnt, asked about lost edges",
    "lost_without_degrees": "the same without degrees",
    "told": "told half of the truth",
}
_NOTE = (
    "Correlation with the true number of missing neighbours over the nodes of all silos, mean over "
    "{} seeds. *Own degree*: of the degree within the silo with the number lost. *Learnt*: boosted "
    "trees that saw half of each silo's nodes hidden; asked about another half that is hidden, and "
    "about the edges that the partition really cut. *Told*: trees that saw the true number of half "
    "of the nodes, asked about the others."
)


def impairment_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The means over seeds, one line for each data set and partition."""
    places: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        places.setdefault((row["dataset"], row["partition"], row["clients"]), []).append(row)
    lines = [
        [name, kind, str(clients), f"{fmean(row['lost_share'] for row in own):.0%}"]
        + [_mean([row[key] for row in own]) for key in _HEADINGS]
        for (name, kind, clients), own in places.items()
    ]
    seeds = len({row["seed"] for row in rows})
    headings = ("data", "partition", "M", "edges lost", *_HEADINGS.values())
    return Table(headings, lines, [_NOTE.format(seeds)])


def _mean(found: Sequence[float | None]) -> str:
    known = [one for one in found if one is not None]
    return f"{fmean(known):.2f}" if known else "–"
