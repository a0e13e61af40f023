"""A server that makes up the classifiers that it sends, to have clients say more than they would.

Clients treat what it sends like any other classifier. In a deployment the largest of these weights
are refused unread (:mod:`feddep.federation.inspection`); here nothing refuses them, so that the
clip alone must hold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from feddep.errors import unknown
from feddep.federation.messages import Arrays, Reply, Request, group, grouped
from feddep.federation.metering import Transport
from feddep.seeding import Seeds

Craft = Callable[[Arrays, np.random.Generator], dict[str, np.ndarray]]


def large(weights: Arrays, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """So large that all gradients are far longer than C: an edge then turns its ends' by 2C."""
    return {
        name: (30 * rng.standard_normal(array.shape)).astype(np.float32)
        for name, array in weights.items()
    }


def cancelling(weights: Arrays, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows of 10⁴ and slopes that cancel between a node and its neighbours."""
    made = {name: 1e3 * array for name, array in large(weights, rng).items()}
    for name in made:
        if name.endswith(".own"):
            made[name] = -made[name.replace(".own", ".neighbours")]
        elif name.startswith("convolutions") and name.endswith(".bias"):
            made[name] = np.full_like(made[name], 1e-3)
    if "bias" in made:
        made["bias"] = np.full_like(made["bias"], 1e4)
    return made


def overflowing(weights: Arrays, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Finite without neighbours, and beyond what float32 holds with some of them."""
    made = large(weights, rng)
    last = max((name for name in made if name.endswith(".neighbours")), default="")
    for name in made:
        if name.endswith((".bias", ".own")):
            made[name] = np.zeros_like(made[name])
    if last:
        made[last] = np.float32(1e36) * made[last]
    return made


CRAFTS: Mapping[str, Craft] = {
    "large": large,
    "cancelling": cancelling,
    "overflowing": overflowing,
}


def craft_named(name: str) -> Craft:
    """The craft of a name.

    Raises:
        InputError: there is none; it lists those that there are.
    """
    if name not in CRAFTS:
        raise unknown("crafted server", name, CRAFTS)
    return CRAFTS[name]


@dataclass(frozen=True)
class CraftingServer:
    """A transport that puts made-up weights into every request with a classifier.

    Args:
        transport: what carries the messages.
        craft: makes them up.
        seeds: for other weights in every round.
    """

    transport: Transport
    craft: Craft
    seeds: Seeds

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Passes the requests on, changed."""
        return self.transport.exchange([self._crafted(request) for request in requests])

    def _crafted(self, request: Request) -> Request:
        weights = group(request.arrays, "classifier")
        if not weights:
            return request
        made = self.craft(weights, self.seeds.stream(request.phase, request.round))
        return replace(request, arrays={**request.arrays, **grouped("classifier", made)})
