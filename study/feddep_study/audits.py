"""What the stored audits prove: one row for each attack."""

from collections.abc import Mapping, Sequence
from typing import Any

from feddep.reports.table import Table

HEADINGS = (
    *("audit", "attack", "right guesses", "ε at least", "claimed ε", "p of the claim"),
    *("AUC", "found at 1% false"),
)
NOTE = (
    "*lists* is the positive control: it is handed the neighbour lists as the mechanism left "
    "them. *sums* reads the planted leak. Bounds hold with 95% confidence each."
)


def audits_table(audits: Sequence[Mapping[str, Any]]) -> str:
    """The audits in Markdown, in the order given; a sentence if there are none."""
    if not audits:
        return "No audit is stored yet.\n"
    rows = [_row(found, name) for found in audits for name in found["attacks"]]
    return Table(HEADINGS, rows, [NOTE]).markdown()


def _row(found: Mapping[str, Any], name: str) -> list[str]:
    outcome, claim = found["attacks"][name], found["claim"]["epsilon"]
    title = found["title"] + (", planted leak" if found["planted_leak"] else "")
    return [
        title,
        name,
        f"{outcome['right']}/{outcome['guesses']}",
        f"{outcome['bound']:.2f}",
        "none" if claim is None else f"{claim:g}",
        "–" if outcome["p_claim"] is None else f"{outcome['p_claim']:.2g}",
        f"{outcome['auc']:.3f}",
        f"{outcome['true_positives_at_1_percent']:.3f}",
    ]
