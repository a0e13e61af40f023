"""FedDEP's lead over FedAvg, and over FedAvg with what comes with FedDEP without being FedDEP."""

from collections.abc import Iterator, Mapping

from feddep.reports.table import Table
from feddep_study.figures.accuracy import METRIC_NAMES
from feddep_study.paper_tables import NOT_RUN
from feddep_study.source import Source
from feddep_study.statistics.paired import CONFIDENCE, METRICS
from feddep_study.statistics.pooled_differences import ALL, by_preset, pooled_pairs

SWEEPS = {"table1": "M = 3, 5, 10", "quota": "M = 3, 5, 10", "controls": "M = 5"}
COMPARED = (("feddep", "fedavg"), ("feddep", "fedavg-warm"), ("fedavg-warm", "fedavg"))
NOTE = (
    f"Mean difference of test accuracy in points, paired by seed, with its {CONFIDENCE:.0%} "
    "Student-t interval; *above* or *below* where it excludes 0. In `controls`, preset paper, both "
    "methods of a pair have the same learning rate, 100 rounds, and the mean is over rates. "
    "`fedavg-warm` starts as FedDEP with `embedding.warm_start` does, and generates nothing."
)


def leads(sources: Mapping[str, Source], datasets: bool = True) -> Table:
    """The differences over each sweep, preset and split, by data set and over all of them."""
    lines = [
        line
        for name in SWEEPS
        if name in sources
        for line in _lines(sources[name])
        if datasets or line[3] == ALL
    ]
    columns = ("runs", "preset and split", "difference", "data", *METRIC_NAMES.values(), "pairs")
    return Table(columns, lines, (NOTE,))


def leads_in_short(sources: Mapping[str, Source]) -> str:
    """The differences over all data sets together; for the findings."""
    table = leads(sources, datasets=False)
    return table.markdown() if table.rows else f"The runs are {NOT_RUN}.\n"


def _lines(source: Source) -> Iterator[tuple[str, ...]]:
    for title, rows in by_preset(source.rows):
        for method, reference in COMPARED:
            own = [row for row in rows if row[1]["method"] in (method, reference)]
            for pair in pooled_pairs(own, reference):
                cells = (
                    f"{pair.differences[metric]} {pair.differences[metric].word}"
                    for metric in METRICS
                )
                yield (
                    f"{source.name}, {SWEEPS[source.name]}",
                    title,
                    f"{method} − {reference}",
                    *pair.setting,
                    *(cell.removesuffix(" open") for cell in cells),
                    str(pair.pairs),
                )
