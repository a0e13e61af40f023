"""Whether anything passes through what a claim is about: generated neighbours, on their way to F.

DGen, Proto, C, L and NFDP act on accuracy through z̄ alone. Where z̄ says nothing, or F does not
listen, all variants of them are FedAvg, and a difference between them tests nothing: that channel
is *closed*. The channel of a method is open in a setting if, in the mean over its seeds,

- the probe of z̄ reaches at least 75% of the accuracy that own embeddings give, which is what is
  asked of a generator that works;
- it also goes at least half of the way from the majority class to own embeddings, since in silos of
  few classes a constant would pass the first;
- F listens: ‖W_z‖ ÷ ‖W_x‖ is at least 0.1, or z̄ changes at least 2% of the predictions. Accuracy
  moves by no more than the share of predictions that change, and what the paper reports of its
  components is half a point to two and a half.

The first and the last were set as bars for the generators before they were run. A run that does not
tell closes its setting: what is unknown is not open.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from feddep.runs.files import Record
from feddep_study.claims.evidence import Case, Cases
from feddep_study.statistics.pooling import Setting

PROBE = 0.75
"""Of the accuracy that own embeddings give."""
WAY = 0.5
"""From the majority class to own embeddings."""
RATIO = 0.1
"""‖W_z‖ ÷ ‖W_x‖."""
CHANGED = 0.02
"""Of the predictions."""


@dataclass(frozen=True)
class Channel:
    """Runs whose generated neighbours a claim is about.

    Attributes:
        method: which generates them.
        values: settings that the runs must have, one of several each; empty means all its runs.
    """

    method: str
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def records(self, case: Case) -> dict[tuple[str, ...], Record]:
        """The runs in a case, by everything they differ in but the seed."""
        return {
            tuple(f"{key}={own[key]}" for key in sorted(own) if key != "seed"): record
            for own, record in case.rows
            if own.get("method") == self.method
            and all(own.get(key) in values for key, values in self.values.items())
        }


def closed_settings(channels: Sequence[Channel], cases: Cases) -> set[Setting]:
    """The settings in which some channel is closed."""
    return {
        setting
        for setting, own in cases.items()
        if not all(_is_open_in(channel, list(own.values())) for channel in channels)
    }


def _is_open_in(channel: Channel, cases: Sequence[Case]) -> bool:
    """Whether each kind of run is open over its seeds; without any, nothing is."""
    kinds: dict[tuple[str, ...], list[Record]] = {}
    for case in cases:
        for kind, record in channel.records(case).items():
            kinds.setdefault(kind, []).append(record)
    return bool(kinds) and all(map(is_open, kinds.values()))


def is_open(records: Sequence[Record]) -> bool:
    """Whether z̄ tells the class and F listens, in the mean over runs that differ in their seed."""
    told = [record.get("generation") or {} for record in records]

    def mean(name: str) -> float | None:
        values = [one.get(name) for one in told]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known and len(known) == len(values) else None

    probe, own, majority = mean("probe"), mean("probe_own"), mean("probe_majority")
    if probe is None or own is None or majority is None or own <= majority:
        return False
    says = probe >= PROBE * own and probe - majority >= WAY * (own - majority)
    ratio, changed = mean("weight_ratio") or 0.0, mean("changed") or 0.0
    return says and (ratio >= RATIO or changed >= CHANGED)
