"""Ordinary payments: standing links between accounts, and what is paid over them."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from feddep.graph.payments.draws import (
    Floats,
    Longs,
    cumulated,
    log_normal,
    pick,
    pick_between,
    whole,
)
from feddep.graph.payments.population import CITIES, Population
from feddep.graph.payments.spec import DAYS_PER_MONTH, PaymentsSpec
from feddep.seeding import Seeds

_REPEATS = 1.25  # sigma of a link's number of payments
_MEAN_REPEATS = 2.05
_SAME_CITY = 0.5
_REGULAR = 0.3  # share of links that are paid on the same day of each month
_ANYBODY = 0.3  # share of receivers that are drawn alike, however many payments they get


@dataclass(frozen=True)
class Payments:
    """A row for each payment.

    Attributes:
        source: id of the sender.
        target: id of the receiver.
        cents: amount.
        day: from 0.
    """

    source: Longs
    target: Longs
    cents: Longs
    day: Longs

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def joined(cls, *parts: "Payments") -> Self:
        """All of them, by day; on a day in the order of the parts."""
        source, target, cents, day = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("source", "target", "cents", "day")
        )
        by_day = np.argsort(day, kind="stable")
        return cls(source[by_day], target[by_day], cents[by_day], day[by_day])


def ordinary_payments(spec: PaymentsSpec, people: Population, seeds: Seeds) -> Payments:
    """Draws links, and for each link its payments."""
    rng = seeds.stream("ordinary")
    links = max(round(spec.accounts * spec.payments * spec.months / _MEAN_REPEATS), people.accounts)
    # Everybody pays somebody; beyond that, activity decides.
    busy = pick(rng, links - people.accounts, people.sends)
    source = np.concatenate([np.arange(people.accounts), busy])
    target = counterparties(rng, source, people, spec)
    times = np.maximum(log_normal(rng, links, _REPEATS).astype(np.int64), 1)
    median = people.scale[source] * log_normal(rng, links, 0.7)
    regular = rng.random(links) < _REGULAR
    first = whole(rng, links, spec.days)
    link = np.repeat(np.arange(links), times)
    number = np.arange(len(link)) - np.repeat(np.cumsum(times) - times, times)
    monthly = (first[link] + DAYS_PER_MONTH * number) % spec.days
    anyhow = whole(rng, len(link), spec.days)
    return Payments(
        source=source[link],
        target=target[link],
        cents=rounded(rng, median[link] * log_normal(rng, len(link), 0.25)),
        day=np.where(regular[link], monthly, anyhow),
    )


def counterparties(
    rng: np.random.Generator,
    source: Longs,
    people: Population,
    spec: PaymentsSpec,
    *,
    near_share: float = _SAME_CITY,
    even_share: float = _ANYBODY,
) -> Longs:
    """Whom each sender pays: at another bank in ``cross_share`` of cases.

    Args:
        rng: draws.
        source: the senders.
        people: all accounts.
        spec: for ``cross_share``.
        near_share: share that is drawn from the sender's city.
        even_share: share that is drawn regardless of how many payments an account gets.
    """
    banks = people.cell_start[:: len(CITIES)]
    sizes = np.diff(banks).astype(np.float64)
    own = people.bank[source]
    bank = np.where(rng.random(len(source)) < spec.cross_share, other_bank(rng, own, sizes), own)
    near = rng.random(len(source)) < near_share
    cell = bank * len(CITIES) + people.city[source]
    first = np.where(near, people.cell_start[cell], banks[bank])
    end = np.where(near, people.cell_start[cell + 1], banks[bank + 1])
    alone = end - first < 2  # nobody but the sender, perhaps
    first, end = np.where(alone, banks[bank], first), np.where(alone, banks[bank + 1], end)
    weights = people.receives[people.cell_order]
    even = first + whole(rng, len(source), end - first)
    drawn = pick_between(rng, cumulated(weights), first, end)
    place = np.where(rng.random(len(source)) < even_share, even, drawn)
    itself = people.cell_order[place] == source
    place = np.where(itself, np.where(place + 1 < end, place + 1, first), place)
    return people.cell_order[place]


def other_bank(rng: np.random.Generator, own: Longs, sizes: Floats) -> Longs:
    """For each row another bank than its own, proportional to sizes."""
    sums = cumulated(sizes)
    # The own bank is cut out of the line of weights.
    draw = rng.random(len(own)) * (sums[-1] - sizes[own])
    draw = draw + np.where(draw >= sums[own], sizes[own], 0.0)
    found = np.clip(np.searchsorted(sums, draw, side="right") - 1, 0, len(sizes) - 1)
    return np.where(found == own, (own + 1) % len(sizes), found)


def rounded(rng: np.random.Generator, cents: Floats) -> Longs:
    """Amounts in cents; one in four is a multiple of ten."""
    exact = np.maximum(np.floor(cents), 100).astype(np.int64)
    round_sum: npt.NDArray[np.bool_] = rng.random(len(cents)) < 0.25
    return np.where(round_sum, np.maximum(exact // 1000, 1) * 1000, exact)
