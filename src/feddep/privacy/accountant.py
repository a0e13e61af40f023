"""Three prices for the same events, side by side.

``paper``: its Theorem 3.1 as printed, Bernoulli sampler included, at the smallest degree.
``composed``: that theorem with the composition it cites, without the sampler, at the worst degree
that exists. Both cover the embeddings behind the prototypes only, and one entry of one list.
``sound``: what holds for one undirected edge inside a client's graph, or for several edges of one
node where a mechanism hides so many, and for everything that left the client. Edges between clients
are in nobody's graph and have no price.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from feddep.errors import InputError
from feddep.privacy.aggregation import sums_epsilon
from feddep.privacy.edge_level import edge_epsilon, edge_noise
from feddep.privacy.events import (
    BernoulliSelection,
    CappedGradients,
    Event,
    Events,
    FullNeighbours,
    Message,
    NeighbourSampling,
    NoisedGradients,
    NoisedSums,
    OneShotSampling,
    RandomisedResponse,
    SparseResponse,
)
from feddep.privacy.meaning import largest_delta
from feddep.privacy.occurrences import touched_examples
from feddep.privacy.response import response_epsilon
from feddep.privacy.sampling import as_printed, compose, paper_step
from feddep.privacy.spec import PrivacySpec

QUANTILES = (0.5, 0.9, 0.99, 1.0)
_ORDERS = (*range(2, 64), 80, 96, 128, 192, 256, 512)  # whole: the series of others may not end
LARGEST_EPSILON = 20.0
"""Above it e^ε exceeds 480 million: no promise."""


Bounding = RandomisedResponse | SparseResponse | NoisedSums | CappedGradients
"""Events that may bound all that left; see :func:`bounding`."""


@dataclass(frozen=True)
class Guarantee:
    """What is promised, as (ε, δ).

    Attributes:
        epsilon: ε; None where nothing bounds it.
        delta: δ.
        verdict: ``holds``, or ``none`` where nothing meaningful is promised.
    """

    epsilon: float | None
    delta: float
    verdict: str


NOTHING = Guarantee(None, 1.0, "none")


@dataclass(frozen=True)
class Prices:
    """The three columns, and how the nodes differ.

    Attributes:
        paper: as printed; nothing where the theorem covers nothing of what was done.
        composed: with the cited composition; nothing in the same cases.
        sound: what holds.
        quantiles: composed (ε, δ) of the median node, of the 90% and 99% worst, and the worst.
    """

    paper: Guarantee
    composed: Guarantee
    sound: Guarantee
    quantiles: Sequence[tuple[float, float]] = ()


def price(events: Events, nodes: int, delta_prime: float = 1e-5) -> Prices:
    """Prices a client's events.

    Args:
        events: everything that happened; an unknown event is refused.
        nodes: of the client's graph; a δ above :func:`largest_delta` of them promises nothing.
        delta_prime: δ' of the composition theorem.
    """
    for event in events:
        if not isinstance(event, Event):
            raise InputError(f"the accountant has no price for {type(event).__name__}")
    sampled = [
        event
        for event in events
        if isinstance(event, NeighbourSampling) and event.purpose == "embeddings"
    ]
    keep = math.prod(e.keep for e in events if isinstance(e, BernoulliSelection))
    sound = _sound(events, nodes)
    read_whole = any(isinstance(event, FullNeighbours) for event in events)
    if len(sampled) != 1 or read_whole:
        return Prices(NOTHING, NOTHING, sound)
    by_node = composed_by_node(sampled[0], delta_prime)
    worst = max(by_node)
    return Prices(
        _judged(*printed(sampled[0], delta_prime, keep), nodes),
        _judged(*worst, nodes),
        sound,
        _quantiles(by_node),
    )


def _quantiles(nodes: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    epsilons, deltas = np.array(nodes).T
    return [(float(np.quantile(epsilons, q)), float(np.quantile(deltas, q))) for q in QUANTILES]


def worst_of(prices: Iterable[Prices]) -> Prices:
    """The prices of the client that is worst off; a promise to all is no stronger than that.

    Clients are ranked by their sound (ε, δ), then by the composed one; an unbounded ε is the worst.
    """

    def rank(found: Prices) -> tuple[tuple[float, float], ...]:
        pairs = (found.sound, found.composed)
        return tuple((math.inf if p.epsilon is None else p.epsilon, p.delta) for p in pairs)

    return max(prices, key=rank)


def printed(event: NeighbourSampling, delta_prime: float, keep: float) -> tuple[float, float]:
    """The paper's (ε, δ) at the client's smallest degree."""
    smallest = min((degree for degree, _ in event.degrees if degree), default=1)
    step = paper_step(smallest, event.fanout)
    return as_printed(*step, event.hops * event.epochs, delta_prime, keep)


def composed_by_node(event: NeighbourSampling, delta_prime: float) -> list[tuple[float, float]]:
    """(ε̃, δ̃) of every node of the client, by the cited composition; isolated nodes cost 0."""
    times = event.hops * event.epochs
    found = []
    for degree, count in event.degrees:
        step = paper_step(degree, event.fanout) if degree else (0.0, 0.0)
        pair = compose(*step, times, delta_prime) if degree else (0.0, 0.0)
        found += [pair] * count
    return found or [(0.0, 0.0)]


def example_level(event: NoisedGradients, delta: float) -> float:
    """ε of DP-SGD for one example, by the RDP accountant of dp_accounting."""
    import dp_accounting
    from dp_accounting import rdp

    if event.steps == 0:
        return 0.0
    if event.noise == 0:
        return math.inf
    step = dp_accounting.PoissonSampledDpEvent(
        event.rate, dp_accounting.GaussianDpEvent(event.noise)
    )
    accountant = rdp.RdpAccountant(_ORDERS)
    accountant.compose(step, event.steps)
    return float(accountant.get_epsilon(delta))


def edge_level(event: CappedGradients) -> float:
    """ε of DP-SGD for one undirected edge, at the event's δ."""
    return edge_epsilon(event.noise, event.rate, event.steps, event.touched, event.delta)


