"""Calling the command line, and looking at what it left."""

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feddep.graph.graph import Graph, Part
from feddep.runs.journal import Journal
from feddep.runs.records import without_times

TINY = ["--set", "synthetic.nodes=150", "--set", "model.hidden=8", "--workers", "1"]
RUN = ["run", *TINY, "--rounds", "2", "--method", "fedavg"]
TUNE = ["--method", "local", "--dataset", "synthetic"]
FILES = {
    "model_card.json",
    "model_card.md",
    "record.json",
    "history.jsonl",
    "spec.toml",
    "model.safetensors",
    "privacy_events.json",
    "SHA256SUMS",
    "clients",
}


@dataclass(frozen=True)
class Outcome:
    """What a command ended with and printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Feddep = Callable[..., Outcome]


def history(folder: Path | str) -> list[dict[str, Any]]:
    """The stored history, without times."""
    lines = (Path(folder) / "history.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def record(folder: Path | str) -> dict[str, Any]:
    """The stored record, without times."""
    return without_times(json.loads((Path(folder) / "record.json").read_text()))


def interrupt_in(monkeypatch: pytest.MonkeyPatch, round_: int, times: int = 1) -> None:
    """Lets Ctrl-C arrive while a round of the next run is being finished."""
    after_round = Journal.after_round

    def interrupted(self: Journal, phase: Any, report: Any, progress: Any) -> None:
        if progress.round == round_:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
        after_round(self, phase, report, progress)

    monkeypatch.setattr(Journal, "after_round", interrupted)


def with_three_training_nodes(graph: Graph) -> Graph:
    """One of each class; so of five clients at least two have none."""
    split = np.full(graph.nodes, Part.TEST)
    split[np.unique(graph.labels, return_index=True)[1]] = Part.TRAIN
    return graph.with_split(split)
