"""What the report says about each sweep, in one table.

A section is made of blocks, tables and figures, that are pure functions of the sweep's records.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from feddep.reports.charts import Figure
from feddep.reports.costs import NOTES, costs_of, measured_table
from feddep.reports.formatting import divergence, footnotes, marked
from feddep.reports.privacy import price_rows
from feddep.reports.summary import Rows, score_of, spread, summary
from feddep.reports.table import Table
from feddep.runs.files import Record
from feddep_study.against_paper import reached
from feddep_study.batches import full_batch_table
from feddep_study.cost_formulas import formula_table
from feddep_study.figures.accuracy import costs_figure, lines_figure, pairs_figure, paper_figure
from feddep_study.figures.curves import curves_figure
from feddep_study.figures.privacy_plot import further_privacy, privacy_figure
from feddep_study.gain_by_lost_edges import (
    bother_figure,
    gain_tables,
    lost_edges_figure,
    weaker_features_figure,
)
from feddep_study.linked import gain_by_epsilon, linked_tables
from feddep_study.paper_tables import cluster_grids, paper_grids
from feddep_study.source import Source
from feddep_study.statistics.paired import pairs
from feddep_study.statistics.pooled_differences import gains
from feddep_study.statistics.ranks import ranks

_PRICES = (
    "Three prices: the paper's theorem as printed, the same composed as it cites, and what holds "
    "for one undirected edge and all that leaves a client (docs/privacy.md)."
)

Block = Table | Figure
Builder = Callable[[Source], Iterable[Block]]


@dataclass(frozen=True)
class Plan:
    """How a sweep is told.

    Attributes:
        title: of the section.
        text: what was asked.
        builders: what is shown, in order.
    """

    title: str
    text: str
    builders: Sequence[Builder]


@dataclass(frozen=True)
class Section:
    """One part of the report.

    Attributes:
        name: of the sweep.
        title: for people.
        text: what was asked.
        done: runs with a record.
        declared: all runs.
        blocks: what is shown.
        unit: what is counted.
    """

    name: str
    title: str
    text: str
    done: int
    declared: int
    blocks: Sequence[Block]
    unit: str = "runs"

    @property
    def state(self) -> str:
        """How much of it there is."""
        if self.done == self.declared:
            return f"All {self.declared} {self.unit} are there."
        if not self.done:
            return f"Not run yet (0 of {self.declared} {self.unit})."
        return f"{self.declared - self.done} of {self.declared} {self.unit} are not run yet."


def section_of(source: Source) -> Section:
    """What there is to say about a sweep; without any run only that."""
    plan = PLANS.get(source.name) or Plan(f"Sweep {source.name}", "", (_means,))
    blocks = [block for build in plan.builders for block in build(source)] if source.rows else []
    return Section(source.name, plan.title, plan.text, len(source.rows), len(source.cells), blocks)


def in_order(sources: Iterable[Source]) -> list[Source]:
    """As :data:`PLANS` lists them; sweeps that it does not know come last."""
    known = list(PLANS)
    return sorted(
        sources,
        key=lambda source: known.index(source.name) if source.name in known else len(known),
    )


def _means(source: Source) -> Iterator[Block]:
    yield replace(summary(source.rows), title="Means over the seeds")


def _pairs(reference: str) -> Builder:
    def build(source: Source) -> Iterator[Block]:
        table = pairs(source.rows, reference)
        if table.rows:
            yield from pairs_figure(source, reference)
            yield replace(table, title=f"Differences from {reference}, paired by seed")

    return build


def _reached(source: Source) -> Iterator[Block]:
    yield reached(source.rows, source.paper)


def _full_batch(source: Source) -> Iterator[Block]:
    yield replace(full_batch_table(source), title="FedAvg by batch size")


def _clusters(source: Source) -> Iterator[Block]:
    def printed(record: Record, clusters: float) -> Any:
        return source.paper.printed_for_clusters(
            record["dataset"], int(clusters), record["clients"]
        )

    yield from lines_figure(source, "embedding.clusters", "clusters C", printed=printed)
    yield from cluster_grids(source)


def _hops(source: Source) -> Iterator[Block]:
    yield from lines_figure(source, "embedding.depth", "depth L of the embeddings (hops)")
    yield from _means(source)


def _privacy(source: Source) -> Iterator[Block]:
    yield from privacy_figure(source)
    yield privacy_table(source.rows)


def privacy_table(rows: Rows) -> Table:
    """Accuracy and what is promised, over the seeds; the prices are those of the first seed."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for settings, record in rows:
        told = record["privacy"]
        epsilon = str(settings.get("privacy.epsilon", "–"))
        method = marked(record["method"])
        mechanism = ", ".join(filter(None, [told["mechanism"], further_privacy(settings)]))
        facts = (record["dataset"], str(record["clients"]), method, mechanism)
        groups.setdefault((*facts, epsilon), []).append(record)
    lines = [(*facts[:4], *_private_cells(records)) for facts, records in groups.items()]
    headings = ("dataset", "M", "method", "mechanism", "ε as printed", "ε composed", "ε sound")
    records = [record for _, record in rows]
    notes = [*footnotes(record["method"] for record in records), *divergence(records)]
    columns = (*headings, "δ sound", "promise", "global test", "silo test", "seeds")
    return Table(columns, lines, (*notes, _PRICES), "Accuracy and privacy")


def _private_cells(records: Sequence[Record]) -> Iterator[str]:
    prices = {name: texts for name, *texts in price_rows(records[0]["privacy"])}
    nothing = ["–", "–", "–"]
    for name in ("paper", "composed"):
        yield prices.get(name, nothing)[0]
    yield from prices.get("sound", nothing)
    for metric in ("global", "silo"):
        yield spread([score_of(record, metric) for record in records])
    yield str(len(records))