def noise_for(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """The noise multiplier that gives ε at δ for one example; the inverse of example_level."""
    import dp_accounting
    from dp_accounting import rdp

    def make(noise: float) -> "dp_accounting.DpEvent":
        gaussian = dp_accounting.GaussianDpEvent(noise)
        return dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(rate, gaussian), steps
        )

    found = dp_accounting.calibrate_dp_mechanism(
        lambda: rdp.RdpAccountant(_ORDERS),
        make,
        epsilon,
        delta,
        dp_accounting.LowerEndpointAndGuess(0.0, 2.0),
    )
    return float(found)


def dp_sgd_event(
    spec: PrivacySpec,
    purpose: Literal["embeddings", "classifier"],
    examples: int,
    batch: int,
    epochs: int,
) -> NoisedGradients:
    """DP-SGD as a spec asks for it: with its noise, or with the noise that its ε needs."""
    rate = min(1.0, batch / max(1, examples))
    steps = epochs * math.ceil(examples / batch)
    noise = spec.noise
    if spec.epsilon and steps:
        noise = noise_for(spec.epsilon, spec.delta, rate, steps)
    return NoisedGradients(purpose, noise, spec.clip, rate, steps)


def capped_event(
    spec: PrivacySpec,
    *,
    purpose: Literal["embeddings", "classifier"],
    phase: str,
    examples: int,
    batch: int,
    epochs: int,
    trainings: int,
    hops: int,
    edges: int,
) -> CappedGradients:
    """DP-SGD with a cap on occurrences; ε, if the spec asks for one, is that of an edge.

    Args:
        spec: noise or ε, and the cap.
        purpose: whose gradients.
        phase: the conversation that they belong to.
        examples: training nodes.
        batch: mean number of examples in a batch.
        epochs: passes over the examples in the whole run.
        trainings: how many trainings these passes make up; each sends its result once.
        hops: of an example's ego-graph.
        edges: of the client's graph.
    """
    plain = dp_sgd_event(replace(spec, epsilon=0.0), purpose, examples, batch, epochs)
    touched = min(examples, touched_examples(spec.occurrences, hops))
    noise = plain.noise
    if spec.epsilon and plain.steps:
        noise = edge_noise(spec.epsilon, spec.delta, plain.rate, plain.steps, touched)
    return CappedGradients(
        purpose,
        noise,
        plain.clip,
        plain.rate,
        plain.steps,
        phase=phase,
        occurrences=spec.occurrences,
        touched=touched,
        delta=spec.delta,
        edges=edges,
        trainings=trainings,
    )


