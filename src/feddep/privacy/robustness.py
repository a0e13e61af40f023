"""How the server combines the clients' weights when it does not trust all of them.

The learning spec holds this and the federation carries it out; it lives below both, because
neither imports the other.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Lt

Rule = Literal["mean", "median", "trimmed-mean"]


@dataclass(frozen=True, kw_only=True)
class AggregationSpec:
    """From the clients' weights to the server's.

    Attributes:
        rule: ``mean``: weighted by training nodes, as in FedAvg; a single client can move it
            anywhere. ``median``: of each coordinate; holds as long as fewer than half of the
            clients lie. ``trimmed-mean``: of each coordinate without the largest and the smallest
            values; holds as long as no more clients lie than are cut off at one end.
        trim: the share of clients that ``trimmed-mean`` cuts off at each end, rounded up.
        clip: largest norm of a client's change against the weights that it was sent, over all
            weights together; a longer one is shortened. 0 takes every change as it is.
    """

    rule: Rule = "mean"
    trim: Annotated[float, Ge(0), Lt(0.5)] = 0.1
    clip: Annotated[float, Ge(0)] = 0.0
