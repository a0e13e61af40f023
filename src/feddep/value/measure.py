"""What collaboration buys: every way of learning on each silo's own test nodes, paired."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.graph.graph import Graph, Part
from feddep.seeding import Seeds
from feddep.value.scoring import Metric, hits, resampled, times_at_once

Floats = npt.NDArray[np.float64]

RESAMPLES = 2000
LEVELS = (0.025, 0.975)

Predictions = Mapping[int, Floats]
"""By silo, the class probabilities of its nodes; a silo is absent where there are none."""


@dataclass(frozen=True)
class Way:
    """One way of learning.

    Attributes:
        name: of the method, or of the trees.
        about: what it is, in a sentence.
        predictions: for each seed, those of every silo.
        up_bytes: that silos sent.
        down_bytes: that they received.
        seconds: of training, in the mean over seeds; None if they were not taken.
        privacy: what is promised, in words.
        tree: whether it is trees, not a graph network.
        alone: whether a silo needs nobody else for it.
    """

    name: str
    about: str
    predictions: Sequence[Predictions]
    up_bytes: int = 0
    down_bytes: int = 0
    seconds: float | None = None
    privacy: str = "nothing leaves a silo"
    tree: bool = False
    alone: bool = True


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval."""

    value: float
    low: float
    high: float

    @property
    def above(self) -> bool:
        """Whether all of it is above 0."""
        return self.low > 0

    @property
    def below(self) -> bool:
        """Whether all of it is below 0."""
        return self.high < 0


@dataclass(frozen=True)
class Measured:
    """How one way did.

    Attributes:
        way: which; its predictions are left behind.
        silos: the score of each silo, mean over seeds; None where there was nothing to score.
        score: mean over silos.
        gain: above the reference, mean over silos; None for the reference itself.
        silo_gains: above the reference, by silo.
        beyond_trees: above the better of the trees that a silo can grow alone; None for trees.
        hits: of as many alerts as there are test nodes of the rare class, how many were right, and
            how many there are; mean over seeds, summed over silos.
    """

    name: str
    about: str
    silos: list[float | None]
    score: float | None
    gain: Interval | None
    silo_gains: list[Interval | None]
    beyond_trees: Interval | None
    hits: tuple[float, int] | None
    up_bytes: int
    down_bytes: int
    seconds: float | None
    privacy: str


@dataclass(frozen=True)
class Value:
    """The whole comparison, as ``value.json`` holds it."""

    metric: str
    positive: str | None
    reference: str
    method: str
    seeds: int
    silos: list[str]
    test_nodes: list[int]
    positives: list[int | None]
    ways: list[Measured]
    regime: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    split: str = ""
    beside: "Value | None" = None
    """The same under another split, made like the future."""

    def way(self, name: str) -> Measured | None:
        """What is known about one way."""
        return next((way for way in self.ways if way.name == name), None)

    def to_plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def measured(
    ways: Sequence[Way],
    graphs: Sequence[Sequence[Graph]],
    metric: Metric,
    reference: str,
    seeds: Seeds,
) -> list[Measured]:
    """Scores, and gains above the reference with intervals.

    Args:
        ways: of learning.
        graphs: for each seed, the graph of every silo, with labels and split.
        metric: what is scored.
        reference: the way that gains are counted from.
        seeds: of the resamples.
    """
    drawn = {way.name: _drawn(way, graphs, metric, seeds) for way in ways}
    points = {way.name: _points(way, graphs, metric) for way in ways}

    def above(name: str, base: str, silos: Sequence[int]) -> Interval | None:
        both = [i for i in silos if points[name][i] is not None and points[base][i] is not None]
        if name == base or not both:
            return None
        differences = [(points[name][i] or 0.0) - (points[base][i] or 0.0) for i in both]
        apart = (drawn[name] - drawn[base])[:, both]
        return _interval(float(np.mean(differences)), _mean_of_silos(apart))

    every = range(len(graphs[0]))
    rivals = [way.name for way in ways if way.tree and way.alone and _mean(points[way.name])]
    rival = max(rivals, key=lambda name: _mean(points[name]) or 0.0, default=None)
    return [
        Measured(
            name=way.name,
            about=way.about,
            silos=points[way.name],
            score=_mean(points[way.name]),
            gain=above(way.name, reference, every),
            silo_gains=[above(way.name, reference, [silo]) for silo in every],
            beyond_trees=None if rival is None or way.tree else above(way.name, rival, every),
            hits=_hits(way, graphs, metric),
            up_bytes=way.up_bytes,
            down_bytes=way.down_bytes,
            seconds=way.seconds,
            privacy=way.privacy,
        )
        for way in ways
    ]


