"""What is generated: how many neighbours, what they tell about the class, and whether F listens."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from feddep.algorithms import METHODS
from feddep.reports.charts import Axis, Figure, Key, Panel, Point, Series
from feddep.reports.formatting import footnotes, marked
from feddep.reports.palette import Style, style_of
from feddep.reports.summary import Rows, headings, records_by_setting
from feddep.reports.table import Table
from feddep.runs.files import Record
from feddep_study.claims.channels import CHANGED, PROBE, RATIO, is_open
from feddep_study.figures.accuracy import ZOOM, method_keys
from feddep_study.gain_by_lost_edges import with_all_features
from feddep_study.paper_tables import NOT_RUN
from feddep_study.source import Source
from feddep_study.statistics.paired import CONFIDENCE, Difference, compared_settings

FILE = "generation.svg"
NOTE = (
    "ñ is the number of neighbours that a node is thought to miss, mean ± standard deviation over "
    "nodes; its correlation is with the number that it does miss. *Mended* nodes have a generated "
    "neighbour. The probe is the accuracy of a linear classifier from z̄ to the class on their "
    "validation nodes; *own* is the same from their own embeddings, *majority* from nothing. "
    "*Changed* are the predictions on validation and test nodes of the silos that are others "
    f"without z̄. Brackets are {CONFIDENCE:.0%} Student-t intervals over seeds. The channel is open "
    "where claims about components can be tested."
)
_COLUMNS = (
    *("edges lost", "method", "ñ", "correlation of ñ", "mended", "probe of z̄", "own", "majority"),
    *("‖W_z‖ ÷ ‖W_x‖", "changed", "channel", "seeds"),
)
_SWEEPS = ("table1", "pays")
_PRESET = "paper"
_SHORT = (("louvain", 5), ("random", 10))
_DATA = {"cora": "circle", "citeseer": "square", "pubmed": "up", "msacademic": "down"}
_PARTITIONS = {"louvain": Style(), "random": Style(hollow=True)}


def generation_table(source: Source) -> Table:
    """One line for each setting of a sweep and each method that generates anything."""
    rows = [row for row in source.rows if row[1].get("generation")]
    names = compared_settings(rows)
    lines = [
        (*setting[:-1], *_cells(source, records))
        for setting, records in records_by_setting(rows, [*names, "method"]).items()
    ]
    notes = (*footnotes(record["method"] for _, record in rows), NOTE)
    return Table((*headings(names), *_COLUMNS), lines, notes)


def generation_text(source: Source) -> str:
    """The table, or that there is nothing for it."""
    table = generation_table(source)
    return table.markdown() if table.rows else "None of these runs tells what was generated.\n"


def generated_in_short(sources: Mapping[str, Source]) -> str:
    """What FedDEP generates under the paper's settings, a line a data set; for the findings."""
    rows = [
        row
        for source, row in _paper_rows(sources)
        if row[1]["method"] == "feddep" and _partition(row[1]) in _SHORT
    ]
    lines = []
    for (dataset, kind, clients), records in sorted(_by_place(rows).items(), key=_short_place):
        lost = [record["data"]["lost_share"] for record in records]
        told = _Told(records)
        lines.append(
            (
                *(dataset, kind, str(clients), f"{statistics.fmean(lost):.0%}"),
                *(told.number("count_correlation"), told.of_own, told.number("probe_majority")),
                *(told.number("weight_ratio"), told.share("changed"), told.channel),
                str(len(records)),
            )
        )
    if not lines:
        return f"The runs that tell are {NOT_RUN}.\n"
    columns = (
        *("data", "partition", "M", "edges lost", "correlation of ñ", "probe of z̄ (own)"),
        *("majority", "‖W_z‖ ÷ ‖W_x‖", "predictions changed", "channel", "seeds"),
    )
    return Table(columns, lines).markdown()


def generation_figure(sources: Mapping[str, Source]) -> Iterator[Figure]:
    """Four measurements over the share of lost edges, a mark for each setting and method."""
    rows = [row for _, row in _paper_rows(sources) if METHODS[row[1]["method"]].trains_generator]
    panels = [_panel(rows, *what) for what in _PANELS]
    if not all(panel.series for panel in panels):
        return
    shown = {key for panel in panels for series in panel.series for key in series.keys}
    keys = method_keys(name for name in METHODS if name in shown)
    keys += [
        Key(name, name, Style(marker=_marker(name)), "data")
        for name in (*_DATA, "synthetic")
        if name in shown
    ]
    keys += [
        Key(kind, f"{kind} partition", style, "partitions")
        for kind, style in _PARTITIONS.items()
        if kind in shown
    ]
    yield Figure(
        "generation",
        "What is generated, and whether F listens",
        panels,
        keys,
        f"Over the share of edges lost between clients, preset {_PRESET}, means over seeds with "
        f"{CONFIDENCE:.0%} intervals. Lines are at no correlation, and where a channel counts as "
        f"open: {PROBE:.0%} of what own embeddings tell, and a ratio of {RATIO:g} or "
        f"{CHANGED:.0%} of the predictions. {ZOOM}",
    )


