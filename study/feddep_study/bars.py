"""What linked silos are to reach, beside what the stored records say."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from feddep.reports.formatting import points
from feddep.reports.table import Table
from feddep.scenario.spec import RunSpec
from feddep_study.linked import LINKED, Linked, Setting, Way
from feddep_study.paper_tables import NOT_RUN
from feddep_study.payments import WITH
from feddep_study.payments_tables import CHOSEN, Payments, in_thousandths, mean_of
from feddep_study.source import Source
from feddep_study.statistics.paired import REFERENCE, Difference

SWEEP = "links"
ORACLE = "linked-oracle"
_NOTE = (
    "A bar is reached where the mean is at least what is asked and, where asked, its interval too."
)


def bars_table(sources: Mapping[str, Source], payments: Sequence[Mapping[str, Any]]) -> Table:
    """A line for each bar: what is asked, what was measured, and whether that is enough."""
    linked = Linked.of(sources[SWEEP]) if SWEEP in sources else Linked({})
    lines = [*_of_accuracy(linked), *_of_payments(payments)]
    return Table(("where", "what", "at least", "measured", "verdict"), lines, (_NOTE,))


def _of_accuracy(linked: Linked) -> Iterator[tuple[str, ...]]:
    train = RunSpec().split.train
    many = Setting("cora", "random", 10, train)
    yield _line(linked, many, 4.0, REFERENCE, 0.06, 0.04)
    yield _line(linked, many, math.inf, ORACLE, -0.03)
    yield _line(linked, many, 2.0, REFERENCE, 0.0)
    for dataset in ("cora", "citeseer"):
        yield _line(linked, Setting(dataset, "louvain", 5, train), 4.0, REFERENCE, -0.003)


def _line(
    linked: Linked,
    setting: Setting,
    epsilon: float,
    reference: str,
    least: float,
    low: float | None = None,
) -> tuple[str, ...]:
    way = Way(LINKED, epsilon)
    found = linked.difference(setting, way, Way(reference))
    asked = points(least) + ("" if low is None else f", interval above {points(low)}")
    where, what = f"{setting.dataset}, {setting.title}", f"{way} − {reference}"
    if found is None:
        return where, what, asked, NOT_RUN, NOT_RUN
    difference, seeds = found
    declared = linked.declared(setting, way)
    fewer = "" if seeds == declared else f", {seeds} of {declared} seeds"
    return where, what, asked, f"{difference}{fewer}", _verdict(difference, least, low)


def _verdict(difference: Difference, least: float, low: float | None = None) -> str:
    enough = difference.mean >= least
    if low is not None:
        enough = enough and difference.ends is not None and difference.ends[0] > low
    return "reached" if enough else "not reached"


def _of_payments(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    known, unknown = (Payments.of(rows, "aml", split) for split in ("stratified", "pattern"))
    for kind, where, way, least in (
        (known, "aml, stratified", "labels, ε = 4", 0.05),
        (known, "aml, stratified", "labels, no noise", 0.10),
        (unknown, "aml, by pattern", CHOSEN, -0.02),
    ):
        gain = kind.difference(way)
        told = (NOT_RUN, NOT_RUN)
        if gain is not None:
            told = (in_thousandths(gain), _verdict(gain, least))
        yield where, f"{way} − {REFERENCE}, average precision", f"{least:+.2f}", *told
    way = WITH + "labels, no noise"
    mean = mean_of(known.scores(way))
    told = (NOT_RUN, NOT_RUN)
    if mean is not None:
        told = (f"{mean:.3f}", "reached" if mean >= 0.5 else "not reached")
    yield "aml, stratified", f"{way}, average precision", "0.50", *told
