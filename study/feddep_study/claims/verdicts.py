"""The paper's claims and what our runs say about each, as tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from feddep.reports.table import Table
from feddep_study.claims.channels import CHANGED, PROBE, RATIO, WAY
from feddep_study.claims.paper_claims import CLAIMS, QUESTIONS, SECTIONS
from feddep_study.claims.rule import (
    CONTRADICTED,
    NOT_TESTABLE,
    OPEN,
    SO_FAR,
    SUPPORTED,
    Claim,
    Finding,
    examine,
)
from feddep_study.paper_tables import NOT_RUN
from feddep_study.source import Source

HEADINGS = (
    *("claim", "verdict", "ours", "paper", "paper's mean inside"),
    *("for / against / undecided", "settings", "tested as", "runs"),
)
NOTE = (
    "*Ours* is the mean over the settings that decide, with its 95% interval, and behind *of all* "
    "the mean over every setting where some do not decide; *paper* is the mean of its printed "
    "numbers for all these settings. Both are in percentage points of accuracy unless the test "
    "says %. *Paper's mean inside* tells whether it lies in our interval, where both are of the "
    "same settings; its own error is not counted. *For*, *against* and *undecided* count the "
    "settings by their own intervals. A claim is supported if the interval of the mean lies in the "
    "claimed range and no more settings are against it than for it; contradicted if it lies "
    "outside and no more are for it than against it; else open. What is claimed of every setting, "
    "or a range with two ends, also needs the mean of each setting in the range. A claim about a "
    "component is looked at only where something passes through it: the probe of z̄ has at least "
    f"{PROBE:.0%} of the accuracy that own embeddings give and comes at least {WAY:.0%} of the way "
    f"to it from the majority class, and ‖W_z‖ ÷ ‖W_x‖ is at least {RATIO:g} or z̄ changes at least "
    f"{CHANGED:.0%} of the predictions, in the mean over seeds. Where that holds nowhere, it "
    "is not testable, and its numbers, over all settings, say nothing about it."
)
ALSO = "The same claims under the tuned preset and the authors' split"
ASKED = "Our own questions, which are no claims of the paper and not counted"

_ORDER = (
    *(
        f"{word}{more}"
        for word in (SUPPORTED, CONTRADICTED, OPEN, NOT_TESTABLE)
        for more in ("", SO_FAR)
    ),
    NOT_RUN,
)


@dataclass(frozen=True)
class Findings:
    """What the runs say; the first finding about each claim is the one that counts.

    Attributes:
        claims: about each claim of the paper.
        questions: about each question of our own.
    """

    claims: Sequence[Sequence[Finding]]
    questions: Sequence[Sequence[Finding]] = ()


def findings(sources: Mapping[str, Source]) -> Findings:
    """What there is to say about every claim whose sweeps are declared."""
    return Findings(_examined(CLAIMS, sources), _examined(QUESTIONS, sources))


def verdict_tables(found: Findings) -> Iterator[Table]:
    """One for each section of the paper, one of other runs about the same claims, and our own.

    The first says how to read them.
    """
    numbered = list(enumerate(found.claims, start=1))
    parts = {
        f"Section {section}, {title}": [
            _line(f"{n}. ", own[0]) for n, own in numbered if own[0].claim.section == section
        ]
        for section, title in SECTIONS.items()
    }
    parts[ALSO] = [_line(f"{n}. ", one) for n, own in numbered for one in own[1:]]
    parts[ASKED] = [_line("", one) for own in found.questions for one in own]
    notes: Sequence[str] = (NOTE,)
    for title, lines in parts.items():
        if lines:
            yield Table(HEADINGS, lines, notes, title)
            notes = ()


def summary(found: Findings) -> str:
    """How many claims have which verdict, in one sentence."""
    verdicts = [first.verdict.word for first, *_ in found.claims]
    counts = [f"{verdicts.count(word)} {word}" for word in _ORDER if word in verdicts]
    weak = [
        first.claim.rival
        for first, *_ in found.claims
        if first.caveat and first.caveat in first.verdict.reason
    ]
    said = f"Of {len(verdicts)} claims: {', '.join(counts)}."
    rivals = ", ".join(f"{weak.count(rival)} with {rival}" for rival in dict.fromkeys(weak))
    return (
        f"{said} Of those decided, {len(weak)} compare with a method that is far below the "
        f"paper's here: {rivals}."
        if weak
        else said
    )


def _examined(
    claims: Sequence[Claim], sources: Mapping[str, Source]
) -> Sequence[Sequence[Finding]]:
    found = (list(examine(claim, sources)) for claim in claims)
    return [own for own in found if own]


def _line(number: str, finding: Finding) -> tuple[str, ...]:
    claim = finding.claim
    said, verdict = f"{number}{claim.text}", str(finding.verdict)
    return said, verdict, *finding.numbers, claim.claimed, str(finding.evidence)
