"""A search as a table: the settings of each trial, and its validation score."""

from feddep.reports.formatting import accuracy
from feddep.scenario.spec import spec_keys
from feddep.sweeps.tuning import Outcome, Trial

HEADINGS = ("trial", "validation", "", "what differs from the first trial")


def tuning_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """One row of texts for each trial, under :data:`HEADINGS`."""
    first = outcome.trials[0]
    return [
        (
            str(number),
            accuracy(score),
            "chosen" if number == outcome.chosen else "",
            _difference(trial, first) if number else _first(first),
        )
        for number, (trial, score) in enumerate(zip(outcome.trials, outcome.scores, strict=True))
    ]


def _first(trial: Trial) -> str:
    texts = [f"{key}={value}" for key, value in trial.settings.items()]
    return ", ".join([f"the preset {trial.spec.preset}", *texts])


def _difference(trial: Trial, first: Trial) -> str:
    """The keys in which two trials differ, with the values of one."""
    return ", ".join(
        f"{key}={trial.spec.value_of(key)}"
        for key in spec_keys()
        if trial.spec.value_of(key) != first.spec.value_of(key)
    )
