"""The paper's claims and what our runs say about each, as tables: one for each of its sections."""

from collections.abc import Iterator, Mapping, Sequence

from feddep.reports.claims import CONTRADICTED, OPEN, SO_FAR, SUPPORTED, Finding, examine
from feddep.reports.grids import NOT_RUN
from feddep.reports.paper_claims import CLAIMS, SECTIONS
from feddep.reports.source import Source
from feddep.reports.table import Table

HEADINGS = (
    "claim",
    "tested as",
    "runs",
    "paper",
    "ours",
    "for / against / undecided",
    "settings",
    "verdict",
)
NOTE = (
    "*Ours* is the mean over settings with its 95% interval, *paper* the same mean of its printed "
    "numbers; both are in percentage points of accuracy unless the test says %. *For*, *against* "
    "and *undecided* count the settings by their own intervals. A claim is supported if the "
    "interval of the mean lies in the claimed range and no more settings are against it than for "
    "it; contradicted if it lies outside and no more are for it than against it; else open."
)


_ORDER = (
    *(f"{word}{more}" for word in (SUPPORTED, CONTRADICTED, OPEN) for more in ("", SO_FAR)),
    NOT_RUN,
)

Findings = Sequence[Sequence[Finding]]
"""Those of every claim; the first of each counts."""


def findings(sources: Mapping[str, Source]) -> Findings:
    """What there is to say about every claim whose sweeps are declared."""
    found = (list(examine(claim, sources)) for claim in CLAIMS)
    return [own for own in found if own]


def verdict_tables(found: Findings) -> Iterator[Table]:
    """One for each section of the paper; the first says how to read it."""
    notes: Sequence[str] = (NOTE,)
    numbered = list(enumerate(found, start=1))
    for section, title in SECTIONS.items():
        here = [(number, own) for number, own in numbered if own[0].claim.section == section]
        lines = [line for number, own in here for line in _lines(number, own)]
        if lines:
            yield Table(HEADINGS, lines, notes, f"Section {section}, {title}")
            notes = ()


def summary(found: Findings) -> str:
    """How many claims have which verdict, in one sentence."""
    verdicts = [first.verdict for first, *_ in found]
    counts = [f"{verdicts.count(word)} {word}" for word in _ORDER if word in verdicts]
    return f"Of {len(found)} claims, by the first line of each: {', '.join(counts)}."


def _lines(number: int, own: Sequence[Finding]) -> Iterator[tuple[str, ...]]:
    """A line for each body of evidence; the claim is said once."""
    for place, finding in enumerate(own):
        claim = finding.claim
        said = (f"{number}. {claim.text}", claim.claimed) if not place else (f"{number}. also", "")
        yield *said, str(finding.evidence), *finding.numbers, finding.verdict
