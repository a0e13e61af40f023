"""What the stored audits prove: one row for each audit, and one for each attack."""

from collections.abc import Mapping, Sequence
from typing import Any

from feddep.audit.findings import REJECTED_BELOW
from feddep.reports.table import Table

HEADINGS = (
    *("audit", "attack", "right guesses", "ε at least", "claimed ε", "p of the claim"),
    *("AUC", "found at 1% false"),
)
NOTE = (
    "*lists* and *noised sums* are positive controls: they are handed what the mechanism left. "
    "*sums* reads the planted leak. Bounds hold with 95% confidence each."
)
NONE_YET = "No audit is stored yet.\n"
SHORT_HEADINGS = (
    *("audit", "of", "claimed ε", "ε at least", "by", "could be at least"),
    "smallest p of the claim",
)
SHORT_NOTE = (
    "*ε at least*: the highest bound that an attack proved, with 95% confidence for each attack. "
    "*Could be at least*: what this many guesses prove if all are right. A claim is refuted "
    f"where p falls below {REJECTED_BELOW:g} in any attack."
)


def audits_table(audits: Sequence[Mapping[str, Any]]) -> str:
    """Every attack of the audits in Markdown, in the order given; a sentence if there are none."""
    rows = [_attack(found, name) for found in audits for name in found["attacks"]]
    return Table(HEADINGS, rows, [NOTE]).markdown() if rows else NONE_YET


def audits_in_short(audits: Sequence[Mapping[str, Any]]) -> str:
    """What the strongest attack of each audit proved."""
    rows = [_strongest(found) for found in audits]
    return Table(SHORT_HEADINGS, rows, [SHORT_NOTE]).markdown() if rows else NONE_YET


def _strongest(found: Mapping[str, Any]) -> list[str]:
    attacks = found["attacks"]
    by = max(attacks, key=lambda name: attacks[name]["bound"])
    tested = [one["p_claim"] for one in attacks.values() if one["p_claim"] is not None]
    return [
        found["name"],
        _title(found),
        _claim(found),
        f"{attacks[by]['bound']:.2f}",
        by,
        f"{found['provable']:.2f}",
        f"{min(tested):.2g}" if tested else "–",
    ]


def _title(found: Mapping[str, Any]) -> str:
    leak = ", planted leak" if found["planted_leak"] else ""
    return f"{found['title']}{leak}"


def _claim(found: Mapping[str, Any]) -> str:
    claim = found["claim"]["epsilon"]
    return "none" if claim is None else f"{claim:g}"


def _attack(found: Mapping[str, Any], name: str) -> list[str]:
    outcome = found["attacks"][name]
    return [
        _title(found),
        name,
        f"{outcome['right']}/{outcome['guesses']}",
        f"{outcome['bound']:.2f}",
        _claim(found),
        "–" if outcome["p_claim"] is None else f"{outcome['p_claim']:.2g}",
        f"{outcome['auc']:.3f}",
        f"{outcome['true_positives_at_1_percent']:.3f}",
    ]
