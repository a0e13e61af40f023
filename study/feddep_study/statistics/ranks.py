"""Ranks over settings: which method is first, second, … by its mean test score on the whole graph.

A setting is a data set with a number of clients. It is ranked once every compared method has runs
there, by the mean over the seeds that all of them have; equal means share the mean of their ranks.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scipy.stats import rankdata

from feddep.reports.formatting import footnotes, marked
from feddep.reports.table import Table
from feddep.scenario.spec import RunSpec
from feddep_study.paper_tables import NOT_RUN, in_order
from feddep_study.source import Source

UNRANKED = ("global", "oracle", "fedgnn-update")
"""The first two have what nobody has in a federation; the third is FedGNN once more."""

NOTE = (
    "Rank by mean test accuracy on the whole graph over the seeds that all methods have; 1 is the "
    "best, equal means share a rank. Columns name the data set and the number of clients. The "
    "yardsticks Global and oracle are not ranked, nor is FedGNN with noised updates, of which "
    "fedgnn is the row that counts."
)

Place = tuple[str, int]
"""A setting: data set and number of clients."""


@dataclass
class Group:
    """The runs of one preset and split.

    Attributes:
        scores: test scores by setting, method and seed; empty for what is declared and not run yet.
    """

    scores: dict[Place, dict[str, dict[int, float]]] = field(default_factory=dict)

    @property
    def methods(self) -> list[str]:
        """Those that are compared."""
        return in_order(method for found in self.scores.values() for method in found)

    def ranks(self) -> dict[Place, dict[str, float]]:
        """The rank of every method in every setting where all of them have runs."""
        found = {}
        for place in self.scores:
            means = self._means(place)
            if means:
                order = rankdata([-round(mean, 10) for mean in means.values()])
                found[place] = dict(zip(means, map(float, order), strict=True))
        return found

    def missing(self) -> dict[Place, list[str]]:
        """The methods without a run, or without a shared seed, in the settings without ranks."""
        places = [place for place in self.scores if not self._means(place)]
        return {
            place: [name for name in self.methods if not self.scores[place].get(name)]
            for place in places
        }

    def _means(self, place: Place) -> dict[str, float]:
        """By method, over the shared seeds; empty if there are none."""
        found = [self.scores[place].get(method, {}) for method in self.methods]
        seeds = sorted(set.intersection(*(set(own) for own in found)))
        if not seeds:
            return {}
        means = (statistics.fmean(own[seed] for seed in seeds) for own in found)
        return dict(zip(self.methods, means, strict=True))


def ranks(source: Source) -> Iterator[Table]:
    """One table for each preset and split; the first says how to read it."""
    notes: Sequence[str] = (NOTE,)
    for title, group in grouped(source).items():
        if any(found for own in group.scores.values() for found in own.values()):
            yield _table(f"Ranks, {title}", group, notes)
            notes = ()


def grouped(source: Source) -> Mapping[str, Group]:
    """What is declared and what is there, by preset and split."""
    groups: dict[str, Group] = {}
    for (title, method, *place), found in source.scores(_place).items():
        scores = {seed: score for seed, score in found.items() if score is not None}
        groups.setdefault(title, Group()).scores.setdefault((place[0], place[1]), {})[method] = (
            scores
        )
    return groups


def _place(spec: RunSpec) -> tuple[str, str, str, int] | None:
    if spec.method in UNRANKED:
        return None
    title = f"preset {spec.preset}, {spec.split.kind} split"
    return title, spec.method, spec.dataset, spec.partition.clients


def _table(title: str, group: Group, notes: Sequence[str]) -> Table:
    found, methods = group.ranks(), group.methods
    places = sorted(found, key=lambda place: (_position(place[0], group), place[1]))
    counted = f"{len(places)} of {len(group.scores)}"
    means = {name: _mean([found[place][name] for place in places]) for name in methods}
    lines = [
        (
            marked(name),
            "–" if means[name] is None else f"{means[name]:.2f}",
            counted,
            *(f"{found[place][name]:g}" for place in places),
        )
        for name in sorted(methods, key=lambda name: (means[name] or 0.0, methods.index(name)))
    ]
    columns = (f"{dataset} {clients}" for dataset, clients in places)
    headings = ("method", "mean rank", "settings", *columns)
    return Table(headings, lines, (*footnotes(methods), *notes, *_told(group)), title)


def _position(dataset: str, group: Group) -> int:
    return [name for name, _ in group.scores].index(dataset)


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _told(group: Group) -> Iterator[str]:
    """Which settings are not ranked and what they wait for; those that lack the same, at once."""
    lacking: dict[tuple[str, ...], dict[str, list[int]]] = {}
    for (dataset, clients), methods in group.missing().items():
        lacking.setdefault(tuple(methods), {}).setdefault(dataset, []).append(clients)
    for waiting, places in lacking.items():
        where = "; ".join(
            f"{name} with M = {', '.join(map(str, sorted(own)))}" for name, own in places.items()
        )
        who = "all methods" if len(waiting) == len(group.methods) else ", ".join(waiting)
        what = f"{who} {NOT_RUN}" if waiting else "no seed that all methods have"
        yield f"Not ranked: {where} ({what})."
