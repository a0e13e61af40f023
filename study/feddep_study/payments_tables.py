"""Tables about banks that know their payments to each other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from feddep.reports.summary import spread
from feddep.reports.table import Table
from feddep_study.paper_tables import NOT_RUN
from feddep_study.payments import DATA, SEEDS, SPLITS, TREES, WAYS, WITH
from feddep_study.statistics.paired import CONFIDENCE, Difference

Rows = Sequence[Mapping[str, Any]]

CHOSEN = "code chosen on validation, ε = 4"
_REFERENCE = "fedavg"
_TITLES = {
    "aml": "five banks of AMLGentex",
    "generated": "payments of `feddep data make payments`, another set for each seed",
}
_NOTE = (
    "Average precision of laundering on each bank's own test accounts, mean over banks; mean ± "
    f"standard deviation over seeds. Differences are paired by seed, with {CONFIDENCE:.0%} "
    "Student-t intervals: of networks from FedAvg, of trees from trees on a bank's own columns. "
    "*Labels*, *scores*, *both*: what `feddep-linked` tells (`links.code`). *Chosen on "
    "validation*: in each seed the code that has, at ε = 4, the highest average precision on "
    "validation accounts, which are split off in the same way as the test."
)


@dataclass(frozen=True)
class Payments:
    """The rows of one data set and kind of split."""

    rows: Rows

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], data: str, split: str) -> "Payments":
        """Those among all rows."""
        return cls([row for row in rows if (row["data"], row["split"]) == (data, split)])

    def scores(self, way: str) -> dict[int, float]:
        """By seed."""
        if way == CHOSEN:
            return self._chosen()
        return {row["seed"]: row["test"] for row in self.rows if row["way"] == way}

    def difference(self, way: str, reference: str = _REFERENCE) -> Difference | None:
        """From a reference, over the seeds that both have."""
        ours, theirs = self.scores(way), self.scores(reference)
        both = sorted(ours.keys() & theirs.keys())
        return Difference.of([ours[seed] - theirs[seed] for seed in both]) if both else None

    def _chosen(self) -> dict[int, float]:
        """The test score of the codes that are best on validation, where all of them are run."""
        linked = [name for name, way in WAYS.items() if way.method == "feddep-linked"]
        codes = [name for name in linked if WAYS[name].settings.get("links.epsilon") == 4]
        found = {}
        for seed in SEEDS:
            own = [row for row in self.rows if row["seed"] == seed and row["way"] in codes]
            if len(own) == len(codes):
                found[seed] = max(own, key=lambda row: row["val"])["test"]
        return found


def payments_tables(rows: Rows) -> Iterator[Table]:
    """One table for each data set; a line a way, columns for each kind of split."""
    ways = [*WAYS, CHOSEN, TREES, *(WITH + name for name, way in WAYS.items() if way.columns)]
    for data in DATA:
        kinds = [Payments.of(rows, data, split) for split in SPLITS]
        lines = [(way, *(cell for kind in kinds for cell in _cells(kind, way))) for way in ways]
        headings = [text for split in SPLITS for text in (_name(split), "difference")]
        notes = () if data != DATA[-1] else (_NOTE,)
        yield Table(("way", *headings), lines, notes, f"{data}: {_TITLES[data]}")


def payments_text(rows: Rows) -> str:
    """The tables, each under its title."""
    return "\n".join(f"**{table.title}**\n\n{table.markdown()}" for table in payments_tables(rows))


def _name(split: str) -> str:
    return "by pattern" if split == "pattern" else split


def _cells(kind: Payments, way: str) -> tuple[str, str]:
    found = kind.scores(way)
    if not found:
        return NOT_RUN, ""
    fewer = f", {len(found)} of {len(SEEDS)} seeds" if len(found) < len(SEEDS) else ""
    reference = TREES if way.startswith(TREES) else _REFERENCE
    difference = None if way == reference else kind.difference(way, reference)
    return spread(list(found.values())) + fewer, "" if difference is None else in_thousandths(
        difference
    )


def in_thousandths(difference: Difference) -> str:
    """Average precision has no points: +.089 [+.041, +.137]."""
    if difference.ends is None:
        return _signed(difference.mean)
    return f"{_signed(difference.mean)} [{', '.join(map(_signed, difference.ends))}]"


def mean_of(scores: Mapping[int, float]) -> float | None:
    """Over seeds."""
    return fmean(scores.values()) if scores else None


def _signed(value: float) -> str:
    return f"{value:+z.3f}".replace("-", "−").replace("0.", ".", 1)
