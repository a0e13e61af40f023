"""Choosing settings on validation: a search that is fair to every method, one record a run.

The keys that all methods share make a small grid, and every method goes through the same points of
it in the same order, so that none of them is given a learning rate that another never saw. Trial 0
is the paper's rate without weight decay; the order of the others depends on the data set alone, and
covers all learning rates before any of them comes again. Keys of a method's own are at the paper's
values in trial 0, and drawn for each of the others. More trials than the grid has points go through
it again, with other values of the method's own keys; a method without any has no more trials.

The same command draws the same trials, and more trials go on where fewer ended. Every trial is run
for the same seeds, and the same kinds of split where several are named, as a sweep. The trial with
the best mean validation score of the silos wins, the earlier of equals; test scores are not looked
at.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from feddep.algorithms import find_method
from feddep.algorithms.method import Method
from feddep.errors import InputError
from feddep.runs.files import Record, write_atomically
from feddep.runs.folder import plain_method, plain_name
from feddep.scenario import presets
from feddep.scenario.build import resolve
from feddep.scenario.spec import RunSpec
from feddep.scenario.toml import toml_value
from feddep.seeding import Seeds
from feddep.sweeps.declaration import Cell
from feddep.sweeps.sweep import Sweep

Space = Mapping[str, Sequence[Any]]
"""The values to try for each key."""

FOLDER = Path("runs/tuning")
ROUNDS = 100
"""Of every trial; the best round of each is chosen on validation."""

# The paper's values come first: they are trial 0.
EVERY_METHOD: Space = {
    "training.learning_rate": [0.1, 0.05, 0.2, 0.3, 0.5, 1.0],
    "training.weight_decay": [0.0, 0.0005],
}
WITH_EMBEDDINGS: Space = {
    "embedding.clusters": [5, 10, 20],
    "embedding.depth": [1, 2],
    "embedding.width": [64, 128, 256],
    "embedding.warm_start": [False, True],
    "generator.keep": [0.2, 0.5, 1.0],
    "generator.pool": ["all", "val"],
    "generator.epochs": [20, 50],
    "generator.learning_rate": [0.03, 0.1],
    "generator.shown": [0.2, 0.5],
}
# A control gets what FedDEP gets for its local GNNs, which decide where F starts, and no more.
WITH_WARM_START: Space = {
    key: WITH_EMBEDDINGS[key] for key in ("embedding.depth", "embedding.width")
}
_DECIDED_HERE = ("method", "dataset", "preset", "seed")


def own_space(method: Method) -> Space:
    """What is searched for this method beside what is searched for every method."""
    own: Space = {}
    if method.fusion == "all":
        own = WITH_EMBEDDINGS
    elif method.settings.get("embedding.warm_start"):
        own = WITH_WARM_START
    return _without(own, method.settings)


def search_space(method: Method) -> Space:
    """What is searched for a method, but for the keys that it fixes itself."""
    return {**_without(EVERY_METHOD, method.settings), **own_space(method)}


@dataclass(frozen=True)
class Trial:
    """One point of the search space.

    Attributes:
        settings: the keys that the trial sets.
        spec: everything that its runs have in common, resolved; its seed means nothing.
    """

    settings: Cell
    spec: RunSpec


@dataclass(frozen=True)
class Outcome:
    """What a search found.

    Attributes:
        trials: in the order in which they were drawn.
        scores: the mean validation score of each.
    """

    trials: Sequence[Trial]
    scores: Sequence[float]

    @property
    def chosen(self) -> int:
        """The number of the best trial; the first of equals."""
        return max(range(len(self.scores)), key=lambda number: self.scores[number])


@dataclass(frozen=True)
class Tuning:
    """A declared search.

    Attributes:
        common: the settings of every run.
        trials: what is tried.
        seeds: every trial is run for the seeds below this number,
        splits: and for each of these kinds of split.
        results: where the records are.
    """

    common: Cell
    trials: Sequence[Trial]
    seeds: int
    splits: Sequence[str]
    results: Path

    @classmethod
    def declare(
        cls,
        method: str,
        dataset: str,
        *,
        trials: int = 12,
        seeds: int = 2,
        splits: Sequence[str] = (),
        fixed: Mapping[str, Any] | None = None,
        folder: Path = FOLDER,
    ) -> "Tuning":
        """Draws the trials; a search space with fewer points gives fewer of them.

        Args:
            method: a name in ``feddep methods``.
            dataset: a name in ``feddep data list``, or the path of a folder.
            trials: how many.
            seeds: runs of each, for each split.
            splits: kinds of split whose scores count alike; none means that of the spec.
            fixed: other settings of every run; their keys are not searched.
            folder: where the records and the choice are kept.

        Raises:
            InputError: something of it cannot be.
        """
        for name, count in (("trials", trials), ("seeds", seeds)):
            if count < 1:
                raise InputError(f"tuning needs at least 1 of its {name} (got {count})")
        found = find_method(method)
        if found.preset_of is not None:
            raise InputError(
                f"{method} has the preset of {found.preset_of}; tune {found.preset_of} instead"
            )
        common = _common(found, dataset, fixed or {})
        stem = f"{plain_method(found.name)}-{plain_name(dataset)}"
        drawn = _distinct(common, _candidates(found, dataset, common), trials)
        kinds = splits or [drawn[0].spec.split.kind]
        for kind in kinds:  # refuses an unknown one
            drawn[0].spec.with_settings({"split.kind": kind})
        return cls(common, drawn, seeds, kinds, folder / f"{stem}.jsonl")

    @property
    def runs(self) -> Sweep:
        """Every run of the search."""
        return Sweep([cell for trial in self.trials for cell in self._cells(trial)], self.results)

    def outcome(self) -> Outcome:
        """The choice, once every run has its record."""
        runs = self.runs
        missing = len(runs.missing())
        if missing:
            raise InputError(f"{missing} of {len(runs.cells)} runs have no record yet")
        scores = [validation_score(record) for _, record in runs.records()]
        each = self.seeds * len(self.splits)
        means = [fmean(scores[i : i + each]) for i in range(0, len(scores), each)]
        return Outcome(self.trials, means)

    def write_choice(self, outcome: Outcome) -> Path:
        """Stores the chosen settings and where they come from beside the records."""
        path = self.results.with_suffix(".toml")
        facts = {
            "method": self.common["method"],
            "dataset": self.common["dataset"],
            "clients": outcome.trials[0].spec.partition.clients,
            "records": self.results.name,
            "trial": outcome.chosen,
            "trials": len(outcome.trials),
            "seeds": list(range(self.seeds)),
            "splits": list(self.splits),
            "validation": round(outcome.scores[outcome.chosen], 6),
        }
        rows = [f"{name} = {toml_value(value)}" for name, value in facts.items()]
        settings = presets.toml_rows(self.settings_of(outcome))
        text = ["# Written by `feddep tune`.", *rows, "", "[settings]", *settings]
        write_atomically(path, "\n".join(text) + "\n")
        return path

    def settings_of(self, outcome: Outcome) -> Cell:
        """The chosen settings: the trial's, and those of all trials that a preset may hold."""
        kept = {key: value for key, value in self.common.items() if presets.may_set(key)}
        return kept | outcome.trials[outcome.chosen].settings

    def _cells(self, trial: Trial) -> Iterator[Cell]:
        for split in self.splits:
            own = {} if split == trial.spec.split.kind else {"split.kind": split}
            for seed in range(self.seeds):
                yield {**self.common, **trial.settings, **own, "seed": seed}


