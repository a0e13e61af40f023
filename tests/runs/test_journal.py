"""Following a run: history, best round, checkpoints, on a runtime that only answers by rote."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from feddep.errors import InterruptedRunError
from feddep.federation.messages import Reply, Request
from feddep.federation.metering import Meter
from feddep.federation.phase import RoundReport
from feddep.federation.run_phases import Progress
from feddep.learning.evaluation import Scores
from feddep.runs import journal as journal_module
from feddep.runs.folder import RunFolder
from feddep.runs.journal import Journal

TRAINING = SimpleNamespace(name="training")
PREPARING = SimpleNamespace(name="preparing")


class Rote:
    """A runtime whose classifier after n rounds is the number n, right on n of 10 nodes."""

    def __init__(self, clients: int = 2, test_nodes: int = 10) -> None:
        self.memories = [{"classifier/w": np.array([0.0])} for _ in range(clients)]
        self.best: list[dict[str, np.ndarray]] = []
        self.test_nodes = test_nodes

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        return [Reply(request.client, {"w": np.zeros(1)}) for request in requests]

    def states(self):
        return self.memories

    def keep(self) -> None:
        self.best = [dict(state) for state in self.memories]

    def kept(self):
        return self.best

    def restore(self, states, kept=()) -> None:
        self.memories, self.best = list(states), list(kept)

    def measure(self, classifier):
        found = [classifier] if classifier is not None else [self.own(s) for s in self.memories]
        future: Future[list[Scores]] = Future()
        future.set_result([self.score(weights) for weights in found])
        return future

    def own(self, state):
        return {"w": state["classifier/w"]}

    def score(self, classifier) -> Scores:
        right = float(classifier["w"][0])
        return Scores(
            val_correct=right, val_total=10, test_correct=right, test_total=self.test_nodes
        )


def follow(rounds: Sequence[float | None], folder: Path | None = None, **options: object):
    """A journal after rounds of one shared classifier with the given silo validation scores."""
    journal = start(folder, **options)
    for number, val in enumerate(rounds, start=1):
        after(journal, number, val)
    return journal


def start(folder: Path | None = None, runtime: Rote | None = None, **options: object) -> Journal:
    runtime = runtime or Rote()
    found = Journal(
        runtime,
        Meter(runtime),
        {"preparing": 1, "training": 9},
        RunFolder(folder) if folder else None,
        **options,  # type: ignore[arg-type]
    )
    found.start()
    return found


def after(journal: Journal, number: int, val: float | None, *, own: bool = False) -> None:
    metrics = {"loss": 1 / number} | ({} if val is None else {"silo_val": val, "silo_test": val})
    classifier = None if own else {"w": np.array([float(number)])}
    server = {"classifier/w": np.array([float(number)])}
    journal.after_round(
        TRAINING, RoundReport(number, metrics, classifier), Progress(1, number, server)
    )


# History


def test_there_is_one_entry_a_round_with_silo_and_global_scores():
    journal = follow([0.2, 0.4])
    journal.finish()
    assert [entry["round"] for entry in journal.history] == [1, 2]
    assert [entry["loss"] for entry in journal.history] == [1, 0.5]
    assert [entry["silo"]["val"] for entry in journal.history] == [0.2, 0.4]
    assert [entry["global"] for entry in journal.history] == [
        {"test": 0.1, "val": 0.1},
        {"test": 0.2, "val": 0.2},
    ]


@pytest.mark.parametrize("metrics", [{"loss": float("nan")}, {"loss": float("inf")}, {}])
def test_a_loss_that_is_no_number_is_none_so_that_the_history_stays_json(metrics: dict):
    journal = start()
    journal.after_round(TRAINING, RoundReport(1, metrics, {"w": np.zeros(1)}), Progress(1, 1))
    assert journal.history[0]["loss"] is None


def test_the_classifier_before_any_training_is_not_in_the_history():
    journal = start()
    report = RoundReport(0, {"silo_val": 0.9}, {"w": np.zeros(1)})
    journal.after_round(TRAINING, report, Progress(1, 1))
    assert journal.history == []
    assert journal.best == 0


def test_a_phase_without_classifier_has_time_but_no_history():
    journal = start()
    journal.after_round(PREPARING, None, Progress(0, 1))
    assert journal.history == []
    assert set(journal.seconds) == {"preparing"}


def test_seconds_are_kept_by_phase_and_rise_along_the_history():
    journal = start()
    journal.after_round(PREPARING, None, Progress(0, 1))
    after(journal, 1, 0.1)
    after(journal, 2, 0.1)
    first, second = (entry["seconds"] for entry in journal.history)
    assert 0 <= first <= second
    assert second == pytest.approx(sum(journal.seconds.values()), abs=1e-5)
    assert set(journal.seconds) == {"preparing", "training"}


def test_seconds_count_from_the_start_and_leave_out_what_measuring_takes(
    monkeypatch: pytest.MonkeyPatch,
):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(journal_module, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    runtime = Rote()
    journal = Journal(runtime, Meter(runtime), {"training": 2})
    clock.now = 5.0  # workers start
    journal.start()
    measure = runtime.measure

    def slowly(classifier):
        clock.now += 3
        return measure(classifier)

    runtime.measure = slowly  # type: ignore[method-assign]
    for number in (1, 2):
        clock.now += 2
        after(journal, number, 0.5)
    assert [entry["seconds"] for entry in journal.history] == [2, 4]
    assert (journal.seconds, journal.measuring_seconds) == ({"training": 4}, 6)


def test_global_scores_of_several_classifiers_are_averaged():
    runtime = Rote(clients=2)
    journal = start(runtime=runtime)
    runtime.memories = [{"classifier/w": np.array([2.0])}, {"classifier/w": np.array([6.0])}]
    after(journal, 1, 0.5, own=True)
    journal.finish()
    assert journal.history[0]["global"] == {"test": 0.4, "val": 0.4}


def test_the_run_goes_on_while_a_classifier_is_being_measured(monkeypatch: pytest.MonkeyPatch):
    pending: list[Future[list[Scores]]] = []

    def slowly(self: Rote, classifier: object) -> Future[list[Scores]]:
        pending.append(Future())
        return pending[-1]

    monkeypatch.setattr(Rote, "measure", slowly)
    journal = follow([0.1, 0.2])
    assert [entry["global"]["test"] for entry in journal.history] == [None, None]
    for number, future in enumerate(pending, start=1):
        future.set_result([Scores(test_correct=number, test_total=4)])
    journal.finish()
    assert [entry["global"]["test"] for entry in journal.history] == [0.25, 0.5]


def test_without_test_nodes_there_is_no_test_score():
    journal = follow([0.5], runtime=Rote(test_nodes=0))
    journal.finish()
    assert journal.history[0]["global"] == {"test": None, "val": 0.1}


# The best round


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([0.1, 0.3, 0.2], 2),
        ([0.3, 0.2, 0.1], 1),
        ([0.1, 0.2, 0.3], 3),
        ([0.2, 0.3, 0.3], 2),
        ([0.0, 0.0], 1),
        ([None, None, None], 3),
        ([None, 0.6, 0.5], 2),  # whoever has validation nodes was away at first
        ([0.5, None, 0.4], 1),
    ],
)
def test_the_best_round_is_the_first_with_the_highest_validation_score_or_else_the_last(
    scores: list[float | None], best: int
):
    journal = follow(scores)
    assert journal.best == best
    assert [classifier["w"].item() for classifier in journal.classifiers] == [best]


def test_the_best_classifiers_are_the_clients_own_where_there_is_no_common_one():
    runtime = Rote(clients=2)
    journal = start(runtime=runtime)
    for number, val in [(1, 0.1), (2, 0.6), (3, 0.5)]:
        runtime.memories = [
            {"classifier/w": np.array([number]), "other/x": np.zeros(1)},
            {"classifier/w": np.array([number + 10])},
        ]
        after(journal, number, val, own=True)
    assert [dict(found) for found in journal.classifiers] == [{"w": [2]}, {"w": [12]}]


# Watching


def test_the_watcher_hears_of_every_round_with_its_validation_score():
    heard = []
    journal = start(watch=lambda *args: heard.append(args))
    journal.after_round(PREPARING, None, Progress(0, 1))
    after(journal, 1, 0.25)
    after(journal, 2, None)
    assert heard == [
        ("preparing", 1, 1, None),
        ("training", 1, 9, 0.25),
        ("training", 2, 9, None),
    ]


# Stopping and going on


def test_a_requested_stop_ends_the_run_after_the_round_with_a_checkpoint(tmp_path: Path):
    journal = follow([0.1], tmp_path)
    assert not (tmp_path / "checkpoint.bin").exists()
    journal.stop_requested = lambda: True
    with pytest.raises(InterruptedRunError, match="--resume"):
        after(journal, 2, 0.2)
    assert (tmp_path / "checkpoint.bin").exists()
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["global"]["test"] for line in lines] == [0.1, 0.2]


def test_a_stop_without_folder_stores_nothing_and_still_stops():
    with pytest.raises(InterruptedRunError):
        follow([0.1], stop_requested=lambda: True)


def test_a_long_run_is_checkpointed_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(journal_module, "CHECKPOINT_SECONDS", 0.0)
    follow([0.1, 0.2], tmp_path)
    found = RunFolder(tmp_path).load_checkpoint()
    assert found is not None
    assert found[0]["round"] == 2


def test_a_short_run_is_not(tmp_path: Path):
    follow([0.1, 0.2], tmp_path)
    assert list(tmp_path.iterdir()) == []


def stopped(folder: Path, runtime: Rote) -> Journal:
    """A run of two rounds, the first one better, that was stopped after the second."""
    journal = start(folder, runtime)
    journal.meter.exchange([Request(0, "training", "train", 0, {"w": np.zeros(3)})])
    after(journal, 1, 0.6)
    journal.stop_requested = lambda: True
    with pytest.raises(InterruptedRunError):
        after(journal, 2, 0.5)
    return journal


def test_restoring_gives_back_all_that_the_stopped_run_knew(tmp_path: Path):
    before = stopped(tmp_path, Rote())
    journal = start(tmp_path, Rote())
    progress = journal.restore()
    assert (progress.phase, progress.round) == (1, 2)
    assert dict(progress.state) == {"classifier/w": [2.0]}
    assert journal.history == before.history
    assert (journal.best, journal.seconds) == (before.best, before.seconds)
    assert journal.measuring_seconds == before.measuring_seconds
    assert journal.meter.counts() == before.meter.counts()
    assert journal.meter.counts() == {"training": {"up_bytes": 8, "down_bytes": 24}}
    assert [dict(found) for found in journal.classifiers] == [{"w": [1.0]}]


def test_restoring_gives_every_client_its_memory_back(tmp_path: Path):
    runtime = Rote()
    runtime.memories = [{"classifier/w": np.array([3.0])}, {}]
    stopped(tmp_path, runtime)
    other = Rote()
    start(tmp_path, other).restore()
    assert [dict(state) for state in other.memories] == [{"classifier/w": [3.0]}, {}]


def test_clients_are_told_of_every_round_that_is_the_best_so_far():
    journal = start()
    kept = []
    for number, val in enumerate([0.1, 0.3, 0.2, 0.4], start=1):
        journal.runtime.memories = [{"z": np.array([float(number)])}]
        after(journal, number, val)
        kept.append(float(journal.runtime.kept()[0]["z"][0]))
    assert kept == [1.0, 2.0, 2.0, 4.0]


def test_restoring_gives_every_client_back_what_it_kept(tmp_path: Path):
    runtime = Rote()
    runtime.memories = [{"z": np.array([1.0])}, {}]
    journal = start(tmp_path, runtime)
    after(journal, 1, 0.6)
    runtime.memories = [{"z": np.array([2.0])}, {}]
    journal.stop_requested = lambda: True
    with pytest.raises(InterruptedRunError):
        after(journal, 2, 0.5)
    other = Rote()
    start(tmp_path, other).restore()
    assert [dict(state) for state in other.memories] == [{"z": [2.0]}, {}]
    assert [dict(state) for state in other.best] == [{"z": [1.0]}, {}]


def test_a_restored_run_compares_new_rounds_with_the_best_of_before(tmp_path: Path):
    stopped(tmp_path, Rote())
    journal = start(tmp_path)
    journal.restore()
    after(journal, 3, 0.55)
    assert journal.best == 1
    after(journal, 4, 0.7)
    assert journal.best == 4
    assert [entry["round"] for entry in journal.history] == [1, 2, 3, 4]


@pytest.mark.parametrize("with_folder", [False, True])
def test_without_checkpoint_a_run_starts_at_the_beginning(tmp_path: Path, with_folder: bool):
    journal = start(tmp_path if with_folder else None)
    assert journal.restore() == Progress()
