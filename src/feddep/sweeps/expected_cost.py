"""How long a run may take, estimated from similar runs that are stored."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from feddep.runs.files import Record

Settings = Mapping[str, Any]

_ALIKE = (
    ("method", "dataset", "training.rounds", "partition.clients"),
    ("method", "dataset", "training.rounds"),
    ("method", "dataset"),
    ("dataset",),
    ("method",),
    (),
)
"""Settings that similar runs share, most similar first; the first that some run shares counts."""


def expected_seconds(
    cells: Sequence[Settings], known: Sequence[tuple[Settings, Record]]
) -> list[float]:
    """For each cell, the mean over the runs that are most like it.

    Args:
        cells: settings of the runs to come.
        known: settings and records of stored runs; without any, all cells cost 0.
    """
    costs = [(settings, _seconds(record)) for settings, record in known]
    return [_like(cell, costs) for cell in cells]


def _like(cell: Settings, known: Sequence[tuple[Settings, float]]) -> float:
    for keys in _ALIKE:
        found = [cost for other, cost in known if _same(cell, other, keys)]
        if found:
            return fmean(found)
    return 0.0


def _same(cell: Settings, other: Settings, keys: Sequence[str]) -> bool:
    return all(cell.get(key) == other.get(key) for key in keys)


def _seconds(record: Record) -> float:
    seconds = record["seconds"]
    return float(seconds["total"] + seconds["loading"] + seconds["setup"] + seconds["measuring"])
