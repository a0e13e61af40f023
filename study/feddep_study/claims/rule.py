"""Whether stored runs bear out a claim: one rule for all claims of the paper.

A claim says that some measure lies in a range, such as "FedDEP less FedSage is above 0". The
measure is taken from the runs with the same setting and seed, so it is a paired difference; pooled
over settings (:mod:`feddep_study.statistics.pooling`), it has a 95% interval. An interval is *for*
the claim if all of it lies in the claimed range, *against* it if all of it lies outside, else
*undecided*. The claim is

- **supported** if the pooled interval is for it, and no more settings are against it than for it,
- **contradicted** if the pooled interval is against it, and no more settings are for it than
  against it,
- **open** otherwise.

A range with two ends is also contradicted by two settings that are against it, if no more are for
it: effects of opposite sign leave a mean in the middle. A claim about *every* setting is
contradicted by two that are against it: one in a dozen would be no surprise among 95% intervals.
What is exact, such as bytes, one contradicts. Either kind of claim is supported only if the mean of
every single setting lies in the range.

One seed has no interval, nor have equal differences; data sets with nothing else stand outside the
pooled interval, and a finding tells how many settings are in it. They cannot decide, but they can
object: the mean over all data sets must be on the side of the verdict. Seconds decide nothing if
they were measured beside other runs. Beside a decision about a lead over a method stands whether
that method is far below what the paper prints for it, by 10 points or more in the mean. While runs
are missing a verdict is given *so far*; without any it is *not run yet*.

A claim about a component of FedDEP is decided only where something passes through the component:
where the probe of z̄ has 75% of own embeddings' accuracy and comes half of the way to it from the
majority class, and ‖W_z‖ ÷ ‖W_x‖ is 0.1 or z̄ changes 2% of the predictions
(:mod:`feddep_study.claims.channels` says why). Settings where a method of the claim does not reach
that are left out; if none is left, the claim is **not testable**, whatever the differences are.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from feddep.reports.formatting import points
from feddep.reports.summary import Rows, score_of
from feddep.scenario.spec import RunSpec
from feddep_study.against_paper import Paper
from feddep_study.claims.channels import Channel, closed_settings
from feddep_study.claims.evidence import Cases, Evidence, Measure, NotThereError
from feddep_study.paper_tables import NOT_RUN
from feddep_study.source import Source
from feddep_study.statistics.paired import Difference
from feddep_study.statistics.pooling import Pooled, Setting, pooled

SUPPORTED, CONTRADICTED, OPEN = "supported", "contradicted", "open"
NOT_TESTABLE = "not testable"
FOR, AGAINST, UNDECIDED = "for", "against", "undecided"
SO_FAR = " so far"
COUNTEREXAMPLES = 2
"""So many settings against a claim about every setting, or about a band, contradict it."""

BESIDE_OTHERS = "measured beside other runs"
FAR_BELOW = 0.10
"""A rival that is so far below what the paper prints for it is another one: a lead says little."""


@dataclass(frozen=True)
class Verdict:
    """What runs say about a claim.

    Attributes:
        word: supported, contradicted, open, not testable or not run yet; perhaps *so far*.
        reason: why, where the numbers do not tell.
    """

    word: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.reason})" if self.reason else self.word


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper.

    Attributes:
        section: of the paper.
        text: the claim in words.
        measure: what it is about.
        evidence: where it is looked at; the first counts.
        above: the range that is claimed, as shares of 1, begins here; None where it has no end.
        below: and ends here.
        every: it is claimed of every setting.
        rival: the method that must do as well as in the paper for a decision to say much.
        through: the channels that must be open where it is tested; a claim that is not about a
            component has none.
    """

    section: str
    text: str
    measure: Measure
    evidence: Sequence[Evidence]
    above: float | None = 0.0
    below: float | None = None
    every: bool = False
    rival: str = ""
    through: tuple[Channel, ...] = ()

    @property
    def claimed(self) -> str:
        """The measure and its range."""
        unit = self.measure.unit
        low = "" if self.above is None else f" > {_bound(self.above, unit)}"
        high = "" if self.below is None else f" < {_bound(self.below, unit)}"
        both = f"{low} and{high}" if low and high else low + high
        return f"{self.measure.text}{both}{' everywhere' if self.every else ''}"

    def holds(self, value: float) -> bool:
        """Whether a value lies in the range."""
        above, below = self.above, self.below
        return (above is None or value > above) and (below is None or value < below)

    def side(self, difference: Difference) -> str:
        """Whether an interval is for the claim, against it, or neither."""
        if difference.ends is None:
            return UNDECIDED
        low, high = difference.ends
        if self.holds(low) and self.holds(high):
            return FOR
        above, below = self.above, self.below
        if (above is not None and high < above) or (below is not None and low > below):
            return AGAINST
        return UNDECIDED

    def verdict(self, found: Pooled) -> Verdict:
        """What the runs say, by the rule at the top."""
        sides = [self.side(difference) for difference in found.settings.values()]
        agreeing, opposing = sides.count(FOR), sides.count(AGAINST)
        overall = self.side(found.overall)
        enough = 1 if self.measure.exact else COUNTEREXAMPLES
        if opposing >= enough and (self.every or (self._is_band and opposing >= agreeing)):
            return Verdict(CONTRADICTED)
        if overall == FOR and agreeing >= opposing:
            return self._supported(found)
        if overall == AGAINST and opposing >= agreeing:
            return Verdict(OPEN, _OBJECTION) if self.holds(found.mean) else Verdict(CONTRADICTED)
        return Verdict(OPEN)

    def _supported(self, found: Pooled) -> Verdict:
        """Unless the means of single settings, or of all, object."""
        outside = sum(not self.holds(one.mean) for one in found.settings.values())
        if outside and (self.every or self._is_band):
            return Verdict(OPEN, f"{_settings(outside)} outside by the mean")
        if not self.holds(found.mean):
            return Verdict(OPEN, _OBJECTION)
        bare = sum(one.ends is None for one in found.settings.values())
        if self.every and bare:
            return Verdict(SUPPORTED, f"{_settings(bare)} by the mean alone")
        return Verdict(SUPPORTED)

    @property
    def _is_band(self) -> bool:
        return self.above is not None and self.below is not None


