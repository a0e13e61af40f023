"""All banks' payments in memory."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from feddep.graph.payments.draws import Longs
from feddep.graph.payments.laundering import Laundering, plant
from feddep.graph.payments.ordinary import Payments, ordinary_payments
from feddep.graph.payments.parts import draw_splits
from feddep.graph.payments.population import Population, populate
from feddep.graph.payments.spec import PaymentsSpec
from feddep.seeding import Seeds


@dataclass(frozen=True)
class Generated:
    """All banks' data, before they are written.

    Attributes:
        spec: what they were made from.
        people: the accounts.
        payments: all payments, by day.
        laundering: what was planted among them.
        splits: by name a place in :data:`PARTS` for each account.
    """

    spec: PaymentsSpec
    people: Population
    payments: Payments
    laundering: Laundering
    splits: Mapping[str, Longs]

    @property
    def labels(self) -> Longs:
        """1 for members of a pattern, 0 for all others."""
        labels = np.zeros(self.people.accounts, np.int64)
        labels[self.laundering.account] = 1
        return labels


def generate_payments(spec: PaymentsSpec) -> Generated:
    """Accounts, payments and patterns in memory."""
    seeds = Seeds(spec.seed).child("payments")
    people = populate(spec, seeds)
    laundering = plant(spec, people, seeds)
    ordinary = ordinary_payments(spec, people, seeds)
    payments = Payments.joined(ordinary, laundering.doubles, laundering.payments)
    return Generated(spec, people, payments, laundering, draw_splits(people, laundering, seeds))
