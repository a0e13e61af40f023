"""Linked silos: what a participant gains on its own nodes, and at what ε."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from feddep.reports.charts import Axis, Figure, Panel, Point, Series
from feddep.reports.formatting import marked
from feddep.reports.palette import Style, style_of
from feddep.reports.summary import spread
from feddep.reports.table import Table
from feddep.scenario.spec import RunSpec
from feddep_study.figures.accuracy import method_keys
from feddep_study.paper_tables import NOT_RUN, in_order
from feddep_study.source import Place, Source
from feddep_study.statistics.paired import CONFIDENCE, REFERENCE, Difference

LINKED = "feddep-linked"
_CODES = (LINKED, "linked-nodes", "linked-cells")
_NOTE = (
    "Test accuracy on silos' own nodes: of FedAvg the mean ± standard deviation over seeds, of the "
    f"others the difference from it in points, paired by seed, with its {CONFIDENCE:.0%} Student-t "
    "interval. ε is for each node of a silo that answers; *no noise*, and methods without ε, show "
    "what they show as it is. Preset paper."
)


@dataclass(frozen=True, order=True)
class Way:
    """A method, and what is promised of a node about which a silo answers.

    Attributes:
        method: which.
        epsilon: ε of the codes that it tells, ∞ without noise; None if it tells none.
    """

    method: str
    epsilon: float | None = None

    def __str__(self) -> str:
        if self.epsilon is None:
            return marked(self.method)
        noise = "no noise" if math.isinf(self.epsilon) else f"ε = {self.epsilon:g}"
        return f"{marked(self.method)}, {noise}"


@dataclass(frozen=True)
class Setting:
    """What the silos are made of."""

    dataset: str
    kind: str
    clients: int
    train: float

    @property
    def title(self) -> str:
        """As a column's heading."""
        labels = f", {self.train:.0%} labels" if self.train != RunSpec().split.train else ""
        return f"{self.kind}, M = {self.clients}{labels}"


@dataclass(frozen=True)
class Linked:
    """The silo scores of a sweep: by setting and way, by seed; None for what is not run yet."""

    scores: Mapping[Setting, Mapping[Way, Mapping[int, float | None]]]

    @classmethod
    def of(cls, source: Source) -> "Linked":
        """Those of a sweep's runs."""
        found: dict[Setting, dict[Way, Mapping[int, float | None]]] = {}
        for (setting, way), scores in source.scores(_place, "silo").items():
            found.setdefault(setting, {})[way] = scores
        return cls(found)

    def declared(self, setting: Setting, way: Way) -> int:
        """How many seeds are declared."""
        return len(self.scores.get(setting, {}).get(way, {}))

    def known(self, setting: Setting, way: Way) -> dict[int, float]:
        """The scores that are there."""
        found = self.scores.get(setting, {}).get(way, {})
        return {seed: score for seed, score in found.items() if score is not None}

    def difference(
        self, setting: Setting, way: Way, reference: Way = Way(REFERENCE)
    ) -> tuple[Difference, int] | None:
        """From a reference over the seeds that both have, and how many these are."""
        ours, theirs = self.known(setting, way), self.known(setting, reference)
        both = sorted(ours.keys() & theirs.keys())
        if not both:
            return None
        return Difference.of([ours[seed] - theirs[seed] for seed in both]), len(both)

    def ways(self) -> list[Way]:
        """As ``feddep methods`` lists them, less noise later."""
        found = dict.fromkeys(way for ways in self.scores.values() for way in ways)
        methods = in_order(way.method for way in found)
        return sorted(found, key=lambda way: (methods.index(way.method), way.epsilon or 0.0))


def _place(spec: RunSpec) -> Place:
    epsilon = None
    if spec.method in _CODES:
        epsilon = math.inf if spec.links.noise == "none" else spec.links.epsilon
    made = Setting(spec.dataset, spec.partition.kind, spec.partition.clients, spec.split.train)
    return made, Way(spec.method, epsilon)


def linked_tables(source: Source) -> Iterator[Table]:
    """One table for each data set: a line a way, a column a setting."""
    linked = Linked.of(source)
    datasets = list(dict.fromkeys(setting.dataset for setting in linked.scores))
    for dataset in datasets:
        settings = [setting for setting in linked.scores if setting.dataset == dataset]
        lines = [
            (str(way), *(_cell(linked, setting, way) for setting in settings))
            for way in linked.ways()
        ]
        notes = () if dataset != datasets[-1] else (_NOTE,)
        yield Table(("method", *(one.title for one in settings)), lines, notes, dataset)


def _cell(linked: Linked, setting: Setting, way: Way) -> str:
    known, declared = linked.known(setting, way), linked.declared(setting, way)
    if not declared:
        return "–"
    if not known:
        return NOT_RUN
    found = None if way == Way(REFERENCE) else linked.difference(setting, way)
    text = spread(list(known.values())) if found is None else str(found[0])
    count = len(known) if found is None else found[1]
    return text if count == declared else f"{text}, {count} of {declared} seeds"


def gain_by_epsilon(source: Source) -> Iterator[Figure]:
    """Points above FedAvg over ε: a panel a setting; what has no ε is a level line."""
    linked = Linked.of(source)
    panels, drawn = list[Panel](), dict[str, None]()
    for setting in linked.scores:
        own = _curve(linked, setting)
        if not own:
            continue
        levels = [
            one
            for way in linked.ways()
            if way.epsilon is None and way.method not in (REFERENCE, "local")
            for one in _level(linked, setting, way)
        ]
        series = [Series((LINKED,), own, style_of(LINKED)), *levels]
        drawn |= dict.fromkeys(key for one in series for key in one.keys)
        title = f"{setting.dataset}, {setting.title}"
        across = Axis("ε of a node that is answered for", [(_at(e), _text(e)) for e in _EPSILONS])
        panels.append(Panel(title, across, Axis(f"points above {REFERENCE}"), series, guide=0.0))
    if panels:
        yield Figure(
            "linked",
            "What a participant gains on its own nodes, and at what ε",
            panels,
            method_keys(drawn),
            "Points of test accuracy on silos' own nodes above FedAvg, paired by seed, with "
            f"{CONFIDENCE:.0%} intervals. Level lines show more than a code, without noise.",
        )


_EPSILONS = (1.0, 2.0, 4.0, 8.0, math.inf)


def _at(epsilon: float) -> float:
    """Where an ε stands: each has twice the one before, and no noise stands last."""
    return math.log2(min(epsilon, 16.0))


def _text(epsilon: float) -> str:
    return "no noise" if math.isinf(epsilon) else f"{epsilon:g}"


def _curve(linked: Linked, setting: Setting) -> list[Point]:
    points = []
    for epsilon in _EPSILONS:
        way = Way(LINKED, epsilon)
        found = linked.difference(setting, way)
        if found is not None:
            points.append(_point(_at(epsilon), way, found[0]))
    return points


def _level(linked: Linked, setting: Setting, way: Way) -> Iterator[Series]:
    found = linked.difference(setting, way)
    if found is not None:
        ends = [_point(_at(e), way, found[0], bare=True) for e in (_EPSILONS[0], _EPSILONS[-1])]
        style: Style = style_of(way.method)
        yield Series((way.method,), ends, style, marks=False)


def _point(x: float, way: Way, gain: Difference, *, bare: bool = False) -> Point:
    low, high = (None, None) if gain.ends is None or bare else gain.ends
    return Point(x, 100 * gain.mean, f"{way}: {gain}", _times(low), _times(high))


def _times(end: float | None) -> float | None:
    return None if end is None else 100 * end
