"""Banks and their accounts: who they are, before any payment."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from feddep.graph.payments.draws import Floats, Longs, cumulated, log_normal, order, pick, whole
from feddep.graph.payments.spec import FEWEST_ACCOUNTS_PER_BANK, PaymentsSpec
from feddep.seeding import Seeds

CITIES = ("Aarstad", "Bergholm", "Corvik", "Dalen", "Elmstad", "Fjordby", "Granvik", "Holmen")
_COMPANIES = 0.12
_NEXT_BANK = 0.72  # each bank has this share of the accounts of the one before it, as in AMLGentex
_SMALLEST_BANK = 0.05  # of the first


@dataclass(frozen=True)
class Population:
    """A row for each account; its number is its id, and says nothing.

    Attributes:
        bank: number of its bank.
        city: number in :data:`CITIES`.
        company: whether it is one; otherwise a person.
        age: in years, of persons.
        salary: a year, of persons; 0 where the bank does not know it.
        tenure: days since it was opened.
        sends: weight as a sender of payments.
        receives: weight as a receiver.
        scale: median of its payments, in cents.
        cell_order: accounts ordered by bank and city.
        cell_start: where each cell of bank and city begins in that order.
    """

    bank: Longs
    city: Longs
    company: npt.NDArray[np.bool_]
    age: Longs
    salary: Longs
    tenure: Longs
    sends: Floats
    receives: Floats
    scale: Floats
    cell_order: Longs
    cell_start: Longs

    @property
    def accounts(self) -> int:
        """How many there are."""
        return len(self.bank)


def populate(spec: PaymentsSpec, seeds: Seeds) -> Population:
    """Draws the accounts of all banks."""
    count = spec.accounts
    rng = seeds.stream("accounts")
    bank = np.repeat(np.arange(spec.banks), bank_sizes(spec))[order(rng, count)]
    city = pick(rng, count, 1.0 / np.arange(1.0, len(CITIES) + 1))
    company = rng.random(count) < _COMPANIES
    salary = np.floor(32_000 * log_normal(rng, count, 0.45)).astype(np.int64)
    unknown = company | (rng.random(count) < 0.05)
    activity = log_normal(rng, count, 1.2) * np.where(company, 3.5, 1.0)
    scale = 60_000 * log_normal(rng, count, 0.5) * np.where(company, 1.6, 1.0)
    cell = bank * len(CITIES) + city
    return Population(
        bank=bank,
        city=city,
        company=company,
        age=18 + whole(rng, count, 68),
        salary=np.where(unknown, 0, salary),
        tenure=30 + np.floor(1500 * log_normal(rng, count, 0.9)).astype(np.int64),
        sends=activity,
        receives=activity * log_normal(rng, count, 0.8),
        scale=scale,
        cell_order=np.argsort(cell, kind="stable"),
        cell_start=np.searchsorted(np.sort(cell), np.arange(spec.banks * len(CITIES) + 1)),
    )


def bank_sizes(spec: PaymentsSpec) -> Longs:
    """How many accounts each bank has."""
    weights = [1.0]
    while len(weights) < spec.banks:
        weights.append(max(weights[-1] * _NEXT_BANK, _SMALLEST_BANK))
    free = spec.accounts - FEWEST_ACCOUNTS_PER_BANK * spec.banks
    ends = np.floor(cumulated(np.array(weights)) / sum(weights) * free + 0.5).astype(np.int64)
    return np.diff(ends) + FEWEST_ACCOUNTS_PER_BANK
