"""Following a run: history, best round, times, checkpoints."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Any, Protocol

from feddep.errors import DataError, InterruptedRunError
from feddep.federation.messages import Arrays, State, group, grouped
from feddep.federation.metering import Meter
from feddep.federation.phase import AnyPhase, RoundReport
from feddep.federation.run_phases import Progress
from feddep.learning.evaluation import Scores
from feddep.learning.selection import Selection
from feddep.runs.folder import RunFolder
from feddep.runs.old_formats import checkpoint_of_today
from feddep.runs.records import entry_of
from feddep.runtime.runtime import Runtime

CHECKPOINT_SECONDS = 10.0

log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Something that follows a run's progress, such as a progress bar."""

    def __call__(self, phase: str, round: int, rounds: int, val: float | None) -> None:
        """Called after every round; ``val`` is the newest validation accuracy, if any."""
        ...


@dataclass
class Journal:
    """Everything that is recorded between the rounds of a run.

    Args:
        runtime: where classifiers are measured and clients' memories are kept.
        meter: the traffic so far.
        rounds: rounds of each phase, for the progress bar.
        folder: where checkpoints go; None keeps nothing.
        watch: called after every round.
        stop_requested: asked after every round; True ends the run with a checkpoint.
        checkpoint_seconds: least time between checkpoints; None takes CHECKPOINT_SECONDS.
        selection: how the best round is told.

    Attributes:
        best: the best round so far.
        classifiers: of the best round: one, or one for each client; none if silos keep them.
        last: those of the last round, once the run is finished.
    """

    runtime: Runtime
    meter: Meter
    rounds: Mapping[str, int]
    folder: RunFolder | None = None
    watch: Watcher | None = None
    stop_requested: Callable[[], bool] = lambda: False
    checkpoint_seconds: float | None = None
    selection: Selection = field(default_factory=Selection)
    history: list[dict[str, Any]] = field(default_factory=list)
    best: int = 0
    classifiers: Sequence[Arrays] = ()
    last: Sequence[Arrays] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    measuring_seconds: float = 0.0
    diverged: str = ""

    def __post_init__(self) -> None:
        self._pending: list[tuple[dict[str, Any], Future[list[Scores]]]] = []
        self.began = self._mark = self._saved = time.perf_counter()

    def start(self) -> None:
        """Starts the clock."""
        self.began = self._mark = self._saved = time.perf_counter()

    def after_round(self, phase: AnyPhase, report: RoundReport | None, progress: Progress) -> None:
        """Records one round; called by the round loop.

        Raises:
            InterruptedRunError: a stop was requested; the checkpoint is written.
        """
        now = time.perf_counter()
        self.seconds[phase.name] = self.seconds.get(phase.name, 0.0) + now - self._mark
        if report is not None:
            self.selection.settle(report.metrics)
            if report.round > 0:
                self._note(report)
        if self.watch is not None:
            val = report.metrics.get("silo_val") if report else None
            self.watch(phase.name, progress.round, self.rounds[phase.name], val)
        stopping = self.stop_requested()
        pause = CHECKPOINT_SECONDS if self.checkpoint_seconds is None else self.checkpoint_seconds
        if stopping or time.perf_counter() - self._saved >= pause:
            self._checkpoint(progress, needed=stopping or pause == 0)
        if stopping:
            raise InterruptedRunError(
                "stopped; the same command continues from here (feddep run: with --resume)"
            )
        self._mark = time.perf_counter()
        self.measuring_seconds += self._mark - now

    def finish(self) -> None:
        """Waits for the last measurements, and takes the last round's classifiers."""
        self._wait()
        if not self.diverged:  # then some clients are one round further than others
            self.last = self.last or self._of_clients()

    def _wait(self) -> None:
        for entry, future in self._pending:
            scores = future.result()
            own = {"test": _mean("test", scores), "val": _mean("val", scores)}
            entry["global"] = own | _mean_measures(scores)
        self._pending.clear()

    @property
    def after_the_best(self) -> Sequence[Arrays]:
        """The last round's classifiers, unless the last round is the best."""
        return () if self.best == self.history[-1]["round"] else self.last

    def restore(self, known: State | None = None) -> Progress:
        """Continues from the folder's checkpoint, or starts at the beginning if there is none.

        Args:
            known: what the server knows at the beginning.
        """
        stored = self.folder.load_checkpoint() if self.folder else None
        if self.folder is None or stored is None:
            return Progress(state=known or {})
        try:
            return self._continued(*checkpoint_of_today(*stored))
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(
                f"a checkpoint in {self.folder.path} does not hold what this version continues "
                f"from ({error!r}); delete it and start again"
            ) from None

    def _continued(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> Progress:
        self.history, self.best = header["history"], header["best"]
        self.seconds, self.measuring_seconds = header["seconds"], header["measuring_seconds"]
        self.selection.restore(header["selection"])
        self.meter.restore(header["traffic"])
        self.meter.sent = header["sent"]
        self.classifiers = [group(arrays, f"best-{i}") for i in range(header["classifiers"])]
        self.last = [group(arrays, f"last-{i}") for i in range(header.get("last", 0))]
        self.runtime.restore(
            [group(arrays, f"client-{i}") for i in range(header["clients"])],
            [group(arrays, f"kept-{i}") for i in range(header["kept"])],
        )
        return Progress(header["phase"], header["round"], group(arrays, "server"))

    def _note(self, report: RoundReport) -> None:
        metrics = report.metrics
        loss = metrics.get("loss", nan)
        entry: dict[str, Any] = {
            "round": report.round,
            "loss": loss if isfinite(loss) else None,  # JSON has no NaN
            "silo": {
                "test": metrics.get("silo_test"),
                "val": metrics.get("silo_val"),
                **self.selection.of_round(metrics),
            },
            "global": {"test": None, "val": None},
            "seconds": round(sum(self.seconds.values()), 6),
        }
        self.history.append(entry)
        self._pending.append((entry, self.runtime.measure(report.classifier)))
        own = report.classifier
        self.last = [] if own is None else [own]
        if self._is_best(entry):
            self.best, self.classifiers = report.round, self.last or self._of_clients()
            self.runtime.keep()

    def _of_clients(self) -> list[Arrays]:
        """The classifiers in the clients' memories, where each has its own."""
        return [group(state, "classifier") for state in self.runtime.states()]

    def _is_best(self, entry: Mapping[str, Any]) -> bool:
        """Better than any round before; as long as nobody can validate, the last one counts."""
        if not self.best:
            return True
        return self.selection.is_better(entry["silo"], entry_of(self.history, self.best)["silo"])

    def _checkpoint(self, progress: Progress, *, needed: bool) -> None:
        """Writes a checkpoint; one that is not needed may fail."""
        if self.folder is None:
            return
        self._wait()
        states, kept = self.runtime.states(), self.runtime.kept()
        arrays: dict[str, Any] = grouped("server", progress.state)
        for client, state in enumerate(states):
            arrays |= grouped(f"client-{client}", state)
        for client, state in enumerate(kept):
            arrays |= grouped(f"kept-{client}", state)
        for number, classifier in enumerate(self.classifiers):
            arrays |= grouped(f"best-{number}", classifier)
        for number, classifier in enumerate(self.last):
            arrays |= grouped(f"last-{number}", classifier)
        header = {
            "phase": progress.phase,
            "round": progress.round,
            "clients": len(states),
            "kept": len(kept),
            "classifiers": len(self.classifiers),
            "last": len(self.last),
            "selection": self.selection.to_plain(),
            "history": self.history,
            "best": self.best,
            "seconds": self.seconds,
            "measuring_seconds": self.measuring_seconds,
            "traffic": self.meter.counts(),
            "sent": self.meter.sent,
        }
        self._saved = time.perf_counter()
        try:
            self.folder.save_checkpoint(header, arrays)
            self.folder.write_history(self.history)
        except OSError as error:  # the run goes on, and the last checkpoint is still there
            if needed:
                raise
            log.warning("no checkpoint could be written: %s", error)


def _mean(part: str, scores: Sequence[Scores]) -> float | None:
    """The mean accuracy of one or several classifiers; None if it could not be measured."""
    values = [getattr(entry, part) for entry in scores]
    return None if None in values or not values else sum(values) / len(values)


def _mean_measures(scores: Sequence[Scores]) -> dict[str, float]:
    """The mean of each measure over the classifiers that have it."""
    names = dict.fromkeys(name for entry in scores for name in entry.measures)
    found = {name: [e.measures[name] for e in scores if name in e.measures] for name in names}
    return {name: sum(values) / len(values) for name, values in found.items()}
