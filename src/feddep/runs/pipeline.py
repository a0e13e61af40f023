"""The story of a run: from a spec and the clients' data to a record."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from feddep.algorithms import find_method
from feddep.algorithms.method import Method
from feddep.errors import DivergedError, InputError
from feddep.federation.messages import State
from feddep.federation.metering import Meter
from feddep.federation.run_phases import run_phases
from feddep.graph.fingerprint import fingerprint
from feddep.graph.silos import ClientData, Silos
from feddep.learning.classifier import Classifier
from feddep.learning.selection import Selection
from feddep.learning.spec import LearningSpec
from feddep.privacy.events import Event, Events
from feddep.privacy.meaning import GraphSize
from feddep.runs.accounting import mechanism_events, message_events, privacy_record
from feddep.runs.clients import ClientPart
from feddep.runs.files import Record
from feddep.runs.folder import RunFolder
from feddep.runs.generation import generation_record
from feddep.runs.journal import Journal, Watcher
from feddep.runs.measuring import measured, scored
from feddep.runs.records import make_record, sizes_of
from feddep.runs.result import Result
from feddep.runs.storing import store
from feddep.runtime.inprocess import InProcess
from feddep.runtime.runtime import Runtime
from feddep.scenario.build import (
    check_links,
    client_graphs,
    initial_server_state,
    learning_spec_for,
)
from feddep.scenario.spec import RunSpec

Start = Callable[[ClientData, Method, LearningSpec], AbstractContextManager[Runtime]]
"""Starts a federation over the shards of a simulation."""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    spec: RunSpec,
    shards: ClientData,
    *,
    workers: int | None = None,
    device: str = "auto",
    folder: RunFolder | None = None,
    loading_seconds: float = 0.0,
    watch: Watcher | None = None,
    stop_requested: Callable[[], bool] = lambda: False,
    start: Start | None = None,
    keep_diverged: bool = False,
) -> Result:
    """Runs the spec's method over the shards; a folder's checkpoint, if any, is continued.

    Args:
        spec: what to run.
        shards: the clients' data.
        workers: processes of the federation on this machine; None takes the cores.
        device: ``auto``, ``cpu`` or ``cuda``.
        folder: where the run is stored.
        loading_seconds: for the record.
        watch: called after every round.
        stop_requested: asked after every round.
        start: starts another runtime than the one on this machine.
        keep_diverged: if training diverges, end the run there and keep the best round before.
    """
    method = find_method(spec.method)
    check_links(shards, method)
    learning = learning_spec_for(spec, shards, method)
    before = _about_clients(method, learning, shards)  # what cannot be priced is not run
    started = time.perf_counter()
    here = partial(InProcess, workers=workers or cores(), device=device)
    with (start or here)(shards, method, learning) as runtime:
        journal = run_method(
            method,
            learning,
            runtime,
            initial_server_state(shards, method),
            folder=None if start else folder,  # elsewhere clients keep their memories themselves
            watch=watch,
            stop_requested=stop_requested,
            keep_diverged=keep_diverged,
        )
        # Clients that keep their memories to themselves are asked for nothing.
        kept, states = runtime.kept(), runtime.states()
    clients = _parts_of(before, kept, states, shards)
    schema = shards.schema
    models = [Classifier(learning, weights, schema) for weights in journal.classifiers]
    events_by_client = _events_of(before, journal)
    generation = _measured_generation(journal, method, models, shards, clients, states)
    measures = _measured_on_silos(journal, method, models, shards, clients)
    seconds = {"loading": loading_seconds, "setup": journal.began - started}
    privacy = privacy_record(
        spec.privacy.mechanism,
        events_by_client,
        [own.size for own in before],
        spec.privacy.delta,
        spec.privacy.delta_prime,
    )
    record = _record_of(spec, shards, journal, seconds, privacy, generation)
    record["measures"] = measures
    result = Result(
        spec,
        record,
        journal.history,
        models,
        clients,
        events_by_client,
        [Classifier(learning, weights, schema) for weights in journal.after_the_best],
    )
    if folder is not None:
        store(folder, result.store)
    return result


@dataclass(frozen=True)
class _AboutClient:
    """What is known of a client before a run.

    Attributes:
        events: what the method will do with its edges.
        size: how large its graph is.
        graph: fingerprint of its graph.
    """

    events: list[Event]
    size: GraphSize
    graph: str


def _about_clients(
    method: Method, learning: LearningSpec, shards: ClientData
) -> list[_AboutClient]:
    return [
        _AboutClient(
            mechanism_events(method, learning, graph),
            GraphSize(graph.nodes, graph.edges),
            fingerprint(graph),
        )
        for graph in client_graphs(shards, method)  # one subgraph at a time
    ]


def _parts_of(
    before: Sequence[_AboutClient],
    kept: Sequence[State],
    states: Sequence[State],
    data: ClientData,
) -> dict[int, ClientPart]:
    """What each client has besides the classifier, unless it keeps that to itself."""
    encoders = data.encoders if isinstance(data, Silos) else ()
    return {
        client: replace(
            ClientPart.from_memory(
                own.graph,
                kept[client] if kept else None,
                states[client] if states else None,
            ),
            encoder=encoders[client] if encoders else None,
        )
        for client, own in enumerate(before)
    }


def _events_of(before: Sequence[_AboutClient], journal: Journal) -> list[Events]:
    """What each client's mechanisms did, and what left it."""
    return [
        [*own.events, *message_events(journal.meter.sent, client)]
        for client, own in enumerate(before)
    ]


