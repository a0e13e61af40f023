"""The story of a run: from a spec and the parties' data to a record."""

import os
import time
from collections.abc import Callable

from feddep.algorithms import find_method
from feddep.experiments.folder import RunFolder
from feddep.experiments.journal import Journal, Watcher
from feddep.experiments.ledgers import mechanism_events, message_events, privacy_record
from feddep.experiments.records import make_record, sizes_of
from feddep.experiments.result import Result
from feddep.federation.conduct import conduct
from feddep.federation.messages import group
from feddep.federation.metering import Meter
from feddep.graph.shard import Shards
from feddep.learning.classifier import Classifier
from feddep.runtime.inprocess import InProcess
from feddep.scenario.build import known_at_first, parties, recipe_for
from feddep.scenario.spec import RunSpec


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    spec: RunSpec,
    shards: Shards,
    *,
    workers: int | None = None,
    device: str = "auto",
    folder: RunFolder | None = None,
    loading_seconds: float = 0.0,
    watch: Watcher | None = None,
    stop_requested: Callable[[], bool] = lambda: False,
) -> Result:
    """Runs the spec's method over the shards; a folder's checkpoint, if any, is continued."""
    method = find_method(spec.method)
    recipe = recipe_for(spec, shards.graph, method)
    started = time.perf_counter()
    workers = workers or cores()
    with InProcess(shards, method, recipe, workers=workers, device=device) as runtime:
        meter = Meter(runtime)
        meter.expect(phase.name for phase in method.phases)
        rounds = {phase.name: phase.rounds(recipe) for phase in method.phases}
        journal = Journal(runtime, meter, rounds, folder, watch, stop_requested)
        progress = journal.restore(known_at_first(shards, method))
        setup_seconds = time.perf_counter() - started
        journal.start()
        conduct(method.phases, recipe, runtime.clients, meter, progress, journal.after_round)
        journal.finish()
        generators = [group(state, "generator") for state in runtime.states()]

    ledgers, edges = [], []
    for client, graph in enumerate(parties(shards, method)):  # one subgraph at a time
        events = mechanism_events(method, recipe, graph)
        ledgers.append([*events, *message_events(meter.sent, client)])
        edges.append(graph.edges)
    privacy = spec.privacy
    record = make_record(
        spec,
        split=shards.split,
        data=sizes_of(shards.graph),
        history=journal.history,
        best=journal.best,
        traffic=meter.counts(),
        privacy=privacy_record(
            privacy.mechanism,
            ledgers,
            edges,
            privacy.delta,
            privacy.delta_prime,
        ),
        seconds={
            "total": sum(journal.seconds.values()),
            "phases": journal.seconds,
            "loading": loading_seconds,
            "setup": setup_seconds,
            "measuring": journal.measuring_seconds,
        },
    )
    models = [Classifier(recipe, weights) for weights in journal.classifiers]
    generators = [weights for weights in generators if weights]
    result = Result(spec, record, journal.history, models, generators, ledgers)
    if folder is not None:
        folder.finish(record, journal.history, journal.classifiers, generators, ledgers)
    return result