@dataclass(frozen=True)
class Finding:
    """What one body of evidence says about a claim.

    Attributes:
        claim: which.
        evidence: where it was looked at.
        found: the measure over the settings where it can be tested, over all that have runs if it
            can be tested nowhere; None without runs.
        declared: settings that the sweep has.
        complete: every declared setting and seed has its value.
        printed: the mean of the measure in the paper's tables, where they have it, over the same
            settings; over all of them while there are no runs.
        alone: no seconds were measured beside other runs.
        caveat: what belongs beside a decision.
        closed: settings with runs in which a channel of the claim is closed.
    """

    claim: Claim
    evidence: Evidence
    found: Pooled | None
    declared: int
    complete: bool
    printed: float | None
    alone: bool = True
    caveat: str = ""
    closed: Set[Setting] = frozenset()

    @property
    def verdict(self) -> Verdict:
        """The word for it, and what is to be known about it."""
        if self.found is None:
            return Verdict(NOT_RUN)
        own = self._own_verdict(self.found)
        return own if self.complete else replace(own, word=own.word + SO_FAR)

    def _own_verdict(self, found: Pooled) -> Verdict:
        if not self.testable:
            return Verdict(NOT_TESTABLE, _CLOSED)
        own = self.claim.verdict(found) if self.alone else Verdict(OPEN, BESIDE_OTHERS)
        beside = [own.reason, "" if own.word == OPEN else self.caveat]
        if self.closed:
            beside.append(f"{_settings(len(self.closed))} not testable")
        return replace(own, reason="; ".join(filter(None, beside)))

    @property
    def testable(self) -> bool:
        """Whether there is a setting in which the claim's channels are open."""
        return self.found is None or not self.found.settings.keys() <= self.closed

    @property
    def holds_printed(self) -> bool | None:
        """Whether our interval holds the paper's figure; None if they are not of the same settings.

        They are not while data sets without an interval stand in the paper's mean alone.
        """
        if self.found is None or self.printed is None or self.found.overall.ends is None:
            return None
        if self.found.deciding < len(self.found.settings):
            return None
        low, high = self.found.overall.ends
        return low <= self.printed <= high

    @property
    def numbers(self) -> tuple[str, str, str, str, str]:
        """Our mean, the paper's, whether it lies inside ours, settings by side, settings of all."""
        printed = "–" if self.printed is None else points(self.printed)
        if self.found is None:
            return "–", printed, "–", "–", f"0 of {self.declared}"
        held = {None: "–", True: "yes", False: "no"}[self.holds_printed]
        sides = [self.claim.side(difference) for difference in self.found.settings.values()]
        counts = " / ".join(str(sides.count(side)) for side in (FOR, AGAINST, UNDECIDED))
        ours, deciding = str(self.found.overall), self.found.deciding
        if 0 < deciding < len(sides):
            ours += f"; of all {points(self.found.mean)}"
        settings = f"{len(sides)} of {self.declared}, {deciding} decide"
        return ours, printed, held, counts, settings


