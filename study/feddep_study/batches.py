"""FedAvg with one step a round on all of a silo's training nodes, beside batches and the paper."""

from collections.abc import Mapping, Sequence
from typing import Any

from feddep.learning.spec import TrainingSpec
from feddep.reports.summary import score_of, spread
from feddep.reports.table import Table
from feddep.runs.files import Record
from feddep_study.paper_tables import NOT_RUN
from feddep_study.source import Source

KEY = "training.batch_size"
SPLITS = {"quota": "the authors' split", "stratified": "stratified split"}
NOTE = (
    "FedAvg's test accuracy on the whole graph, mean ± standard deviation over three seeds, preset "
    "paper, 50 rounds of one epoch each. One step: a batch of all training nodes of a silo, so 50 "
    "steps in all."
)


def full_batch_table(source: Source) -> Table:
    """A line for each data set and number of clients."""
    sizes = sorted({_size(cell) for cell in source.cells}, reverse=True)
    names = {size: f"batches of {size}" for size in sizes} | {sizes[0]: "one step"}
    found: dict[tuple[str, int], dict[tuple[str, int], list[Record]]] = {}
    for settings, record in source.rows:
        own = found.setdefault((record["dataset"], record["clients"]), {})
        own.setdefault((record["split"], _size(settings)), []).append(record)
    kinds = [(split, size) for split in SPLITS for size in sizes]
    lines = [
        (dataset, str(clients), _printed(source, dataset, clients), *_scores(own, kinds))
        for (dataset, clients), own in found.items()
    ]
    columns = (f"{names[size]}, {SPLITS[split]}" for split, size in kinds)
    return Table(("data", "M", "the paper's FedAvg", *columns), lines, (NOTE,))


def _size(cell: Mapping[str, Any]) -> int:
    return int(cell.get(KEY, TrainingSpec.batch_size))


def _printed(source: Source, dataset: str, clients: int) -> str:
    return str(source.paper.printed(dataset, "fedavg", clients) or "–")


def _scores(
    own: Mapping[tuple[str, int], Sequence[Record]], kinds: Sequence[tuple[str, int]]
) -> list[str]:
    return [
        spread([score_of(record) for record in own[kind]]) if kind in own else NOT_RUN
        for kind in kinds
    ]
