"""Aggregation perturbation: sums over neighbours with noise, computed once.

Source: Sajadmanesh, Shamsabadi, Bellet and Gatica-Perez 2023, "GAP: Differentially Private Graph
Neural Networks with Aggregation Perturbation". Every node v has a row x⁰_v of norm 1 at most that
does not depend on any edge. In each of K hops

    s_v = Σ_{u ∈ N(v)} xᵏ⁻¹_u + N(0, σ²I),    xᵏ_v = s_v / |s_v|.

Nothing else is read of the edges, so whatever is done with x¹ … xᴷ is post-processing.

**Sensitivity.** Take two graphs that differ in D edges at most, all of them at one node v; D = 1 is
any single edge. Before the noise, the sum at the other end of each of these edges gains or loses
x_v: D rows change by a norm of 1 at most. The sum at v gains and loses D rows of norm 1 at most,
and so changes by D at most. No other row changes. Altogether

    Δ = √(D·1² + D²) = √(D(D + 1)),

which is √2 for one edge, and is reached where all rows are one and the same vector of norm 1.

**Hops.** What a hop sums is computed from the noised sums of the hop before, so given these it is
the same for both graphs. K hops are therefore K Gaussian mechanisms of sensitivity Δ, each chosen
by the one before, which is exactly one Gaussian mechanism with a noise multiplier of σ/(Δ√K)
(Dong, Roth and Su 2019).

**D edges of one node, not "node level".** A node with up to D edges is hidden with all of them. Of
a node with more, any D are. The usual way to promise more, keeping D entries of every list drawn
at random (as GAP does), does not: a node in the middle of a star is in as many lists as it has
neighbours, and where its edge goes, each of them keeps another entry instead. So the number of
rows that change has no bound, whatever D is.

**Numbers.** Rows are rounded towards zero to multiples of 2⁻²⁰, so that their norm never exceeds 1
and their sums are exact, in any order. The noise is drawn in double precision and rounded to such
a multiple too. Adding the two is then exact, and the result is what rounding the sum of exact
numbers would give, which is post-processing: no bit of it depends on how large the sum was, as it
would if floating-point numbers were added (Mironov 2012).

**Asked twice.** σ is taken from the levels 2^(i/16)/16 and the noise is a sum of independent
pieces, one for each level up to its own. A release at a higher level is then one at a lower level
with more noise added. So over the first hop all releases of one graph, at whatever ε, δ, D or K,
together cost no more than the one with the least noise.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.privacy.events import NoisedSums
from feddep.privacy.noise import NoiseStream
from feddep.privacy.secret_stream import SecretStream
from feddep.privacy.spec import PrivacySpec

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Draw = Callable[..., NoiseStream]
"""Gives the stream of a name, which is one or several words and numbers."""

_UNIT = 2.0**20
"""Rows, sums and noise are whole multiples of one over this."""
_LEAST_NOISE = 2.0**-4
_PER_DOUBLING = 16  # levels; σ is at most 4.4% above what ε needs
_MOST_NOISE = 2.0**20
_JUST_BELOW_ONE = 1 - 2.0**-30  # what is left of 1 after any rounding is at most 1


def sensitivity(edges: int) -> float:
    """Δ for ``edges`` edges of one node, D: √(D(D + 1))."""
    return math.sqrt(edges * (edges + 1))


def sums_epsilon(event: NoisedSums) -> float:
    """ε at the event's δ, exactly that of the Gaussian mechanism."""
    import dp_accounting

    multiplier = event.noise / (sensitivity(event.edges) * math.sqrt(event.hops))
    return float(dp_accounting.get_epsilon_gaussian(multiplier, event.delta))


def edge_epsilon(events: Sequence[NoisedSums], delta: float) -> float:
    """ε of several releases together for one edge, as if each had noise of its own."""
    import dp_accounting

    if not events:
        return 0.0
    squares = math.fsum(event.hops * (sensitivity(1) / event.noise) ** 2 for event in events)
    return float(dp_accounting.get_epsilon_gaussian(1 / math.sqrt(squares), delta))


