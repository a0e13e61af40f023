"""Which accounts are for training, validation and test: six splits of two kinds."""

import numpy as np

from feddep.graph.payments.draws import Longs, order
from feddep.graph.payments.laundering import Laundering
from feddep.graph.payments.population import Population
from feddep.seeding import Seeds

PARTS = ("train", "val", "test")
SPLITS = tuple(f"{kind}_{i}" for kind in ("stratified", "pattern") for i in range(3))
_ENDS = (0.6, 0.8)


def draw_splits(people: Population, laundering: Laundering, seeds: Seeds) -> dict[str, Longs]:
    """By name a place in :data:`PARTS` for each account.

    A *stratified* split divides launderers and others of each bank. A split by *pattern* keeps the
    members of a pattern together, so no test account has a known accomplice.
    """
    launders = np.zeros(people.accounts, bool)
    launders[laundering.account] = True
    group = people.bank * 2 + launders
    found = {}
    for name in SPLITS:
        rng = seeds.stream("split", name)
        parts = _divided(rng, group)
        if name.startswith("pattern"):
            of_pattern = _divided(rng, np.zeros(len(laundering.typology), np.int64))
            parts[laundering.account] = of_pattern[laundering.pattern]
        found[name] = parts
    return found


def _divided(rng: np.random.Generator, group: Longs) -> Longs:
    """60, 20 and 20% of each group, in random order and rounded at random."""
    shuffled = order(rng, len(group))
    place = shuffled[np.argsort(group[shuffled], kind="stable")]
    sizes = np.bincount(group)
    first = np.cumsum(sizes) - sizes
    rank = np.arange(len(group)) - first[group[place]]
    level = (rank + rng.random(len(sizes))[group[place]]) / sizes[group[place]]
    parts = np.empty(len(group), np.int64)
    parts[place] = np.searchsorted(_ENDS, level, side="right")
    return parts
