"""Pricing a run: what its mechanisms did at each client, and everything that left the client."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from feddep.algorithms.method import Method
from feddep.errors import InputError
from feddep.federation.phase import AnyPhase
from feddep.graph.graph import Graph
from feddep.learning.spec import LearningSpec
from feddep.privacy.accountant import (
    Guarantee,
    Prices,
    edge_level,
    example_level,
    price,
    worst_of,
)
from feddep.privacy.aggregation import sums_event
from feddep.privacy.events import (
    CappedGradients,
    Event,
    Events,
    KnownCrossings,
    Message,
    NoisedGradients,
    NoisedSums,
    OneShotSampling,
)
from feddep.privacy.links import is_linked, link_epsilon
from feddep.privacy.meaning import GraphSize
from feddep.privacy.noised_updates import silo_epsilon
from feddep.privacy.response import response_event
from feddep.privacy.sampling import one_shot_delta
from feddep.privacy.statement import statement


def mechanism_events(method: Method, learning: LearningSpec, graph: Graph) -> list[Event]:
    """What the mechanisms do with one client's graph in a run of the method."""
    spec = learning.privacy
    events: list[Event] = [KnownCrossings()] if method.sees_cross_edges else []
    if spec.mechanism == "randomised-response":
        events.append(response_event(spec.epsilon, spec.keep_edge))
    if spec.sums:
        _check_needs_no_edges(method)
        events.append(sums_event(spec))
    if spec.mechanism == "one-shot":
        events.append(_one_shot(graph, learning.training.fanout))
    for phase in method.phases:
        events += _declared(phase, learning, graph)
    return events


def _check_needs_no_edges(method: Method) -> None:
    """Refuses methods that mend subgraphs: noised sums leave nothing to learn mending from."""
    if (
        method.trains_generator
        or method.sees_cross_edges
        or method.linked
        or method.fusion != "none"
    ):
        raise InputError(
            f"{method.name} adds missing neighbours to a graph, and aggregation-perturbation "
            "leaves a silo sums and no graph; choose a method that trains a classifier alone, such "
            "as fedavg, or another mechanism"
        )


def _declared(phase: AnyPhase, learning: LearningSpec, graph: Graph) -> list[Event]:
    found = list(phase.events(learning, graph))
    for event in found:
        if not isinstance(event, Event):
            raise InputError(
                f"phase {phase.name}: expected events of feddep.privacy.events "
                f"(got {type(event).__name__})"
            )
    return found


def planned_messages(method: Method, learning: LearningSpec) -> list[Event]:
    """What may leave one client in a run: everything that its phases declare."""
    events: list[Event] = []
    for phase in method.phases:
        times: dict[str, int] = {}
        for step in phase.steps(learning).values():
            often = phase.rounds(learning) if step.releases is None else step.releases
            names = {*step.reply, *(["numbers"] if step.numbers else [])}
            times |= {name: max(times.get(name, 0), often) for name in names}
        events += [Message(phase.name, name, often, 0) for name, often in sorted(times.items())]
    return events


def message_events(sent: Mapping[str, Sequence[int]], client: int) -> list[Event]:
    """What left one client, from the meter's counts."""
    events: list[Event] = []
    for key, (times, size) in sent.items():
        who, phase, name = key.split("/", 2)
        if int(who) == client:
            events.append(Message(phase, name, times, size))
    return events


