"""Our scores beside those that the paper prints."""

import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from feddep.errors import DataError
from feddep.experiments.files import Record
from feddep.reports.comparison import footnotes, marked, points
from feddep.reports.summary import Rows, headings, setting_of, spread, varied
from feddep.reports.table import Table

# Always shown, because what the paper prints and how far ours may be compared depends on them:
# the record's keys, and the settings that they come from.
_FACTS = {
    "dataset": "dataset",
    "clients": "partition.clients",
    "method": "method",
    "preset": "preset",
    "split": "split.kind",
}
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
    """What the paper prints, as ``experiments/paper.toml`` holds them.

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


def paper_table(rows: Rows, paper: Paper) -> str:
    """:func:`beside_paper` in Markdown."""
    return beside_paper(rows, paper).markdown()


def beside_paper(rows: Rows, paper: Paper) -> Table:
    """One line for each setting of a sweep, over its seeds, beside the paper's line.

    The score is that of the test nodes on the whole graph, the paper's metric.

    Args:
        rows: settings and record of every run.
        paper: what is printed.
    """
    differing = varied([settings for settings, _ in rows])
    others = [name for name in differing if name not in _FACTS.values()]
    groups: dict[tuple[str, ...], list[Record]] = {}
    for settings, record in rows:
        setting = (*_facts(record), *setting_of(settings, others))
        groups.setdefault(setting, []).append(record)
    lines = [(*setting, *_cells(records, paper)) for setting, records in groups.items()]
    notes = footnotes(record["method"] for _, record in rows)
    return Table((*_FACTS, *headings(others), *_COLUMNS), lines, notes)


def _facts(record: Record) -> tuple[str, ...]:
    return tuple(marked(record[key]) if key == "method" else str(record[key]) for key in _FACTS)


def _cells(records: Sequence[Record], paper: Paper) -> tuple[str, ...]:
    """The texts under :data:`_COLUMNS`; dashes where the paper prints nothing."""
    first = records[0]
    scores = [record["scores"]["global"]["test"] for record in records]
    printed = paper.printed(first["dataset"], first["method"], first["clients"])
    if printed is None:
        return spread(scores), "–", "–", "–", str(len(scores))
    ours = statistics.fmean(scores)
    difference = points(ours - printed.mean)
    return spread(scores), str(printed), difference, _verdict(ours, printed), str(len(scores))


def _verdict(ours: float, printed: Printed) -> str:
    """Whether ours is at least the paper's mean less one standard deviation, and by how much.

    The paper prints four digits, so nothing finer is compared.
    """
    margin = round(ours - printed.floor, 4)
    return f"{'yes' if margin >= 0 else 'no'}, {points(margin)}"
