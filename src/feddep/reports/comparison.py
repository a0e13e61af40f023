"""Methods side by side: accuracy, bytes, seconds."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from feddep.algorithms import METHODS
from feddep.runs.files import Record

SEES_CROSS_EDGES = "†"
RECONSTRUCTION = "‡"
MEANINGS = {
    SEES_CROSS_EDGES: "sees cross-client edges, which nobody has in our problem.",
    RECONSTRUCTION: "a reconstruction from what the FedDEP paper says about it.",
}
HEADINGS = ("method", "test (global)", "test (silo)", "bytes up", "bytes down", "seconds")


def comparison_rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """One row of texts for each record, under :data:`HEADINGS`."""
    return [
        (
            marked(record["method"]),
            accuracy(record["scores"]["global"]["test"]),
            accuracy(record["scores"]["silo"]["test"]),
            size(record["traffic"]["up_bytes"]),
            size(record["traffic"]["down_bytes"]),
            f"{record['seconds']['total']:.1f}",
        )
        for record in records
    ]


def marked(method: str) -> str:
    """A method's name with the marks that every table shows."""
    return method + "".join(_marks(method))


def footnotes(methods: Iterable[str]) -> list[str]:
    """What the marks of these methods mean."""
    shown = {mark for method in methods for mark in _marks(method)}
    return [f"{mark} {meaning}" for mark, meaning in MEANINGS.items() if mark in shown]


def _marks(method: str) -> Iterator[str]:
    known = METHODS.get(method)
    if known and known.sees_cross_edges:
        yield SEES_CROSS_EDGES
    if known and known.reconstruction:
        yield RECONSTRUCTION


def divergence(records: Iterable[Record]) -> list[str]:
    """A note about runs whose training ran away, if there are such."""
    found = dict.fromkeys(
        f"{marked(r['method'])} on {r['dataset']} with M = {r['clients']}, seed {r['seed']}"
        for r in records
        if "diverged" in r
    )
    if not found:
        return []
    return [
        f"Training ran away and ended early, so the best round before counts: {'; '.join(found)}."
    ]


def comparison_markdown(records: Sequence[Record]) -> str:
    """A page about several runs of one scenario."""
    first = records[0]
    lines = [
        f"# {first['dataset']}, {first['clients']} clients, {_rounds(records)} rounds, "
        f"seed {first['seed']}",
        "",
        f"Partition `{first['partition']}`, split `{first['split']}`, preset `{first['preset']}`. "
        "Test scores are taken at the round with the best validation score. *Global* queries the "
        "test nodes on the whole graph; *silo* each client's own test nodes on its own subgraph.",
        "",
        markdown_table(HEADINGS, comparison_rows(records)),
        *footnotes(record["method"] for record in records),
    ]
    return "\n".join(lines)


def _rounds(records: Sequence[Record]) -> str:
    """A tuned preset may give every method its own number."""
    return " or ".join(map(str, sorted({record["rounds"] for record in records})))


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; all columns but the first are right-aligned."""
    rule = ["---"] + ["---:"] * (len(headings) - 1)
    return "".join(f"| {' | '.join(row)} |\n" for row in (headings, rule, *rows))


def accuracy(value: float | None) -> str:
    """Four digits, as in the paper."""
    return "–" if value is None else f"{value:.4f}"


def points(difference: float) -> str:
    """A difference of accuracies in percentage points, always with its sign."""
    return f"{100 * difference:+z.2f}".replace("-", "−")


def size(count: int) -> str:
    """Bytes for people."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def run_summary(record: Record) -> list[tuple[str, str]]:
    """What to tell about one run, as names and texts."""
    scores: dict[str, Any] = record["scores"]
    traffic: dict[str, Any] = record["traffic"]
    return [
        ("test accuracy, whole graph", accuracy(scores["global"]["test"])),
        ("  at the last round", accuracy(scores["global"]["test_last"])),
        ("test accuracy, own silo", accuracy(scores["silo"]["test"])),
        ("validation accuracy, own silo", accuracy(scores["silo"]["val"])),
        ("best round", f"{record['best_round']} of {record['rounds']}"),
        *([("training ran away", record["diverged"])] if "diverged" in record else []),
        ("sent up / down", f"{size(traffic['up_bytes'])} / {size(traffic['down_bytes'])}"),
        ("seconds", f"{record['seconds']['total']:.1f}"),
        ("privacy", record["privacy"]["verdict"]),
    ]
