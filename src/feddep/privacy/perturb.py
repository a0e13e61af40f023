"""Mechanisms that act on a silo's graph before anything else does."""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from numba import njit

from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.privacy.noise import NoiseStream
from feddep.privacy.response import is_symmetric, largest_keep, response_epsilon, response_rates
from feddep.privacy.spec import PrivacySpec

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

MOST_FLIPS = 50_000_000
"""More false edges than this would take gigabytes in every silo."""

_AT_ONCE = 1 << 18


def perturbs(spec: PrivacySpec) -> bool:
    """Whether the mechanism acts on a silo's graph before anything else does."""
    return spec.mechanism in ("one-shot", "randomised-response", "aggregation-perturbation")


def perturbed(graph: Graph, spec: PrivacySpec, fanout: int, rng: NoiseStream) -> Graph:
    """The graph that a silo works with from here on; for most mechanisms the true one.

    Args:
        graph: the silo's true graph.
        spec: the mechanism.
        fanout: d, entries that a one-shot sample keeps of every list.
        rng: the mechanism's noise. In a deployment it must come from the silo's secret. A
            simulation derives it from the run's seed, so that a run can be repeated, and says so.
    """
    if spec.mechanism == "one-shot":
        return one_shot(graph, fanout, rng)
    if spec.mechanism == "randomised-response":
        if spec.epsilon <= 0:
            raise InputError("randomised response needs ε; give --epsilon, for example 2")
        if is_symmetric(spec.epsilon, spec.keep_edge):
            return randomised_response(graph, spec.epsilon, rng)
        return sparse_response(graph, spec.epsilon, spec.keep_edge, rng)
    return graph


def noise_key(spec: PrivacySpec, fanout: int) -> tuple[str | int, ...]:
    """What the noise of a mechanism that perturbs graphs depends on: its rates, and nothing else.

    A setting that does not change the rates must not change the noise. Otherwise whoever chooses
    the settings gets independent answers at the same ε, and their majority is the true graph.
    Other rates must have independent noise: two answers from one sequence of draws would reveal
    more than both prices together allow.

    Args:
        spec: the mechanism.
        fanout: d, which counts for one-shot samples alone.
    """
    if spec.mechanism == "one-shot":
        return spec.mechanism, fanout
    if spec.mechanism == "randomised-response":
        keep, create = response_rates(spec.epsilon, spec.keep_edge)
        return spec.mechanism, keep.hex(), create.hex()
    return (spec.mechanism,)


def one_shot(graph: Graph, fanout: int, rng: NoiseStream) -> Graph:
    """Keeps ``fanout`` entries of every longer neighbour list, drawn once without replacement.

    An edge stays if either of its ends keeps it: with δ_v = min(1, d / degree), the probability
    is 1 - (1 - δ_u)(1 - δ_v).
    """
    source = np.repeat(np.arange(graph.nodes), graph.degrees)
    # The d smallest of independent draws are a uniform sample of the list.
    order = np.lexsort((rng.random(len(source)), source))
    rank = np.arange(len(source)) - np.repeat(graph.indptr[:-1], graph.degrees)
    kept = order[rank < fanout]
    return graph.with_edges(np.stack([source[kept], graph.indices[kept]], axis=1))


def randomised_response(graph: Graph, epsilon: float, rng: NoiseStream) -> Graph:
    """Flips every unordered pair of nodes independently with probability 1 / (1 + e^ε).

    Source: Warner 1965, applied to the bits of the adjacency matrix. Two graphs that differ in
    one edge give any result with probabilities that differ by a factor e^ε at most. Cost and
    memory are linear in the number of flips.

    Raises:
        InputError: there would be too many flips; it names the smallest possible ε.
    """
    pairs = graph.nodes * (graph.nodes - 1) // 2
    _, create = response_rates(epsilon)
    expected = pairs * create
    if expected > MOST_FLIPS:
        raise _too_many(graph.nodes, expected, epsilon, math.log(pairs / MOST_FLIPS - 1))

    def flips() -> Iterator[Longs]:
        return _heads(pairs, create, deepcopy(rng))

    indptr, indices = _flipped(_numbers(graph), flips, graph.nodes)
    return replace(graph, indptr=indptr, indices=indices)


def sparse_response(graph: Graph, epsilon: float, keep: float, rng: NoiseStream) -> Graph:
    """Keeps every edge with probability q₁ and turns every other pair into one with q₀.

    q₀ is the smallest that ε allows. For q₁ ≤ e^ε/(1 + e^ε) the result is distributed as the
    symmetric form's with a share of its edges dropped: smaller, with as many false edges for each
    true one. Cost and memory are linear in the edges that are lost, kept and created.

    Args:
        graph: the true graph.
        epsilon: ε for one undirected edge.
        keep: q₁.
        rng: the mechanism's noise.

    Raises:
        InputError: there would be too many false edges; it names the smallest possible ε and the
            largest possible q₁.
    """
    pairs = graph.nodes * (graph.nodes - 1) // 2
    _, create = response_rates(epsilon, keep)
    if pairs * create > MOST_FLIPS:  # counted without the edges, which are secret
        least = response_epsilon(keep, MOST_FLIPS / pairs)
        raise _too_many(graph.nodes, pairs * create, epsilon, least)
    true = _numbers(graph)
    kept = np.delete(true, bernoulli_positions(len(true), 1 - keep, rng))
    # Drawn among the pairs that are not edges; each is then moved past the edges before it.
    edges_before = true - np.arange(len(true))

    def created() -> Iterator[Longs]:
        for heads in _heads(pairs - len(true), create, deepcopy(rng)):
            yield heads + np.searchsorted(edges_before, heads, side="right")

    indptr, indices = _flipped(kept, created, graph.nodes)
    return replace(graph, indptr=indptr, indices=indices)