def validation_score(record: Record) -> float:
    """What trials are compared by."""
    score: float | None = record["scores"]["silo"]["val"]
    if score is None:
        raise InputError("the data have no validation nodes, so there is nothing to choose by")
    return score


def _common(method: Method, dataset: str, fixed: Mapping[str, Any]) -> Cell:
    """The settings of every run, each as the type of its key, so that they compare."""
    for key in _DECIDED_HERE:
        if key in fixed:
            raise InputError(f"tuning decides {key} itself (got {fixed[key]}); leave it out")
    asked = {"method": method.name, "dataset": dataset, "preset": "paper", **fixed}
    spec = resolve(RunSpec().with_settings(asked), asked)
    keys = dict.fromkeys([*asked, "partition.clients"])
    return {key: spec.value_of(key) for key in keys}


def _candidates(method: Method, dataset: str, common: Cell) -> Iterator[Cell]:
    """The points that every method sees, in one order, as often as there are values of its own."""
    given = {**method.settings, **common}
    rounds = {} if "training.rounds" in given else {"training.rounds": ROUNDS}
    shared = [rounds | point for point in _shared_points(dataset, _without(EVERY_METHOD, given))]
    own = _without(own_space(method), given)
    sizes = [len(values) for values in own.values()]
    streams = Seeds(0).child("tuning", method.name, dataset)
    orders = [streams.stream(number).permutation(prod(sizes)) for number in range(len(shared))]
    yield shared[0]
    turns = product(range(prod(sizes)), range(len(shared)))
    first = next(turns)  # what trial 0 stands for; with values that are drawn it comes last
    for turn, number in chain(turns, [first]):
        places = np.unravel_index(orders[number][turn], sizes)
        rows = zip(own.items(), places, strict=True)
        yield shared[number] | {key: values[int(place)] for (key, values), place in rows}


def _shared_points(dataset: str, space: Space) -> list[Cell]:
    """Every point: the paper's, the others by chance, but no value of the first key too early."""
    points = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    first, rest = points[0], points[1:]
    order = Seeds(0).stream("tuning", dataset).permutation(len(rest))
    seen: Counter[Any] = Counter()
    places = []
    for point in (first, *(rest[place] for place in order)):
        value = next(iter(point.values()), None)
        places.append((seen[value], point))
        seen[value] += 1
    return [point for _, point in sorted(places, key=lambda place: place[0])]


def _without(space: Space, given: Iterable[str]) -> Space:
    """What is left to search where some keys have their values already."""
    return {key: values for key, values in space.items() if key not in set(given)}


def _distinct(common: Cell, candidates: Iterable[Cell], count: int) -> list[Trial]:
    """The first so many that differ; the paper's values of own keys may be drawn again."""
    found: dict[RunSpec, Trial] = {}
    for settings in candidates:
        cell = common | settings
        spec = resolve(RunSpec().with_settings(cell), cell)
        found.setdefault(spec, Trial(settings, spec))
        if len(found) == count:
            break
    return list(found.values())
