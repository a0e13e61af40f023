"""The (ε, δ) of a mechanism without a run, and of a finished run from its privacy events."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from feddep.algorithms import find_method
from feddep.algorithms.method import Method
from feddep.errors import DataError, InputError
from feddep.graph.graph import Graph, Part
from feddep.learning.prototypes import EmbeddingSpec
from feddep.learning.spec import LearningSpec, TrainingSpec
from feddep.models.generator import GeneratorSpec
from feddep.models.sage import ModelSpec
from feddep.privacy.accountant import example_level, price
from feddep.privacy.events import (
    CappedGradients,
    Event,
    NeighbourSampling,
    NoisedGradients,
    OneShotSampling,
)
from feddep.privacy.meaning import GraphSize
from feddep.privacy.sampling import one_shot_delta, paper_step
from feddep.privacy.spec import Mechanism, PrivacySpec, mechanism_named, refuse_unread
from feddep.privacy.statement import statement
from feddep.runs.accounting import (
    edge_entry,
    finite,
    mechanism_events,
    plain,
    planned_messages,
    privacy_record,
)
from feddep.runs.files import read_record
from feddep.runs.opening import read_events


@dataclass(frozen=True, kw_only=True)
class Question:
    """What ``feddep privacy`` is asked.

    Attributes:
        mechanism: the mechanism.
        method: the method, on which depends what leaves and so what the mechanism covers.
        fanout: d.
        min_degree: D, the degree of the node that is priced.
        hops: L, lists read one after the other.
        epochs: N, of the local GNN.
        rounds: averaging rounds, whose messages are computed from the edges too.
        keep: r, rate of the Bernoulli sampler.
        delta_prime: δ' of the composition theorem.
        nodes: of the client's graph.
        edges: of the client's graph.
        epsilon: of randomised response or aggregation perturbation, or the ε that DP-SGD's noise is
            calibrated for: of an example or, with a cap on occurrences, of an edge.
        noise: σ of DP-SGD.
        batch: share of the examples in a batch of DP-SGD.
        delta: δ at which DP-SGD and aggregation perturbation are priced.
        keep_edge: q₁ of randomised response; 0 is the symmetric form.
        occurrences: of a node in the lists that DP-SGD reads on inner hops; 0 sets no cap.
        summed_hops: K of aggregation perturbation.
        max_degree: D, edges of one node that aggregation perturbation hides; 0 is a single one.
    """

    mechanism: str = "nfdp"
    method: str = "feddep"
    fanout: int = 5
    min_degree: int = 10
    hops: int = 2
    epochs: int = 50
    rounds: int = 50
    keep: float = 1.0
    delta_prime: float = 1e-5
    nodes: int = 2708
    edges: int = 5278
    epsilon: float = 0.0
    noise: float = 2.0
    batch: float = 0.1
    delta: float = 1e-5
    keep_edge: float = 0.0
    occurrences: int = 0
    summed_hops: int = 1
    max_degree: int = 0


def answer(question: Question) -> dict[str, Any]:
    """What the mechanism promises with the method, as plain data.

    ``sound`` and a statement; ``per_step``, ``paper`` and ``composed`` where the paper's theorem
    covers something of what is done, and None elsewhere.
    """
    q, mechanism = _checked(question)
    method = find_method(q.method)
    _check_mechanism(method, mechanism)
    learning = _learning(q, mechanism, method)
    events = [_at_degree(q, event) for event in mechanism_events(method, learning, _examples(q))]
    events += planned_messages(method, learning)
    prices = price(events, q.nodes, q.delta_prime)
    sampled = mechanism == "nfdp" and bool(prices.quantiles)
    step = paper_step(q.min_degree, q.fanout)
    found: dict[str, Any] = {
        "mechanism": mechanism,
        "method": q.method,
        "per_step": {"epsilon": step[0], "delta": step[1]} if sampled else None,
        "paper": plain(prices.paper) if sampled else None,
        "composed": plain(prices.composed) if sampled else None,
        "sound": plain(prices.sound),
        "statement": statement(
            mechanism, prices, [events], [GraphSize(q.nodes, q.edges)], planned=True
        ),
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
        _sizes(record, events_by_client),
        record["privacy"]["deltas"]["delta"],
        record["privacy"]["deltas"]["delta_prime"],
    )


_COLUMNS = (
    "per_step",
    "paper",
    "composed",
    "sound",
    "example_level",
    "edge_level",
    "silo_level",
)


def price_rows(found: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """One row of texts a column of the accountant, and what DP-SGD costs by itself."""
    rows = []
    for name in _COLUMNS:
        entry = found.get(name)
        if entry is not None:
            epsilon = "unbounded" if entry["epsilon"] is None else f"{entry['epsilon']:.4g}"
            rows.append((name, epsilon, f"{entry['delta']:.4g}", entry.get("verdict", "")))
    return rows


def _sizes(
    record: Mapping[str, Any], events_by_client: Sequence[Sequence[Event]]
) -> list[GraphSize]:
    """The clients' graphs; records of earlier versions do not tell, so their events are asked."""
    told = record["privacy"].get("sizes")
    if told is not None:
        return [GraphSize(**size) for size in told]
    most = record.get("data", {}).get("nodes", sys.maxsize)
    return [_size(events, most) for events in events_by_client]