def noise_covers_all(events: Events) -> bool:
    """Whether all that left was computed from gradients that have a price for one edge.

    That takes capped gradients, no more trainings than were priced, and no list read otherwise.
    """
    covered = {event.phase for event in events if isinstance(event, CappedGradients)}
    read = any(isinstance(event, NeighbourSampling | FullNeighbours) for event in events)
    left = {event.phase for event in events if isinstance(event, Message)}
    return bool(covered) and not read and left <= covered and not trained_too_often(events)


def trained_too_often(events: Events) -> bool:
    """Whether more trained weights left than the price of their gradients covers.

    Numbers are not counted: they are computed without edges, from weights that were sent anyway.
    """
    priced: defaultdict[str, float] = defaultdict(float)
    for event in events:
        if isinstance(event, CappedGradients):
            priced[event.phase] += _trainings(event)
    return any(
        event.times > priced[event.phase]
        for event in events
        if isinstance(event, Message) and event.name != "numbers" and event.phase in priced
    )


def _trainings(event: CappedGradients) -> float:
    if event.steps == 0:  # without examples, weights are sent back unchanged
        return math.inf
    # Events of older runs do not say; a training has at least one step.
    return event.steps if event.trainings is None else event.trainings


def edge_shown(events: Events) -> float:
    """The probability that one-shot samples show a given edge, for the edge that is worst off."""
    shots = [event for event in events if isinstance(event, OneShotSampling)]
    return 1 - math.prod(1 - event.edge_delta for event in shots)


def _sound(events: Events, nodes: int) -> Guarantee:
    """What holds for one undirected edge inside the client's graph.

    A mechanism that acts before everything else bounds all that follows, which is post-processing.
    Noise on gradients bounds what was computed from these alone. Without either, any message may
    reveal any edge: lists are drawn again and again, as often as a node occurs in batches, and
    that number has no bound.
    """
    bounds = bounding(events)
    if bounds is not None:
        spent = sum((e.delta for e in bounds if isinstance(e, CappedGradients | NoisedSums)), 0.0)
        return _judged(sum(map(_bound, bounds), 0.0), spent, nodes, sound=True)
    if any(isinstance(event, OneShotSampling) for event in events):
        return _judged(0.0, edge_shown(events), nodes, sound=True)
    return NOTHING


def bounding(events: Events) -> list[Bounding] | None:
    """The mechanisms whose prices together bound all that left; None if nothing does.

    Empty if nothing left. One-shot samples are not among them: they show some edges as they are.
    """
    if not any(isinstance(event, Message) for event in events):
        return []
    flips = _flips(events)
    if flips:  # each flip costs its own ε; what is done with the flipped graph costs nothing
        return [*flips]
    sums = [event for event in events if isinstance(event, NoisedSums)]
    if sums:  # nor does what is done with noised sums
        return [*sums]
    if any(isinstance(event, OneShotSampling) for event in events):
        return None
    if noise_covers_all(events):
        return [event for event in events if isinstance(event, CappedGradients)]
    return None


def _flips(events: Events) -> list[RandomisedResponse | SparseResponse]:
    return [event for event in events if isinstance(event, RandomisedResponse | SparseResponse)]


def _bound(event: Bounding) -> float:
    if isinstance(event, NoisedSums):
        return sums_epsilon(event)
    return edge_level(event) if isinstance(event, CappedGradients) else flip_epsilon(event)


def flip_epsilon(event: RandomisedResponse | SparseResponse) -> float:
    """ε of randomised response for one undirected edge."""
    if isinstance(event, RandomisedResponse):
        return event.epsilon
    return response_epsilon(event.keep, event.create)


def _judged(epsilon: float, delta: float, nodes: int, *, sound: bool = False) -> Guarantee:
    promises = delta <= largest_delta(nodes) and epsilon <= LARGEST_EPSILON
    if sound and not promises:
        return Guarantee(None, delta, "none")
    return Guarantee(epsilon, delta, "holds" if promises else "none")