def _too_many(nodes: int, expected: float, epsilon: float, least: float) -> InputError:
    most = largest_keep(epsilon, MOST_FLIPS / (nodes * (nodes - 1) // 2))
    digit = 10.0 ** (math.floor(math.log10(most)) - 1)
    return InputError(
        f"randomised response at ε = {epsilon:g} would add about {expected:.3g} false edges to "
        f"{nodes} nodes, more than {MOST_FLIPS:.0e}; keep fewer edges (privacy.keep_edge of at "
        f"most {math.floor(most / digit) * digit:.2g}) or use ε of at least "
        f"{math.ceil(100 * least) / 100:.2f}"
    )


def _numbers(graph: Graph) -> Longs:
    """The edges u < v as the numbers of their pairs, ascending; see :func:`_walk`."""
    u, v = graph.edge_list().astype(np.int64).T
    found: Longs = np.sort(u * (2 * graph.nodes - u - 1) // 2 + v - u - 1)
    return found


def _flipped(true: Longs, flips: Callable[[], Iterator[Longs]], nodes: int) -> tuple[Longs, Ints]:
    """The adjacency after the flips, which are drawn twice: to count, and to fill the lists.

    So they are never all in memory, which holds little more than the result.
    """
    larger, smaller = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    nothing = np.empty(0, np.int32)
    _walk_all(true, flips(), nodes, larger, smaller, nothing)
    indptr = np.concatenate([[0], np.cumsum(larger + smaller)])
    indices = np.empty(indptr[-1], np.int32)
    # A node's list: first its smaller neighbours, then the larger, both as the walk meets them.
    _walk_all(true, flips(), nodes, indptr[:-1] + smaller, indptr[:-1].copy(), indices)
    return indptr, indices


def _walk_all(
    true: Longs, flips: Iterator[Longs], nodes: int, larger: Longs, smaller: Longs, indices: Ints
) -> None:
    place = (0, 0, 0)
    for piece in flips:
        place = _walk(true, piece, piece[-1], place, nodes, larger, smaller, indices)
    rest, end = np.empty(0, np.int64), np.iinfo(np.int64).max
    _walk(true, rest, end, place, nodes, larger, smaller, indices)


@njit(cache=True)
def _walk(
    true: Longs,
    flips: Longs,
    end: int,
    place: tuple[int, int, int],
    nodes: int,
    larger: Longs,
    smaller: Longs,
    indices: Ints,
) -> tuple[int, int, int]:
    """Meets every pair up to ``end`` that is an edge or flipped, not both, in ascending order.

    A pair u < v has the number u(2n - u - 1)/2 + v - u - 1. Counts the entries of each list in
    ``larger`` and ``smaller``, or, given room in ``indices``, writes them at these places.

    Returns:
        Where it stopped: how many edges it met, u, and the number of (u, u + 1).
    """
    fill = len(indices) > 0
    i, u, first = place
    j = 0
    beyond = np.iinfo(np.int64).max
    while (i < len(true) and true[i] <= end) or j < len(flips):
        a = true[i] if i < len(true) else beyond
        b = flips[j] if j < len(flips) else beyond
        number = min(a, b)
        i += a <= b
        j += b <= a
        if a == b:
            continue
        while number >= first + nodes - 1 - u:
            first += nodes - 1 - u
            u += 1
        v = u + 1 + number - first
        if fill:
            indices[larger[u]] = v
            indices[smaller[v]] = u
        larger[u] += 1
        smaller[v] += 1
    return i, u, first


def _heads(count: int, p: float, rng: NoiseStream) -> Iterator[Longs]:
    """The heads among independent coins, found by the geometric gaps between them.

    Args:
        count: number of coins.
        p: the probability of heads.
        rng: draws the gaps.

    Yields:
        Their positions, ascending, some at a time.
    """
    last = -1
    while last < count - 1:
        expected = (count - 1 - last) * p
        draws = min(int(expected + 4 * math.sqrt(expected) + 16), _AT_ONCE)
        gaps = rng.geometric(p, draws)
        np.minimum(gaps, count + 1, out=gaps)  # beyond the end the size does not matter
        np.cumsum(gaps, out=gaps)
        gaps += last
        last = int(gaps[-1])
        heads = gaps[: np.searchsorted(gaps, count)]
        if len(heads):
            yield heads


def bernoulli_positions(count: int, p: float, rng: NoiseStream) -> Longs:
    """The positions below ``count`` at which independent coins of probability p show heads."""
    return np.concatenate([np.empty(0, np.int64), *_heads(count, p, rng)])