def _size(events: Sequence[Event], most: int) -> GraphSize:
    """As the events tell; where none does, with so many nodes as there can be, the worst case."""
    for event in events:
        if isinstance(event, NeighbourSampling):
            nodes = sum(count for _, count in event.degrees)
            return GraphSize(nodes, sum(degree * count for degree, count in event.degrees) // 2)
    return GraphSize(most)


def _checked(question: Question) -> tuple[Question, Mechanism]:
    mechanism = mechanism_named(question.mechanism)
    q = replace(question, mechanism=mechanism)
    for names, fits, expected in _RANGES:
        for name in names:
            if not fits(getattr(q, name)):
                raise InputError(f"{name} must be {expected} (got {getattr(q, name)})")
    pairs = GraphSize(q.nodes).pairs
    if q.edges > pairs:
        raise InputError(
            f"{q.nodes} nodes have {pairs} pairs, so that there can be no more edges (got "
            f"{q.edges}); give --nodes and --edges of the same graph"
        )
    if q.mechanism == "randomised-response" and q.epsilon == 0:
        raise InputError("randomised response needs ε; give --epsilon, for example 2")
    refuse_unread(mechanism, asdict(q))
    return q, mechanism


_RANGES: Sequence[tuple[Sequence[str], Callable[[float], bool], str]] = (
    (("fanout", "min_degree", "hops", "nodes", "edges"), lambda x: x >= 1, "at least 1"),
    (
        ("epochs", "rounds", "epsilon", "noise", "occurrences", "max_degree"),
        lambda x: x >= 0,
        "0 or more",
    ),
    (("summed_hops",), lambda x: 1 <= x <= 8, "from 1 to 8"),
    (("keep_edge",), lambda x: 0 <= x < 1, "at least 0 and below 1"),
    (("keep", "batch"), lambda x: 0 < x <= 1, "above 0 and at most 1"),
    (("delta", "delta_prime"), lambda x: 0 < x < 1, "between 0 and 1"),
)


def _check_mechanism(method: Method, mechanism: Mechanism) -> None:
    own = method.settings.get("privacy.mechanism", mechanism)
    if own != mechanism:
        raise InputError(
            f"{method.name} has the mechanism {own} and takes no other (got {mechanism}); give "
            f"--mechanism {own}"
        )


def _learning(q: Question, mechanism: Mechanism, method: Method) -> LearningSpec:
    """The settings of a run that the question is about."""
    return LearningSpec(
        features=1,
        classes=2,
        model=ModelSpec(layers=q.hops),
        training=TrainingSpec(rounds=q.rounds, fanout=q.fanout),
        embedding=EmbeddingSpec(depth=q.hops, epochs=q.epochs),
        generator=GeneratorSpec(keep=q.keep),
        privacy=PrivacySpec(
            mechanism=mechanism,
            epsilon=q.epsilon,
            delta=q.delta,
            delta_prime=q.delta_prime,
            noise=q.noise,
            keep_edge=q.keep_edge,
            occurrences=q.occurrences,
            summed_hops=q.summed_hops,
            max_degree=q.max_degree,
        ),
        fusion=method.fusion,
    )


def _examples(q: Question) -> Graph:
    """Training nodes, of which a batch of the usual size is the share that is asked for."""
    count = max(1, round(TrainingSpec().batch_size / q.batch))
    return Graph.from_edges(
        [],
        sp.csr_array((count, 1), dtype=np.float32),
        np.zeros(count, int),
        classes=2,
        split=np.full(count, Part.TRAIN),
    )


def _at_degree(q: Question, event: Event) -> Event:
    """An event of a graph without edges, as it is for a node of the degree that is asked for."""
    if isinstance(event, NeighbourSampling):
        return replace(event, degrees=((q.min_degree, 1),))
    if isinstance(event, OneShotSampling):
        delta = one_shot_delta(q.min_degree, q.fanout)
        return replace(event, list_delta=delta, edge_delta=1 - (1 - delta) ** 2)
    return event
