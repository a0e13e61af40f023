"""What ε and δ mean on a graph of a given size: how many named links are real, and which δ counts.

An observer who knows nothing else takes each pair of nodes for a link with probability
ρ = edges/pairs. What is seen changes these odds by a factor of at most e^ε, so of the links that
the observer then names the share

    ρe^ε / (ρe^ε + 1 - ρ)

is real, at most. Randomised response attains it: that is the share of true edges in a flipped
graph, whose rates have the ratio q₁/q₀ = e^ε unless more edges are kept than in the symmetric form.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

_LARGEST_DELTA = 1e-5


class GraphSize(NamedTuple):
    """How large a silo's graph is.

    Attributes:
        nodes: n.
        edges: each undirected one once; None where it is not known.
    """

    nodes: int
    edges: int | None = None

    @property
    def pairs(self) -> int:
        """Pairs of nodes, each of which may be linked."""
        return self.nodes * (self.nodes - 1) // 2

    @property
    def density(self) -> float:
        """ρ, the share of the pairs that are linked; 0 where it is not known."""
        return (self.edges or 0) / max(1, self.pairs)


def largest_delta(nodes: int) -> float:
    """The largest δ that counts as a promise: min(10⁻⁵, 1/(10 pairs)).

    δ is the chance that a link is shown as it is. At 1/pairs a mechanism may hand out one pair in
    each run; a tenth of that makes it unlikely that any is. Pairs are taken and not edges, because
    the number of edges is secret.
    """
    return min(_LARGEST_DELTA, 1 / (10 * max(1, GraphSize(nodes).pairs)))


def delta_to_set(nodes: int) -> str:
    """The largest δ in words that may be typed: rounded down to two digits."""
    most = largest_delta(nodes)
    digit = 10.0 ** (math.floor(math.log10(most)) - 1)
    return f"{math.floor(most / digit * (1 + 1e-12)) * digit:.2g}"


def real_share(epsilon: float, size: GraphSize) -> float:
    """The share of real links among those that an observer names, at most."""
    real = size.density * math.exp(epsilon)
    return real / (real + 1 - size.density) if real else 0.0


def meaning(epsilon: float, sizes: Sequence[GraphSize], word: str = "about") -> str:
    """What ε means in the silo where most named links are real, as a sentence; empty if unknown.

    Args:
        epsilon: ε for one undirected edge.
        sizes: of all silos.
        word: ``about``, or ``at most`` where the bound need not be attained.
    """
    densest = max(sizes, key=lambda size: size.density)
    if not densest.edges:
        return ""
    named = 100 * real_share(epsilon, densest)
    shown = "nearly all" if named >= 99.5 else f"{word} {_of_hundred(named)}"
    return (
        f"In a silo of {densest.nodes} nodes and {densest.edges} edges that means: of 100 links "
        f"that an observer could name, {shown} are real (guessing: "
        f"{_of_hundred(100 * densest.density)})."
    )


def _of_hundred(share: float) -> str:
    if share >= 9.5:
        return f"{share:.0f}"
    return f"{share:.2g}" if share >= 0.95 else f"{max(share, 1e-4):.1g}"
