"""The paper's claims and what our runs say about each, as tables."""

from collections.abc import Iterator, Mapping, Sequence

from feddep.reports.claims import CONTRADICTED, OPEN, SO_FAR, SUPPORTED, Finding, examine
from feddep.reports.grids import NOT_RUN
from feddep.reports.paper_claims import CLAIMS, SECTIONS
from feddep.reports.source import Source
from feddep.reports.table import Table

HEADINGS = (
    "claim",
    "verdict",
    "ours",
    "paper",
    "for / against / undecided",
    "settings",
    "tested as",
    "runs",
)
NOTE = (
    "*Ours* is the mean over settings with its 95% interval, *paper* that of its printed numbers "
    "for the same settings; both are in percentage points of accuracy unless the test says %. "
    "*For*, *against* and *undecided* count the settings by their own intervals. A claim is "
    "supported if the interval of the mean lies in the claimed range and no more settings are "
    "against it than for it; contradicted if it lies outside and no more are for it than against "
    "it; else open."
)
ALSO = "The same claims under the tuned preset and the authors' split"

_ORDER = (
    *(f"{word}{more}" for word in (SUPPORTED, CONTRADICTED, OPEN) for more in ("", SO_FAR)),
    NOT_RUN,
)

Findings = Sequence[Sequence[Finding]]
"""Those of every claim; the first of each is the one that counts."""


def findings(sources: Mapping[str, Source]) -> Findings:
    """What there is to say about every claim whose sweeps are declared."""
    found = (list(examine(claim, sources)) for claim in CLAIMS)
    return [own for own in found if own]


def verdict_tables(found: Findings) -> Iterator[Table]:
    """One for each section of the paper, and one of other runs about the same claims.

    The first says how to read them.
    """
    notes: Sequence[str] = (NOTE,)
    numbered = list(enumerate(found, start=1))
    for section, title in SECTIONS.items():
        lines = [_line(n, own[0]) for n, own in numbered if own[0].claim.section == section]
        if lines:
            yield Table(HEADINGS, lines, notes, f"Section {section}, {title}")
            notes = ()
    lines = [_line(n, one) for n, own in numbered for one in own[1:]]
    if lines:
        yield Table(HEADINGS, lines, notes, ALSO)


def summary(found: Findings) -> str:
    """How many claims have which verdict, in one sentence."""
    verdicts = [first.verdict for first, *_ in found]
    counts = [f"{verdicts.count(word)} {word}" for word in _ORDER if word in verdicts]
    return f"Of {len(found)} claims: {', '.join(counts)}."


def _line(number: int, finding: Finding) -> tuple[str, ...]:
    claim = finding.claim
    said = f"{number}. {claim.text}"
    return said, finding.verdict, *finding.numbers, claim.claimed, str(finding.evidence)