def sums_event(spec: PrivacySpec) -> NoisedSums:
    """What the spec asks for: the least noise of all levels that gives its ε.

    Raises:
        InputError: there is no ε, or it would take more noise than there is a level for.
    """
    import dp_accounting

    if spec.epsilon <= 0:
        raise InputError("aggregation perturbation needs ε; give --epsilon, for example 2")
    edges = max(1, spec.max_degree)
    wide = sensitivity(edges) * math.sqrt(spec.summed_hops)
    needed = wide * float(dp_accounting.get_sigma_gaussian(spec.epsilon, spec.delta))
    if not needed <= _MOST_NOISE / 2:
        raise InputError(
            f"ε = {spec.epsilon:g} at δ = {spec.delta:g} would take noise of standard deviation "
            f"{needed:.3g} on sums of rows of norm 1; use a larger ε, or a smaller "
            "privacy.max_degree or privacy.summed_hops"
        )
    level = max(0, math.floor(_PER_DOUBLING * math.log2(needed / _LEAST_NOISE)))

    def event(level: int) -> NoisedSums:
        return NoisedSums(_noise_of(level), spec.summed_hops, edges, spec.delta)

    while sums_epsilon(event(level)) > spec.epsilon:
        level += 1
    return event(level)


def noised_sums(
    graph: Graph, rows: Floats, hops: int, noise: float, draw: Draw | None
) -> list[Floats]:
    """x¹ … xᴷ, each ``(n, c)`` with rows of norm 1.

    Args:
        graph: whose edges are summed over.
        rows: x⁰, ``(n, c)``, which must not depend on edges; see :func:`unit_rows`.
        hops: K.
        noise: σ, one of the levels.
        draw: gives the stream of a name. A secret one must depend on the graph's edges; the names
            hold what is summed. Noise that two different sums share could be subtracted. None adds
            none, for what never leaves.
    """
    found = []
    for _ in range(hops):
        rows = unit_rows(noised_hop(graph, rows, noise, draw))
        found.append(rows)
    return found


def noised_hop(graph: Graph, rows: Floats, noise: float, draw: Draw | None) -> Floats:
    """s, ``(n, c)``, of one hop; see :func:`noised_sums`."""
    whole = whole_rows(rows)
    sums = exact_sums(graph, whole)
    if draw is not None:
        digest = hashlib.sha256(whole.tobytes()).hexdigest()
        drawn = _gaussian(partial(draw, *whole.shape, digest), whole.shape, noise)
        sums = sums + np.rint(_UNIT * drawn).astype(np.int64)
    return sums / _UNIT


def whole_rows(rows: Floats) -> Longs:
    """Rows brought to norm 1, in multiples of 2⁻²⁰; their squares sum to 2⁴⁰ at most."""
    return np.trunc(unit_rows(rows) * (_UNIT * _JUST_BELOW_ONE)).astype(np.int64)


def exact_sums(graph: Graph, rows: Longs) -> Longs:
    """Σ_{u ∈ N(v)} of the rows for every node v, ``(n, c)``."""
    ones = np.ones(len(graph.indices), np.int64)
    adjacency = sp.csr_array((ones, graph.indices, graph.indptr), (graph.nodes, graph.nodes))
    return np.asarray(adjacency @ rows)


def unit_rows(rows: Floats) -> Floats:
    """The rows brought to norm 1; those that are 0, or not finite, become 0."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    usable = np.isfinite(largest) & (largest > 0)
    scaled = np.where(usable, rows, 0.0) / np.where(usable, largest, 1.0)  # squares stay finite
    norms = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    return np.asarray(scaled / np.where(usable, norms, 1.0))


def _noise_of(level: int) -> float:
    return float(_LEAST_NOISE * 2.0 ** (level / _PER_DOUBLING))


def _gaussian(draw: Draw, shape: tuple[int, ...], noise: float) -> Floats:
    """N(0, σ²) as a sum of pieces, those of all levels up to σ's."""
    total, variance = np.zeros(shape), 0.0
    for level in range(round(_PER_DOUBLING * math.log2(noise / _LEAST_NOISE)) + 1):
        upper = _noise_of(level) ** 2
        total += math.sqrt(upper - variance) * _normals(draw(level), shape)
        variance = upper
    return total


def _normals(stream: NoiseStream, shape: tuple[int, ...]) -> Floats:
    if isinstance(stream, SecretStream):
        return stream.normals(math.prod(shape)).reshape(shape)
    return stream.standard_normal(shape)
