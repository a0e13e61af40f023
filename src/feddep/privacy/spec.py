"""The privacy mechanism between a silo's edges and what leaves the silo."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator

from feddep.errors import InputError, unknown

Mechanism = Literal[
    "nfdp", "one-shot", "randomised-response", "aggregation-perturbation", "dp-sgd", "none"
]

_OTHER_SPELLINGS = {"randomized-response": "randomised-response"}


def mechanism_named(name: str) -> Mechanism:
    """The mechanism of this name, or of another spelling of it, as it is stored.

    Raises:
        InputError: there is none; it lists those that there are.
    """
    known: tuple[Mechanism, ...] = get_args(Mechanism)
    for mechanism in known:
        if mechanism == _OTHER_SPELLINGS.get(name, name):
            return mechanism
    raise unknown("mechanism", name, known)


# Parameters whose 0 leaves them open: what each is for, and the mechanisms that read it.
_READ_BY: dict[str, tuple[str, tuple[Mechanism, ...]]] = {
    "epsilon": (
        "the ε that a mechanism's noise is chosen for",
        ("randomised-response", "aggregation-perturbation", "dp-sgd"),
    ),
    "keep_edge": ("the probability that an edge is kept", ("randomised-response",)),
    "occurrences": ("the cap on the lists that a node may occur in", ("dp-sgd",)),
    "max_degree": ("how many edges of one node are hidden", ("aggregation-perturbation",)),
}


def refuse_unread(mechanism: Mechanism, parameters: Mapping[str, object]) -> None:
    """Refuses a parameter that the mechanism does not read: a promise would seem to be made.

    Args:
        mechanism: the mechanism.
        parameters: what the user gave, by name; 0 leaves one open and is always fine.

    Raises:
        InputError: one would have no effect; it says what it is for and what to do.
    """
    for name, (purpose, readers) in _READ_BY.items():
        value = parameters.get(name)
        if value and mechanism not in readers:
            choice = ", ".join((*readers[:-2], " or ".join(readers[-2:])))
            raise InputError(
                f"privacy.{name} is {purpose}, which {mechanism} does not take (got {value}); "
                f"choose --mechanism {choice}, or leave it out"
            )


def _as_stored(name: object) -> object:
    """Only translates: a spec that refuses a value says which key it belongs to."""
    return _OTHER_SPELLINGS.get(name, name) if isinstance(name, str) else name


@dataclass(frozen=True, kw_only=True)
class PrivacySpec:
    """The mechanism and its parameters.

    Attributes:
        mechanism: ``nfdp``, the paper's: neighbour lists are sampled anew whenever they are read.
            ``one-shot``: every list is sampled once, and everything else uses that sample.
            ``randomised-response``: every pair of nodes is flipped once with a probability that
            depends on ε, and everything else uses the flipped graph. ``aggregation-perturbation``:
            encodings are summed over neighbours and noised once, and everything else uses these
            sums. ``dp-sgd``: clipped and noised gradients of the local GNN, or of FedGNN's
            classifier, on full lists. ``none``: full lists wherever NFDP would sample.
        epsilon: ε of randomised response and of aggregation perturbation; for DP-SGD, the noise is
            chosen to give this ε for one example or, with a cap on occurrences, for one edge. 0
            leaves it open: then ``noise`` counts, and the other two are refused.
        delta: δ at which DP-SGD and aggregation perturbation are priced.
        delta_prime: δ' of the paper's composition theorem.
        noise: noise multiplier σ of DP-SGD (paper: 2).
        clip: largest norm of an example's gradient in DP-SGD (the paper does not say).
        keep_edge: probability that randomised response keeps an edge; the rate of false edges is
            the smallest that ε allows. A small one gives a sparse graph. 0 takes the symmetric
            form, e^ε/(1 + e^ε).
        occurrences: with DP-SGD, in how many neighbour lists a node may occur on all but the
            outermost hop. This bounds the examples that one edge touches, and methods that send
            nothing but a classifier then train it with DP-SGD too. 0 sets no cap.
        summed_hops: K, over how many hops aggregation perturbation sums.
        max_degree: D, with aggregation perturbation: ε is for all edges of a node that has at most
            so many, and for any D of one that has more. 0 is for a single edge.
    """

    mechanism: Annotated[Mechanism, BeforeValidator(_as_stored)] = "nfdp"
    epsilon: Annotated[float, Ge(0)] = 0.0
    delta: Annotated[float, Gt(0), Lt(1)] = 1e-5
    delta_prime: Annotated[float, Gt(0), Lt(1)] = 1e-5
    noise: Annotated[float, Ge(0)] = 2.0
    clip: Annotated[float, Ge(1e-30), Le(1e30)] = 1.0
    keep_edge: Annotated[float, Ge(0), Lt(1)] = 0.0
    occurrences: Annotated[int, Ge(0)] = 0
    # Without repr, which names random streams: keys that others do not read leave theirs alone.
    summed_hops: Annotated[int, Ge(1), Le(8)] = field(default=1, repr=False)
    max_degree: Annotated[int, Ge(0)] = field(default=0, repr=False)

    def __post_init__(self) -> None:
        # A name that nothing acts on would be no mechanism at all.
        object.__setattr__(self, "mechanism", mechanism_named(self.mechanism))

    @property
    def edges_capped(self) -> bool:
        """Whether DP-SGD bounds what a single edge can do."""
        return self.mechanism == "dp-sgd" and self.occurrences > 0

    @property
    def sums(self) -> int:
        """How many noised sums a silo's classifier reads for each node."""
        return self.summed_hops if self.mechanism == "aggregation-perturbation" else 0
