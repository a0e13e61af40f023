"""What the README shows of the results: one table and two figures."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from feddep.reports.charts import Figure, figure_svg
from feddep.reports.formatting import divergence, footnotes, marked
from feddep.reports.summary import Rows, spread
from feddep.reports.table import Table
from feddep.scenario.spec import RunSpec
from feddep_study.figures.accuracy import far_below, paper_figure, told_far_below
from feddep_study.linked import gain_by_epsilon
from feddep_study.paper_tables import NOT_RUN, in_order
from feddep_study.source import Place, Scores, Source
from feddep_study.statistics.paired import CONFIDENCE

CLIENTS = 5
PRESET = "paper"
FOLDER = "docs/figures"
FILES = ("accuracy.svg", "linked.svg")

_NOTE = (
    "Ours (the paper's): test accuracy on the whole graph, mean ± standard deviation over seeds, "
    f"{CLIENTS} clients, preset `{PRESET}`."
)


@dataclass(frozen=True)
class Shown:
    """A figure of the README.

    Attributes:
        file: its name.
        figure: what is drawn.
        caption: what is said below.
        labelled: the methods stand at the lines, and need not stand in the legend too.
    """

    file: str
    figure: Figure
    caption: str
    labelled: bool = False

    @property
    def svg(self) -> str:
        """The drawing, two panels side by side."""
        figure = self.figure
        if self.labelled:
            legend = [key for key in figure.legend if key.group != "methods"]
            figure = replace(figure, legend=legend)
        return figure_svg(figure, columns=2)


def main_table(source: Source) -> Table:
    """Table 1 in short: methods down, data sets across, the paper's numbers in brackets."""
    source = _shown_part(source)
    scores = source.scores(lambda spec: (spec.method, spec.dataset))
    methods = in_order(method for method, _ in scores)
    datasets = list(dict.fromkeys(dataset for _, dataset in scores))
    lines = [
        (marked(method), *(_cell(source, method, name, scores) for name in datasets))
        for method in methods
    ]
    ran_away = divergence(record for _, record in source.rows)
    most = [max(len(own) for (_, other), own in scores.items() if other == n) for n in datasets]
    counts = ", ".join(f"{count} on {name}" for name, count in zip(datasets, most, strict=True))
    notes = (*footnotes(methods), *ran_away, f"{_NOTE} Seeds: {counts}.")
    return Table(("method", *datasets), lines, notes)


def shown(sources: Mapping[str, Source]) -> list[Shown]:
    """The figures that there are runs for."""
    drawn = {"table1": _accuracy, "links": _linked}
    return [one for name, draw in drawn.items() if name in sources for one in draw(sources[name])]


def figure_texts(sources: Mapping[str, Source]) -> str:
    """The figures with their captions, as the README has them."""
    found = shown(sources)
    if not found:
        return f"The figures' runs are {NOT_RUN}.\n"
    return "\n".join(
        f"![{one.figure.title}]({FOLDER}/{one.file})\n\n{one.caption}\n" for one in found
    )


def _shown_part(source: Source) -> Source:
    """The part of Table 1 that the README has room for."""
    return replace(
        source,
        cells=[cell for cell in source.cells if _is_shown(cell)],
        rows=[row for row in source.rows if _is_shown(row[0])],
    )


def _is_shown(cell: Mapping[str, Any]) -> bool:
    spec = RunSpec().with_settings(cell)
    return (spec.partition.clients, spec.preset) == (CLIENTS, PRESET)


def _cell(source: Source, method: str, dataset: str, scores: Mapping[Place, Scores]) -> str:
    """Ours, the number of seeds where some are missing, and the paper's."""
    declared = scores.get((method, dataset), {})
    found = [score for score in declared.values() if score is not None]
    ours = spread(found) if found else NOT_RUN
    if 0 < len(found) < len(declared):
        ours += f", {len(found)} of {len(declared)} seeds"
    printed = source.paper.printed(dataset, method, CLIENTS)
    return f"{ours} ({printed.mean:.4f})" if printed else ours


def _accuracy(source: Source) -> Iterator[Shown]:
    """Ours beside the paper's: a panel a data set, a line a method."""
    drawn = _shown_part(source)
    far = far_below(drawn.rows)
    rows = _of_shared_seeds([row for row in drawn.rows if row[1]["method"] not in far])
    for figure in paper_figure(replace(source, rows=rows)) if rows else ():
        caption = (
            f"Test accuracy on the whole graph with {CLIENTS} clients, ours and the paper's, with "
            "one standard deviation to both sides; ours over the seeds that all methods of a data "
            f"set have. {told_far_below(far, 'left out')}"
        ).rstrip()
        yield Shown(FILES[0], figure, caption + _lacking(drawn), labelled=True)


def _of_shared_seeds(rows: Rows) -> Rows:
    """Without seeds that only some methods of a data set have: they differ more than methods do."""
    seeds: dict[str, dict[str, set[int]]] = {}
    for _, record in rows:
        methods = seeds.setdefault(record["dataset"], {})
        methods.setdefault(record["method"], set()).add(record["seed"])
    shared = {dataset: set.intersection(*own.values()) for dataset, own in seeds.items()}
    return [row for row in rows if row[1]["seed"] in shared[row[1]["dataset"]]]


def _linked(source: Source) -> Iterator[Shown]:
    """What is gained where both ends know an edge, over ε."""
    for figure in gain_by_epsilon(source):
        caption = (
            "What does a participant gain on its own nodes, and at what ε? Silos that know their "
            "links to each other tell each other private codes of the nodes at the other end "
            f"(`feddep-linked`): points above FedAvg, paired by seed, with {CONFIDENCE:.0%} "
            "confidence intervals. Level lines are methods that show more, without noise; at 0 "
            "nothing is gained."
        )
        yield Shown(FILES[1], figure, caption + _lacking(source))


def _lacking(source: Source) -> str:
    missing = len(source.cells) - len(source.rows)
    if not missing:
        return ""
    return f" Of the runs of `{source.name}`, {missing} of {len(source.cells)} are {NOT_RUN}."
