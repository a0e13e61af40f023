"""The (ε, δ) of a mechanism without a run, and of a finished run from its privacy events."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from feddep.errors import DataError, InputError
from feddep.phases.averaging import Averaging
from feddep.phases.local_gnn import LocalGnnTraining
from feddep.phases.prototype_exchange import PrototypeExchange
from feddep.privacy.accountant import example_level, noise_for, price
from feddep.privacy.edge_level import edge_noise
from feddep.privacy.events import (
    BernoulliSelection,
    CappedGradients,
    Event,
    FullNeighbours,
    Message,
    NeighbourSampling,
    NoisedGradients,
    OneShotSampling,
)
from feddep.privacy.occurrences import touched_examples
from feddep.privacy.response import response_event
from feddep.privacy.sampling import one_shot_delta, paper_step
from feddep.privacy.spec import mechanism_named, refuse_unread
from feddep.privacy.statement import statement
from feddep.runs.accounting import edge_entry, finite, plain, privacy_record
from feddep.runs.files import read_record
from feddep.runs.opening import read_events


@dataclass(frozen=True, kw_only=True)
class Question:
    """What ``feddep privacy`` is asked.

    Attributes:
        mechanism: the mechanism.
        fanout: d.
        min_degree: D, the degree of the node that is priced.
        hops: L, lists read one after the other.
        epochs: N, of the local GNN.
        rounds: averaging rounds, whose messages are computed from the edges too.
        keep: r, rate of the Bernoulli sampler.
        delta_prime: δ' of the composition theorem.
        edges: of the client's graph.
        epsilon: of randomised response, or the ε that DP-SGD's noise is calibrated for: of an
            example or, with a cap on occurrences, of an edge.
        noise: σ of DP-SGD.
        batch: share of the examples in a batch of DP-SGD.
        delta: δ at which DP-SGD is priced.
        keep_edge: q₁ of randomised response; 0 is the symmetric form.
        occurrences: of a node in the lists that DP-SGD reads on inner hops; 0 sets no cap.
    """

    mechanism: str = "nfdp"
    fanout: int = 5
    min_degree: int = 10
    hops: int = 2
    epochs: int = 50
    rounds: int = 50
    keep: float = 1.0
    delta_prime: float = 1e-5
    edges: int = 5278
    epsilon: float = 0.0
    noise: float = 2.0
    batch: float = 0.1
    delta: float = 1e-5
    keep_edge: float = 0.0
    occurrences: int = 0


def answer(question: Question) -> dict[str, Any]:
    """``per_step``, ``paper``, ``composed``, ``sound`` and a statement, as plain data."""
    q = _checked(question)
    step = paper_step(q.min_degree, q.fanout)
    events = _events(q)
    prices = price(events, q.edges, q.delta_prime)
    found: dict[str, Any] = {
        "mechanism": q.mechanism,
        "per_step": {"epsilon": step[0], "delta": step[1]},
        "paper": plain(prices.paper),
        "composed": plain(prices.composed),
        "sound": plain(prices.sound),
        "statement": statement(q.mechanism, prices, [events]),
    }
    noised = [event for event in events if isinstance(event, NoisedGradients)]
    if noised:
        found["example_level"] = {
            "epsilon": finite(example_level(noised[0], q.delta)),
            "delta": q.delta,
            "noise": noised[0].noise,
        }
        capped = [event for event in noised if isinstance(event, CappedGradients)]
        if capped:
            found["edge_level"] = edge_entry(capped)
    return found


def of_run(folder: Path) -> dict[str, Any]:
    """The prices of a finished run, from its events."""
    record = read_record(folder)
    events_by_client = read_events(folder)
    if not events_by_client:
        raise DataError(f"{folder} holds no privacy events to price; silos keep their own")
    return privacy_record(
        record["privacy"]["mechanism"],
        events_by_client,
        [_edges(events) for events in events_by_client],
        record["privacy"]["deltas"]["delta"],
        record["privacy"]["deltas"]["delta_prime"],
    )


def price_rows(found: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """One row of texts a column of the accountant, and what DP-SGD costs by itself."""
    rows = []
    for name in ("per_step", "paper", "composed", "sound", "example_level", "edge_level"):
        entry = found.get(name)
        if entry is not None:
            epsilon = "unbounded" if entry["epsilon"] is None else f"{entry['epsilon']:.4g}"
            rows.append((name, epsilon, f"{entry['delta']:.4g}", entry.get("verdict", "")))
    return rows


def _edges(events: Sequence[Event]) -> int:
    for event in events:
        if isinstance(event, CappedGradients):
            return event.edges
    degrees = next(e.degrees for e in events if isinstance(e, NeighbourSampling))
    return sum(degree * count for degree, count in degrees) // 2


def _checked(question: Question) -> Question:
    mechanism = mechanism_named(question.mechanism)
    q = replace(question, mechanism=mechanism)
    for names, fits, expected in _RANGES:
        for name in names:
            if not fits(getattr(q, name)):
                raise InputError(f"{name} must be {expected} (got {getattr(q, name)})")
    if q.mechanism == "randomised-response" and q.epsilon == 0:
        raise InputError("randomised response needs ε; give --epsilon, for example 2")
    refuse_unread(mechanism, asdict(q))
    return q


_RANGES: Sequence[tuple[Sequence[str], Callable[[float], bool], str]] = (
    (("fanout", "min_degree", "hops", "edges"), lambda x: x >= 1, "at least 1"),
    (("epochs", "rounds", "epsilon", "noise", "occurrences"), lambda x: x >= 0, "0 or more"),
    (("keep_edge",), lambda x: 0 <= x < 1, "at least 0 and below 1"),
    (("keep", "batch"), lambda x: 0 < x <= 1, "above 0 and at most 1"),
    (("delta", "delta_prime"), lambda x: 0 < x < 1, "between 0 and 1"),
)


def _events(q: Question) -> list[Event]:
    node = ((q.min_degree, 1),)
    events: list[Event] = [
        Message(PrototypeExchange.name, "prototypes", 1, 0),
        NeighbourSampling("classifier", q.fanout, q.hops, q.rounds, node),
    ]
    if q.rounds:
        events.append(Message(Averaging.name, "classifier", q.rounds, 0))
    sampled = NeighbourSampling("embeddings", q.fanout, q.hops, q.epochs, node)
    match q.mechanism:
        case "nfdp":
            return [sampled, BernoulliSelection(q.keep), *events]
        case "one-shot":
            delta = one_shot_delta(q.min_degree, q.fanout)
            return [OneShotSampling(q.fanout, delta, 1 - (1 - delta) ** 2), *events]
        case "randomised-response":
            return [response_event(q.epsilon, q.keep_edge), *events]
        case "dp-sgd":
            return [FullNeighbours("embeddings"), _noised(q), *events]
    return [FullNeighbours("embeddings"), *events]


def _noised(q: Question) -> NoisedGradients:
    steps, noise = max(1, round(q.epochs / q.batch)), q.noise
    if not q.occurrences:
        if q.epsilon:
            noise = noise_for(q.epsilon, q.delta, q.batch, steps)
        return NoisedGradients("embeddings", noise, 1.0, q.batch, steps)
    touched = touched_examples(q.occurrences, q.hops)
    if q.epsilon:
        noise = edge_noise(q.epsilon, q.delta, q.batch, steps, touched)
    return CappedGradients(
        "embeddings",
        noise,
        1.0,
        q.batch,
        steps,
        phase=LocalGnnTraining.name,
        occurrences=q.occurrences,
        touched=touched,
        delta=q.delta,
        edges=q.edges,
        trainings=1,
    )