def _measured_generation(
    journal: Journal,
    method: Method,
    models: Sequence[Classifier],
    shards: ClientData,
    clients: Mapping[int, ClientPart],
    states: Sequence[State],
) -> dict[str, Any] | None:
    """What was generated; the time that this takes is the journal's for measuring."""
    began = time.perf_counter()
    shared = models[0] if len(models) == 1 else None
    found = generation_record(method, shared, shards, clients, states)
    journal.measuring_seconds += time.perf_counter() - began
    return found


def _measured_on_silos(
    journal: Journal,
    method: Method,
    models: Sequence[Classifier],
    shards: ClientData,
    clients: Mapping[int, ClientPart],
) -> dict[str, Any] | None:
    """What the classifiers are worth on the silos, unless only they can tell."""
    began = time.perf_counter()
    silos = scored(method, models, list(client_graphs(shards, method)), clients)
    by = journal.selection
    found = None if silos is None else measured(silos, by.metric, by.positive)
    journal.measuring_seconds += time.perf_counter() - began
    return found


def _record_of(
    spec: RunSpec,
    shards: ClientData,
    journal: Journal,
    seconds: Mapping[str, float],
    privacy: Mapping[str, Any],
    generation: Mapping[str, Any] | None,
) -> Record:
    """The record of what the journal noted."""
    record = make_record(
        spec,
        split=shards.split,
        data=sizes_of(shards),
        history=journal.history,
        best=journal.best,
        selection=journal.selection,
        traffic=journal.meter.counts(),
        privacy=privacy,
        generation=generation,
        seconds={
            "total": sum(journal.seconds.values()),
            "phases": journal.seconds,
            **seconds,
            "measuring": journal.measuring_seconds,
        },
    )
    return {**record, "diverged": journal.diverged} if journal.diverged else record


def run_method(
    method: Method,
    learning: LearningSpec,
    runtime: Runtime,
    known: State,
    *,
    folder: RunFolder | None = None,
    watch: Watcher | None = None,
    stop_requested: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float | None = None,
    keep_diverged: bool = False,
) -> Journal:
    """Runs a method over a started federation and records what happens.

    Args:
        method: whose phases.
        learning: what was agreed.
        runtime: the federation.
        known: what the server knows at the beginning.
        folder: where checkpoints go; an existing one is continued.
        watch: called after every round.
        stop_requested: asked after every round.
        checkpoint_seconds: least time between checkpoints; 0 writes one after every round.
        keep_diverged: if training diverges after some round, end the run without an error.
    """
    meter = Meter(runtime)
    meter.expect(phase.name for phase in method.phases)
    rounds = {phase.name: phase.rounds(learning) for phase in method.phases}
    selection = Selection(learning.selection)
    journal = Journal(
        runtime, meter, rounds, folder, watch, stop_requested, checkpoint_seconds, selection
    )
    progress = journal.restore(known)
    journal.start()
    try:
        run_phases(method.phases, learning, runtime.clients, meter, progress, journal.after_round)
    except DivergedError as error:
        if not (keep_diverged and journal.history):
            raise
        journal.diverged = str(error)
    if not journal.history:
        raise InputError(
            f"no phase of {method.name} says how good a classifier is: one of them, such as "
            "Averaging, must return a RoundReport of a round above 0"
        )
    journal.finish()
    return journal