@dataclass(frozen=True)
class _Told:
    """What runs that differ in their seed say about generation, as texts."""

    records: Sequence[Record]

    def values(self, name: str) -> list[float]:
        found = [record["generation"].get(name) for record in self.records]
        return [value for value in found if value is not None]

    def mean(self, name: str, form: str = ".2f") -> str:
        values = self.values(name)
        return f"{statistics.fmean(values):{form}}" if values else "–"

    def number(self, name: str) -> str:
        return self._interval(name, ".2f")

    def share(self, name: str) -> str:
        return self._interval(name, ".1%")

    @property
    def of_own(self) -> str:
        return f"{self.number('probe')} ({self.mean('probe_own')})"

    @property
    def channel(self) -> str:
        return "open" if is_open(self.records) else "closed"

    def _interval(self, name: str, form: str) -> str:
        values = self.values(name)
        if not values:
            return "–"
        found = Difference.of(values)
        text = f"{found.mean:{form}}"
        if found.ends is not None:
            text += f" [{', '.join(f'{end:{form}}' for end in found.ends)}]"
        return text.replace("-", "−")


def _cells(source: Source, records: Sequence[Record]) -> tuple[str, ...]:
    """The texts under :data:`_COLUMNS`."""
    told = _Told(records)
    lost = [share for share in map(source.lost_share, records) if share is not None]
    return (
        f"{statistics.fmean(lost):.0%}" if lost else "–",
        marked(records[0]["method"]),
        f"{told.mean('count_mean')} ± {told.mean('count_sd')}",
        told.number("count_correlation"),
        told.mean("share_mended", ".0%"),
        told.number("probe"),
        told.mean("probe_own"),
        told.mean("probe_majority"),
        told.number("weight_ratio"),
        told.share("changed"),
        told.channel,
        str(len(records)),
    )


Row = tuple[Mapping[str, object], Record]


def _paper_rows(sources: Mapping[str, Source]) -> list[tuple[Source, Row]]:
    """Runs that tell what was generated under the paper's settings; each once."""
    found: dict[tuple[object, ...], tuple[Source, Row]] = {}
    for source in (with_all_features(sources[name]) for name in _SWEEPS if name in sources):
        for settings, record in source.rows:
            if record.get("generation") and record["preset"] == _PRESET:
                run = (record["method"], record["dataset"], *_partition(record), record["seed"])
                found[run] = source, (settings, record)
    return list(found.values())


def _partition(record: Record) -> tuple[str, int]:
    return record["partition"], record["clients"]


Place = tuple[str, str, int]


def _by_place(rows: Iterable[Row]) -> dict[Place, list[Record]]:
    """By data set, kind of partition and number of clients."""
    found: dict[Place, list[Record]] = {}
    for _, record in rows:
        found.setdefault((record["dataset"], *_partition(record)), []).append(record)
    return found


def _short_place(entry: tuple[Place, list[Record]]) -> tuple[int, int]:
    (dataset, *partition), _ = entry
    known = list(_DATA)
    number = known.index(dataset) if dataset in known else len(known)
    return _SHORT.index(tuple(partition)), number


def _of_own(record: Record) -> float | None:
    """The probe's accuracy as a share of what own embeddings give."""
    probe, own = (record["generation"].get(name) for name in ("probe", "probe_own"))
    return None if probe is None or not own else float(probe / own)


def _named(name: str) -> Callable[[Record], float | None]:
    return lambda record: record["generation"].get(name)


_PANELS: Sequence[tuple[str, str, Callable[[Record], float | None], float]] = (
    ("Do counts follow what is missing?", "correlation of ñ", _named("count_correlation"), 0.0),
    ("What z̄ tells of the class", "probe of z̄ ÷ of own embeddings", _of_own, PROBE),
    ("F's weights for z̄", "‖W_z‖ ÷ ‖W_x‖", _named("weight_ratio"), RATIO),
    ("Predictions that z̄ changes", "share changed", _named("changed"), CHANGED),
)


def _panel(
    rows: Rows, title: str, label: str, measure: Callable[[Record], float | None], guide: float
) -> Panel:
    series = []
    for method in METHODS:
        own = [row for row in rows if row[1]["method"] == method]
        for (dataset, kind, clients), records in _by_place(own).items():
            values = [value for value in map(measure, records) if value is not None]
            if not values:
                continue
            found = Difference.of(values)
            low, high = found.ends or (None, None)
            lost = statistics.fmean(record["data"]["lost_share"] for record in records)
            tip = f"{marked(method)}, {dataset}, {kind}, M = {clients}: {found.mean:.2f}"
            style = Style(
                style_of(method).colour, _marker(dataset), hollow=_PARTITIONS[kind].hollow
            )
            point = Point(lost, found.mean, tip, low, high)
            series.append(Series((method, dataset, kind), [point], style, line=False))
    return Panel(title, Axis("share of edges lost"), Axis(label), series, guide=guide)


def _marker(dataset: str) -> str:
    return _DATA.get(dataset, "diamond")