def privacy_record(
    mechanism: str,
    events_by_client: Sequence[Events],
    sizes: Sequence[GraphSize],
    delta: float,
    prime: float,
) -> dict[str, Any]:
    """The entry ``privacy`` of a record: three prices of the worst-off client, and a statement.

    Args:
        mechanism: the run's.
        events_by_client: every client's.
        sizes: of every client's graph.
        delta: δ at which DP-SGD is priced.
        prime: δ' of the composition theorem.
    """
    prices = [
        price(own, size.nodes, prime) for own, size in zip(events_by_client, sizes, strict=True)
    ]
    worst = worst_of(prices)
    noised = [e for own in events_by_client for e in own if isinstance(e, NoisedGradients)]
    examples = [example_level(e, delta) for e in set(noised) if e.purpose != "updates"]
    found = {
        "mechanism": mechanism,
        "verdict": worst.sound.verdict,
        "statement": statement(mechanism, worst, events_by_client, sizes),
        "paper": plain(worst.paper),
        "composed": plain(worst.composed),
        "sound": plain(worst.sound),
        "composed_quantiles": _quantiles(worst),
        "deltas": {"delta": delta, "delta_prime": prime},
        "sizes": [size._asdict() for size in sizes],
        "example_level": {"epsilon": finite(max(examples)), "delta": delta} if examples else None,
        "relation": "paper and composed: one entry of one neighbour list; sound: "
        f"{_hidden(events_by_client)} inside one silo. Node set, features, labels and split count "
        "as public.",
    }
    capped = [e for e in noised if isinstance(e, CappedGradients)]
    if capped:  # for this training alone; ``sound`` says whether it bounds all that left
        found["edge_level"] = edge_entry(capped)
    updates = [e for e in noised if e.purpose == "updates"]
    if updates:  # of the updates alone; scores and losses go with them
        found["silo_level"] = _silo_entry(updates, delta)
    if any(map(is_linked, events_by_client)):  # of the answers over links; edges have ``sound``
        worst_links = max(map(link_epsilon, events_by_client))
        found["links"] = {"epsilon": finite(worst_links), "of": "one node of the silo that answers"}
    return found


def _hidden(events_by_client: Sequence[Events]) -> str:
    """What a sound ε is for."""
    sums = [e.edges for own in events_by_client for e in own if isinstance(e, NoisedSums)]
    most = min(sums, default=1)
    return "one undirected edge" if most == 1 else f"up to {most} undirected edges of one node"


def _silo_entry(events: Sequence[NoisedGradients], delta: float) -> dict[str, Any]:
    """What noised updates alone cost a silo whose data are all replaced, where it is most."""
    epsilon, worst = max(
        ((silo_epsilon(e.noise, e.steps, delta), e) for e in events), key=lambda pair: pair[0]
    )
    return {"epsilon": finite(epsilon), "delta": delta, "of": "updates", "noise": worst.noise}


def edge_entry(events: Sequence[CappedGradients]) -> dict[str, Any]:
    """What noised gradients cost one undirected edge, at the client where it is most."""
    epsilon, worst = max(((edge_level(e), e) for e in events), key=lambda pair: pair[0])
    return {
        "epsilon": finite(epsilon),
        "delta": worst.delta,
        "of": worst.purpose,
        "touched": worst.touched,
        "noise": worst.noise,
    }


def finite(epsilon: float) -> float | None:
    """An ε as plain data: JSON has no infinity, and None says that there is no bound."""
    return epsilon if math.isfinite(epsilon) else None


def plain(found: Guarantee) -> dict[str, Any]:
    """A guarantee as plain data."""
    return {"epsilon": found.epsilon, "delta": found.delta, "verdict": found.verdict}


def _quantiles(prices: Prices) -> dict[str, dict[str, float]] | None:
    if not prices.quantiles:
        return None
    names = ("median", "90%", "99%", "worst")
    rows = zip(names, prices.quantiles, strict=True)
    return {name: {"epsilon": float(e), "delta": float(d)} for name, (e, d) in rows}


def _one_shot(graph: Graph, fanout: int) -> OneShotSampling:
    by_node = np.array([one_shot_delta(int(degree), fanout) for degree in graph.degrees])
    u, v = graph.edge_list().T
    by_edge = 1 - (1 - by_node[u]) * (1 - by_node[v])
    return OneShotSampling(fanout, float(by_node.max(initial=0.0)), float(by_edge.max(initial=0.0)))
