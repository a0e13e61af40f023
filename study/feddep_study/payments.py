"""Banks that know their payments to each other: what private codes find, beside trees.

Two kinds of splits ask different things. *Stratified*: some accounts of each ring are known, and
the others are looked for. *By pattern*: whole rings are held out, so no test account has a known
accomplice. The score is the average precision of laundering on each bank's own test accounts, mean
over banks.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

import feddep
from feddep.graph.datasets import DATA_VARIABLE
from feddep.graph.graph import Part
from feddep.graph.joining import joined
from feddep.graph.shard import Shards, write_shards
from feddep.runs.link_table import link_table
from feddep.runs.result import Result
from feddep.tables.agreeing import join_schemas
from feddep.tables.encoder import fit, survey
from feddep.tables.files import open_tables
from feddep.value import trees
from feddep.value.scoring import Metric

SPLITS = ("stratified", "pattern")
SEEDS = (0, 1, 2)
GENERATED = "generated"
DATA = ("aml", GENERATED)
NO_NOISE: Mapping[str, Any] = {"links.noise": "none"}
TREES = "trees"
WITH = "trees with columns of "

Row = dict[str, Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Way:
    """A way of finding launderers.

    Attributes:
        method: of the run.
        settings: of the run.
        columns: trees are also grown on what ``feddep links table`` writes of it.
    """

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    columns: bool = False


def _linked(epsilon: float | None, columns: bool = False, **links: Any) -> Way:
    noise = NO_NOISE if epsilon is None else {"links.epsilon": epsilon}
    settings = {**noise, **{f"links.{name}": value for name, value in links.items()}}
    return Way("feddep-linked", settings, columns)


WAYS: Mapping[str, Way] = {
    "fedavg": Way("fedavg"),
    "labels, ε = 4": _linked(4.0, columns=True),
    "labels, no noise": _linked(None, columns=True),
    "scores, ε = 4": _linked(4.0, code="scores"),
    "scores, no noise": _linked(None, code="scores"),
    "both, ε = 4": _linked(4.0, code="both", columns=True),
    "both, no noise": _linked(None, code="both", columns=True),
    "both, all nodes masked, ε = 4": _linked(4.0, code="both", masked=1.0),
    "local": Way("local"),
    "linked-oracle": Way("linked-oracle"),
    "linked-features": Way("linked-features"),
    "fedgcn": Way("fedgcn"),
    "fedgraph-linked": Way("fedgraph-linked"),
    "labels, ε = 1": _linked(1.0),
    "labels, ε = 2": _linked(2.0),
    "labels, ε = 8": _linked(8.0),
}
"""By what tables call them, in the order in which they are run."""

RUN: Mapping[str, Any] = {
    "preset": "paper",
    "training.rounds": 50,
    "selection.metric": "average_precision",
    "selection.ties": "loss",
}


def declared(data: Iterable[str] = DATA) -> list[Row]:
    """What is to be measured: data, split, seed and way; a way at a time."""
    return [
        {"data": name, "split": split, "seed": seed, "way": way}
        for name in data
        for way in WAYS
        for split in SPLITS
        for seed in SEEDS
    ]


def data_folder() -> Path:
    """Where the banks' tables are looked for, in a folder ``aml``."""
    return Path(os.environ.get(DATA_VARIABLE, "data"))


def missing(rows: Sequence[Row], folder: Path, *, quick: bool = False) -> list[Row]:
    """What has no row yet and can be run: without the folder ``aml`` only generated payments.

    Args:
        rows: so far.
        folder: see :func:`data_folder`.
        quick: one seed, and no others than FedAvg and what it is compared with first.
    """
    data = [name for name in DATA if name == GENERATED or (folder / name).is_dir()]
    done = {_key(row) for row in rows}
    left = [cell for cell in declared(data) if _key(cell) not in done]
    first = list(WAYS)[:2]
    return [cell for cell in left if not quick or (cell["way"] in first and cell["seed"] == 0)]


def measure(wanted: Iterable[Row], folder: Path) -> Iterator[list[Row]]:
    """For each wanted run its own row and those of the trees that use what it heard.

    Args:
        wanted: from :func:`missing`.
        folder: see :func:`data_folder`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        made: dict[tuple[str, str, int], Path] = {}
        for cell in wanted:
            key = (cell["data"], cell["split"], cell["seed"])
            if key not in made:
                made[key] = Path(scratch, "-".join(map(str, key)))
                write_shards(_banks(*key, folder, Path(scratch)), made[key])
            yield _measured(cell, made[key])


def _measured(cell: Row, shards: Path) -> list[Row]:
    way = WAYS[cell["way"]]
    result = feddep.run(
        way.method, shards, seed=cell["seed"], settings={**RUN, **way.settings}, workers=1
    )
    pooled = result.record["measures"]["pooled"]
    scores = {part: pooled[part]["average_precision"] for part in ("test", "val")}
    rows = [cell | scores]
    if cell["way"] == "fedavg":
        rows.append(cell | {"way": TREES} | _trees(feddep.read_shards(shards)))
    if way.columns:
        found = _trees(feddep.read_shards(shards), result)
        rows.append(cell | {"way": WITH + cell["way"]} | found)
    return rows


def _trees(shards: Shards, heard: Result | None = None) -> dict[str, float]:
    """Boosted trees that each bank grows alone, on its own columns and those that it heard."""
    scores: dict[str, list[float]] = {"test": [], "val": []}
    for client, graph in enumerate(shards):
        own = trees.columns(graph)
        if heard is not None:
            told = link_table(heard, silo=str(client)).columns
            own = np.hstack([own, *(np.c_[told[key]] for key in told if key not in ("silo", "id"))])
        found = trees.probabilities([own], [graph], 0, heard.spec.seed if heard else shards.seed)
        for part in (Part.TEST, Part.VAL):
            of = graph.mask(part)
            score = found is not None and Metric("average precision", 1).score(
                graph.labels[of], found[of]
            )
            if score:
                scores[part.name.lower()].append(score)
    return {part: round(fmean(values), 6) for part, values in scores.items()}


def _banks(data: str, split: str, seed: int, folder: Path, scratch: Path) -> Shards:
    """The banks with one of the splits that stand beside their tables."""
    place = folder / data
    if data == GENERATED:
        place = scratch / f"{GENERATED}-{seed}"
        if not place.exists():
            feddep.make_payments(place, seed=seed)
    return banks(place, f"{split}_{seed if data != GENERATED else 0}", data, seed)


def banks(folder: Path, split: str, name: str, seed: int) -> Shards:
    """Folders of tables ``bank-0``, ``bank-1``, … as shards.

    Args:
        folder: holds them, and ``splits.csv``.
        split: a column of that file.
        name: of the data.
        seed: of runs on them.
    """
    parts = pa.csv.read_csv(folder / "splits.csv")
    part_of = dict(zip(parts["id"].to_pylist(), parts[split].to_pylist(), strict=True))
    tables = {}
    for bank in sorted(folder.glob("bank-*")):
        accounts = pa.csv.read_csv(bank / "accounts.csv")
        own = pa.array([part_of[id] for id in accounts["id"].to_pylist()])
        column = accounts.column_names.index("split")
        tables[bank.name] = open_tables(bank, nodes=accounts.set_column(column, "split", own))
    schema, _ = join_schemas({bank: survey(own)[0] for bank, own in tables.items()})
    encoded = [fit(own, schema) for own in tables.values()]
    return joined(
        [one.graph for one in encoded], [one.edges.silo for one in encoded], name, seed=seed
    )


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("data", "split", "seed", "way"))