def _points(way: Way, graphs: Sequence[Sequence[Graph]], metric: Metric) -> list[float | None]:
    """The score of each silo, mean over seeds."""
    return [
        _mean([_point(way, run, silo, graphs, metric) for run in range(len(graphs))])
        for silo in range(len(graphs[0]))
    ]


def _drawn(way: Way, graphs: Sequence[Sequence[Graph]], metric: Metric, seeds: Seeds) -> Floats:
    """``(RESAMPLES, silos)`` scores under resampling of nodes, and of seeds if there are several.

    The draws have the same names for every way, so that all of them see the same resamples.
    """
    runs = len(graphs)
    chosen = seeds.stream("seeds").multinomial(runs, np.full(runs, 1 / runs), size=RESAMPLES)
    found = np.zeros((RESAMPLES, len(graphs[0])))
    for silo in range(len(graphs[0])):
        each = [
            _scores(way, run, silo, graphs, metric, seeds.stream("nodes", silo))
            for run in range(runs)
        ]
        with_weights = np.where(chosen.T > 0, np.stack(each) * chosen.T, 0.0)
        found[:, silo] = with_weights.sum(axis=0) / runs
    return found


def _scores(
    way: Way,
    run: int,
    silo: int,
    graphs: Sequence[Sequence[Graph]],
    metric: Metric,
    rng: np.random.Generator,
) -> Floats:
    labels, probabilities = _tested(way, run, silo, graphs)
    if probabilities is None or not len(labels):
        return np.full(RESAMPLES, np.nan)
    step = times_at_once(len(labels), RESAMPLES)
    parts = [
        metric.scores(
            labels, probabilities, resampled(rng, len(labels), min(step, RESAMPLES - start))
        )
        for start in range(0, RESAMPLES, step)
    ]
    return np.concatenate(parts)


def _tested(
    way: Way, run: int, silo: int, graphs: Sequence[Sequence[Graph]]
) -> tuple[npt.NDArray[np.int64], Floats | None]:
    graph = graphs[run][silo]
    test = graph.mask(Part.TEST)
    found = way.predictions[run].get(silo)
    return graph.labels[test], None if found is None else found[test]


def _point(
    way: Way, run: int, silo: int, graphs: Sequence[Sequence[Graph]], metric: Metric
) -> float | None:
    labels, probabilities = _tested(way, run, silo, graphs)
    return None if probabilities is None else metric.score(labels, probabilities)


def _hits(way: Way, graphs: Sequence[Sequence[Graph]], metric: Metric) -> tuple[float, int] | None:
    if metric.positive is None:
        return None
    right, wanted = 0, 0
    for run, silos in enumerate(graphs):
        for silo in range(len(silos)):
            labels, probabilities = _tested(way, run, silo, graphs)
            if probabilities is not None:
                counts = hits(labels == metric.positive, probabilities[:, metric.positive])
                right, wanted = right + counts[0], wanted + counts[1]
    return right / len(graphs), round(wanted / len(graphs))


def _interval(value: float, draws: Floats) -> Interval:
    known = draws[~np.isnan(draws)]
    low, high = np.quantile(known, LEVELS) if len(known) else (np.nan, np.nan)
    return Interval(value, float(low), float(high))


def _mean_of_silos(draws: Floats) -> Floats:
    """The mean over silos of each resample; a silo without positives in it is left out."""
    known = ~np.isnan(draws)
    sums = np.where(known, draws, 0.0).sum(axis=1)
    count = known.sum(axis=1)
    found: Floats = np.where(count > 0, sums / np.maximum(count, 1), np.nan)
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