def _curves(source: Source) -> Iterator[Block]:
    yield from curves_figure(source)
    yield from _means(source)


def _costs(source: Source) -> Iterator[Block]:
    for number, (title, records) in enumerate(comparable_runs(source.rows), start=1):
        costs = costs_of(records)
        figure = costs_figure(costs, title)
        yield figure if number == 1 else replace(figure, name=f"{figure.name}-{number}")
        table = measured_table(costs)
        yield replace(table, title=f"Measured: {title}", notes=(*table.notes, *NOTES))
        formulas = formula_table(records)
        if formulas.rows:
            yield replace(formulas, title=f"The paper's formulas: {title}")


def comparable_runs(rows: Rows) -> Iterator[tuple[str, list[Record]]]:
    """The runs that can be compared, one scenario after the other; seeds and presets apart."""
    groups: dict[str, dict[str, Record]] = {}
    for _, record in rows:
        if record["traffic"]["up_bytes"] and "data" in record:
            title = (
                f"{record['dataset']}, M = {record['clients']}, {record['rounds']} rounds, "
                f"{record['partition']}, {record['split']} split, preset {record['preset']}, "
                f"seed {record['seed']}"
            )
            groups.setdefault(title, {}).setdefault(record["method"], record)
    for title, by_method in groups.items():
        yield title, list(by_method.values())


PLANS: Mapping[str, Plan] = {
    "table1": Plan(
        "Table 1: every method",
        "Node classification with 3, 5 and 10 clients, beside the paper's numbers.",
        (paper_figure, paper_grids, _reached, ranks, gains, _pairs("fedavg"), _pairs("fedsage")),
    ),
    "quota": Plan(
        "Table 1 under the authors' split",
        "The split as the authors' code draws it, which the paper's numbers probably come from.",
        (paper_figure, paper_grids, _reached, ranks, gains, _pairs("fedavg"), _pairs("fedsage")),
    ),
    "table2": Plan(
        "Table 2: the number of clusters",
        "FedDEP with C prototypes a client, beside the paper's numbers.",
        (_clusters,),
    ),
    "hops": Plan(
        "The depth of the embeddings",
        "FedDEP with embeddings of L hops; L = 0 shares features, as FedSage does.",
        (_hops,),
    ),
    "privacy": Plan(
        "Utility against privacy",
        "What accuracy is left under each mechanism, and what the mechanism promises.",
        (_privacy,),
    ),
    "curves": Plan(
        "Training curves", "Accuracy, loss and time over 100 rounds.", (_curves,)
    ),
    "costs": Plan(
        "Costs", "What each method sends and how long it takes, beside the formulas.", (_costs,)
    ),
    "pays": Plan(
        "When does it pay?",
        "Accuracy as more edges are lost between clients and as features get weaker.",
        (lost_edges_figure, weaker_features_figure, gain_tables),
    ),
    "longer": Plan(
        "Is it worth it?",
        "The same after 200 rounds: the more clients, the fewer steps a round has at each of them.",
        (bother_figure, lost_edges_figure, weaker_features_figure, gain_tables),
    ),
    "links": Plan(
        "Linked silos",
        "What private codes of the nodes at the other end of a known edge are worth, by ε.",
        (gain_by_epsilon, linked_tables),
    ),
    "links_lost": Plan(
        "Linked silos, by lost edges",
        "The same with 3 to 20 silos and on more data: the more edges are lost, the more is there "
        "to gain.",
        (gain_by_epsilon, linked_tables),
    ),
    "links_labels": Plan(
        "Linked silos, by label rate",
        "The same with fewer labelled nodes: codes tell confirmed classes where there are any.",
        (gain_by_epsilon, linked_tables),
    ),
    "foundation": Plan(
        "Local, FedAvg and Global",
        "The frame of every comparison: alone, averaged, and with all data in one place.",
        (paper_figure, paper_grids, _means),
    ),
    "feddep_large": Plan(
        "FedDEP and FedAvg on the large data sets",
        "PubMed and MSAcademic with five seeds, beside the paper's numbers.",
        (paper_figure, paper_grids, _pairs("fedavg")),
    ),
    "baselines": Plan(
        "Every method, tuned",
        "With 5 clients under both splits; FedGNN's updates with and without noise.",
        (_means,),
    ),
    "controls": Plan(
        "Is it FedDEP?",
        "FedAvg with what comes with FedDEP without being FedDEP: a warm start, a learning rate.",
        (_pairs("fedavg"), _pairs("fedavg-warm")),
    ),
    "full_batch": Plan(
        "FedAvg with one step a round",
        "As the authors' configuration has it, beside batches of 32 and the paper's numbers.",
        (_full_batch,),
    ),
    "paired": Plan(
        "Paired with FedAvg",
        "FedDEP and the oracle with few and many lost edges, early and late.",
        (_pairs("fedavg"),),
    ),
    "yardsticks": Plan(
        "What true neighbours are worth",
        "FedGNN without noise has them as ordinary nodes, the oracle as embeddings z̄.",
        (_pairs("fedavg"), _means),
    ),
    "forms": Plan(
        "The form of the convolution",
        "A mean over the closed neighbourhood, or a node apart from its neighbours.",
        (_means,),
    ),
    "starts": Plan(
        "Where embeddings start",
        "F's weights for generated embeddings at zero or drawn, and embeddings centred or not.",
        (_means,),
    ),
}  # fmt: skip
