"""Choosing settings on validation: a random search, resumable, one record a run.

Trial 0 is the preset ``paper`` with more rounds. The other trials are drawn from the search space
of the method; the same command draws the same trials, and more trials go on where fewer ended.
Every trial is run for the same seeds, and the same kinds of split where several are named, as a
sweep. The trial with the best mean validation score of the silos wins, the earlier of equals; test
scores are not looked at.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
EVERY_METHOD: Space = {
    "training.learning_rate": [0.1, 0.2, 0.3, 0.5],
    "training.rounds": [50, 100],
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
_FIRST_TRIAL: Mapping[str, Any] = {"training.rounds": 100}
_DECIDED_HERE = ("method", "dataset", "preset", "seed")


def search_space(method: Method) -> Space:
    """What is searched for a method, but for the keys that it fixes itself."""
    whole = {**EVERY_METHOD, **(WITH_EMBEDDINGS if method.fusion == "all" else {})}
    return {key: values for key, values in whole.items() if key not in method.settings}


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
    """The first trial, then every point of the search space in an order of chance."""
    yield {key: value for key, value in _FIRST_TRIAL.items() if key not in common}
    space = {key: values for key, values in search_space(method).items() if key not in common}
    sizes = [len(values) for values in space.values()]
    order = Seeds(0).stream("tuning", method.name, dataset).permutation(prod(sizes))
    for point in order:
        places = np.unravel_index(point, sizes)
        rows = zip(space.items(), places, strict=True)
        yield {key: values[int(place)] for (key, values), place in rows}


def _distinct(common: Cell, candidates: Iterable[Cell], count: int) -> list[Trial]:
    """The first so many that differ; the preset may be a point of the search space too."""
    found: dict[RunSpec, Trial] = {}
    for settings in candidates:
        cell = common | settings
        spec = resolve(RunSpec().with_settings(cell), cell)
        found.setdefault(spec, Trial(settings, spec))
        if len(found) == count:
            break
    return list(found.values())
