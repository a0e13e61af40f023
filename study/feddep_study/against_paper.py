"""Our scores beside those that the paper prints."""

import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from feddep.errors import DataError
from feddep.reports.formatting import footnotes, marked, points
from feddep.reports.summary import Rows, headings, score_of, setting_of, spread, varied
from feddep.reports.table import Table
from feddep.runs.files import Record

# Always shown, because what the paper prints and how far ours may be compared depends on them:
# the record's keys, and the settings that they come from.
_FACTS = {
    "dataset": "dataset",
    "clients": "partition.clients",
    "method": "method",
    "preset": "preset",
    "split": "split.kind",
}
_REACHED_TITLE = "Where the paper's figures are reached"
_REACHED = (
    "Settings, a data set and a number of clients each, in which our mean is at least the paper's "
    "less one of its standard deviations; and by how much, from the least to the most, it lies "
    "below that in the others."
)
_COLUMNS = ("ours", "paper", "difference in points", "at least paper − sd, by", "seeds")


@dataclass(frozen=True)
class Printed:
    """One entry of the paper's Table 1.

    Attributes:
        mean: accuracy on the global graph.
        deviation: standard deviation of the paper's repetitions.
    """

    mean: float
    deviation: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} ± {self.deviation:.3f}"

    @property
    def floor(self) -> float:
        """What reaches the paper within one of its standard deviations."""
        return self.mean - self.deviation


@dataclass(frozen=True)
class Paper:
    """What the paper prints, as ``paper.toml`` holds them.

    Attributes:
        accuracy: [mean, standard deviation] by data set, method and number of clients.
        clusters: those of FedDEP by data set, number of clusters and number of clients.
        data: the data table of the appendix, by data set.
    """

    accuracy: dict[str, Any]
    clusters: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> "Paper":
        """Reads the file."""
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
            return cls(content["accuracy"], content.get("clusters", {}), content.get("data", {}))
        except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
            raise DataError(f"cannot read the paper's numbers from {file}: {error}") from None

    def printed(self, dataset: str, method: str, clients: int) -> Printed | None:
        """What the paper has for this, if anything."""
        entry = self.accuracy.get(dataset, {}).get(method, {}).get(str(clients))
        return None if entry is None else Printed(*entry)

    def printed_for_clusters(self, dataset: str, clusters: int, clients: int) -> Printed | None:
        """What the paper's Table 2 has for FedDEP with C clusters, if anything."""
        entry = self.clusters.get(dataset, {}).get(str(clusters), {}).get(str(clients))
        return None if entry is None else Printed(*entry)


def beside_paper(rows: Rows, paper: Paper) -> Table:
    """One line for each setting of a sweep, over its seeds, beside the paper's line.

    The score is that of the test nodes on the whole graph, the paper's metric.
    """
    others, groups = _by_setting(rows)
    lines = [(*setting, *_cells(records, paper)) for setting, records in groups.items()]
    notes = footnotes(record["method"] for _, record in rows)
    return Table((*_FACTS, *headings(others), *_COLUMNS), lines, notes)


def reached(rows: Rows, paper: Paper) -> Table:
    """How often each method is at least the paper's figure less one of its standard deviations.

    A setting is a data set and a number of clients; those that the paper has nothing for do not
    count.
    """
    others, groups = _by_setting(rows)
    margins: dict[tuple[str, ...], list[float]] = {}
    for (_, _, *variant), records in groups.items():
        printed = _printed(records, paper)
        if printed is not None:
            margins.setdefault(tuple(variant), []).append(_margin(_mean(records), printed))
    lines = [(*variant, *_counted(found)) for variant, found in margins.items()]
    notes = footnotes(record["method"] for _, record in rows)
    columns = (*headings(others), "reached, of settings", "else below by points")
    return Table(("method", "preset", "split", *columns), lines, (*notes, _REACHED), _REACHED_TITLE)


def _counted(margins: Sequence[float]) -> tuple[str, str]:
    """How many reach it, and from where to where the others miss it."""
    below = sorted({f"{-100 * margin:.2f}" for margin in margins if margin < 0}, key=float)
    count = sum(margin >= 0 for margin in margins)
    missed = " to ".join(below[:1] + below[1:][-1:]) or "–"
    return f"{count} of {len(margins)}", missed


def _by_setting(rows: Rows) -> tuple[list[str], dict[tuple[str, ...], list[Record]]]:
    """What else a sweep varies, and the records by :data:`_FACTS` and that."""
    differing = varied([settings for settings, _ in rows])
    others = [name for name in differing if name not in _FACTS.values()]
    groups: dict[tuple[str, ...], list[Record]] = {}
    for settings, record in rows:
        setting = (*_facts(record), *setting_of(settings, others))
        groups.setdefault(setting, []).append(record)
    return others, groups


def _facts(record: Record) -> tuple[str, ...]:
    return tuple(marked(record[key]) if key == "method" else str(record[key]) for key in _FACTS)


def _cells(records: Sequence[Record], paper: Paper) -> tuple[str, ...]:
    """The texts under :data:`_COLUMNS`; dashes where the paper prints nothing."""
    ours, seeds = spread([score_of(record) for record in records]), str(len(records))
    printed = _printed(records, paper)
    if printed is None:
        return ours, "–", "–", "–", seeds
    mean = _mean(records)
    return ours, str(printed), points(mean - printed.mean), _verdict(mean, printed), seeds


def _printed(records: Sequence[Record], paper: Paper) -> Printed | None:
    first = records[0]
    return paper.printed(first["dataset"], first["method"], first["clients"])


def _mean(records: Sequence[Record]) -> float:
    return statistics.fmean(map(score_of, records))


def _verdict(ours: float, printed: Printed) -> str:
    """Whether ours is at least the paper's mean less one standard deviation, and by how much."""
    margin = _margin(ours, printed)
    return f"{'yes' if margin >= 0 else 'no'}, {points(margin)}"


def _margin(ours: float, printed: Printed) -> float:
    """How far ours is above the paper's mean less one standard deviation.

    The paper prints four digits, so nothing finer is compared.
    """
    return round(ours - printed.floor, 4)