def examine(claim: Claim, sources: Mapping[str, Source]) -> Iterator[Finding]:
    """What each body of evidence says, as far as its sweeps are declared."""
    for evidence in claim.evidence:
        needed = [evidence.sweep, *(other.sweep for other in evidence.beside)]
        if all(name in sources for name in needed):
            yield _finding(claim, evidence, [sources[name] for name in needed])


def _finding(claim: Claim, evidence: Evidence, sources: Sequence[Source]) -> Finding:
    measure = claim.measure
    declared = evidence.cases([(cell, {}) for cell in sources[0].cells])
    cases = evidence.cases(*(source.rows_with_histories or source.rows for source in sources))
    every = _values(measure, cases)
    closed = closed_settings(claim.through, {setting: cases[setting] for setting in every})
    values = {setting: own for setting, own in every.items() if setting not in closed} or every
    in_tables = evidence.cases(*map(_printed, sources)) if measure.printed else {}
    printed = _values(measure, in_tables)
    printed = {setting: own for setting, own in printed.items() if setting in (values or printed)}
    return Finding(
        claim,
        evidence,
        pooled(values, exact=measure.exact) if values else None,
        len(declared),
        _count(every) == _count(declared),
        pooled(printed).mean if printed else None,
        all(
            measure.is_alone(cases[setting][seed]) for setting in values for seed in values[setting]
        ),
        _caveat(claim.rival, cases, sources[0].paper),
        closed,
    )


def _caveat(rival: str, cases: Cases, paper: Paper) -> str:
    """That the rival is far below what the paper prints for it, if it is."""
    gaps = []
    for case in (case for own in cases.values() for case in own.values()):
        for settings, record in case.rows:
            dataset, method, clients = _where_printed(settings)
            printed = paper.printed(dataset, method, clients) if method == rival else None
            if printed is not None:
                gaps.append(score_of(record) - printed.mean)
    if not gaps or statistics.fmean(gaps) > -FAR_BELOW:
        return ""
    return f"our {rival} is far below the paper's: {points(statistics.fmean(gaps))}"


def _values(measure: Measure, cases: Cases) -> dict[Setting, dict[int, float]]:
    """The measure for every setting and seed with all the runs that it needs."""
    found: dict[Setting, dict[int, float]] = {}
    for setting, own in cases.items():
        for seed, case in own.items():
            try:
                value = measure.of(case)
            except NotThereError:
                continue
            found.setdefault(setting, {})[seed] = value
    return found


def _count(values: Mapping[Setting, Mapping[int, object]]) -> int:
    return sum(map(len, values.values()))


# What the paper's tables depend on; of other settings it prints nothing.
_PRINTED_BY = {
    *("dataset", "method", "partition.clients", "embedding.clusters"),
    *("preset", "split.kind", "seed"),
}


def _printed(source: Source) -> Rows:
    """What the paper has for the declared runs, as if they were runs."""
    rows = []
    for cell in source.cells:
        if not cell.keys() <= _PRINTED_BY:
            continue
        dataset, method, clients = _where_printed(cell)
        clusters = cell.get("embedding.clusters")
        entry = (
            source.paper.printed(dataset, method, clients)
            if clusters is None
            else source.paper.printed_for_clusters(dataset, clusters, clients)
        )
        if entry is not None:
            # Of validation it prints nothing: what is chosen in its tables is chosen by them.
            scores = {"global": {"test": entry.mean}, "silo": {"val": entry.mean}}
            rows.append((cell, {"scores": scores}))
    return rows


def _where_printed(cell: Mapping[str, Any]) -> tuple[str, str, int]:
    """Data set, method and number of clients: a place in the paper's Table 1."""
    default = RunSpec()
    keys = ("dataset", "method", "partition.clients")
    dataset, method, clients = (cell.get(key, default.value_of(key)) for key in keys)
    return dataset, method, clients


_CLOSED = "nothing passes through"
_OBJECTION = "the mean of all settings is on the other side"


def _settings(count: int) -> str:
    return f"{count} setting{'s' if count > 1 else ''}"


def _bound(value: float, unit: str) -> str:
    return f"{points(value).rstrip('0').rstrip('.') if value else 0} {unit}"
