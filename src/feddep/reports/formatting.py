"""How numbers, methods and tables are written, alike in all reports."""

from collections.abc import Iterable, Iterator, Sequence

from feddep.algorithms import METHODS
from feddep.runs.files import Record

SEES_CROSS_EDGES = "†"
RECONSTRUCTION = "‡"
MEANINGS = {
    SEES_CROSS_EDGES: "sees cross-client edges, which nobody has in our problem.",
    RECONSTRUCTION: "a reconstruction from what the FedDEP paper says about it.",
}


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
    """A note about runs whose training diverged, if there are any."""
    found = dict.fromkeys(
        f"{marked(r['method'])} on {r['dataset']} with M = {r['clients']}, seed {r['seed']}"
        for r in records
        if "diverged" in r
    )
    if not found:
        return []
    return [
        "Training diverged and ended early, so the best round before that counts: "
        f"{'; '.join(found)}."
    ]


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
