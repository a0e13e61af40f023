"""What generated payments are like, in numbers that published data sets report, too."""

from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.graph.payments.draws import Longs
from feddep.graph.payments.generate import Generated
from feddep.graph.payments.ordinary import Payments
from feddep.graph.payments.population import Population
from feddep.graph.payments.typologies import TYPOLOGIES

_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def bank_name(number: int) -> str:
    """What a bank's folder is called, and the bank itself in ``source_bank``."""
    return f"bank-{number}"


def facts_of(made: Generated) -> dict[str, Any]:
    """Counts, shares and distributions."""
    people, laundering = made.people, made.laundering
    labels = made.labels
    return {
        "accounts": people.accounts,
        "laundering_accounts": int(labels.sum()),
        "laundering_rate": _share(labels),
        "laundering_transactions": len(laundering.payments),
        "honest_lookalike_transactions": len(laundering.doubles),
        **distributions(made.payments, people),
        "cross_share_laundering_transactions": _share(_crosses(laundering.payments, people)),
        "mean_amount_laundering": _mean(laundering.payments.cents / 100),
        "patterns": len(laundering.typology),
        "types": dict(
            zip(
                TYPOLOGIES,
                np.bincount(laundering.typology, minlength=len(TYPOLOGIES)).tolist(),
                strict=True,
            )
        ),
        **_spread(laundering.pattern, people.bank[laundering.account]),
        "banks": _banks(made, labels),
    }


def distributions(payments: Payments, people: Population) -> dict[str, Any]:
    """What all payments are like."""
    accounts = people.accounts
    pairs, repeats = np.unique(payments.source * accounts + payments.target, return_counts=True)
    crossing = people.bank[pairs // accounts] != people.bank[pairs % accounts]
    return {
        "transactions": len(payments),
        "transactions_per_account": round(len(payments) / accounts, 2),
        "edges": len(pairs),
        "payments_per_edge": round(len(payments) / len(pairs), 2),
        "cross_share_transactions": _share(_crosses(payments, people)),
        "cross_share_edges": _share(crossing),
        "receivers_per_account": _quantiles(np.bincount(pairs // accounts, minlength=accounts)),
        "senders_per_account": _quantiles(np.bincount(pairs % accounts, minlength=accounts)),
        "repeats_of_an_edge": _quantiles(repeats),
        "amount": _quantiles(payments.cents / 100),
        "mean_amount": _mean(payments.cents / 100),
    }


def _spread(pattern: Longs, bank: Longs) -> dict[str, Any]:
    """Over how many banks patterns spread."""
    pairs = np.unique(np.stack([pattern, bank], axis=1), axis=0)
    banks = np.bincount(pairs[:, 0])
    members = np.bincount(pattern)
    return {
        "members_per_pattern": _mean(members),
        "banks_per_pattern": _mean(banks),
        "patterns_in_one_bank": int((banks == 1).sum()),
    }


def _banks(made: Generated, labels: Longs) -> dict[str, Any]:
    people, payments = made.people, made.payments
    banks = made.spec.banks
    crosses = _crosses(payments, people)
    sent = np.bincount(people.bank[payments.source], minlength=banks)
    received = np.bincount(people.bank[payments.target[crosses]], minlength=banks)
    accounts = np.bincount(people.bank, minlength=banks)
    found = np.bincount(people.bank, weights=labels, minlength=banks).astype(np.int64)
    return {
        bank_name(number): {
            "accounts": int(accounts[number]),
            "laundering_accounts": int(found[number]),
            "transactions": int(sent[number] + received[number]),
        }
        for number in range(banks)
    }


def _crosses(payments: Payments, people: Population) -> npt.NDArray[np.bool_]:
    crosses: npt.NDArray[np.bool_] = people.bank[payments.source] != people.bank[payments.target]
    return crosses


def _quantiles(values: npt.NDArray[np.generic]) -> dict[str, float]:
    found = np.sort(values)[[int(level * (len(values) - 1)) for level in _LEVELS]]
    return {f"{level:.0%}": float(value) for level, value in zip(_LEVELS, found, strict=True)}


def _share(values: npt.NDArray[np.generic]) -> float:
    return round(float(np.count_nonzero(values) / len(values)), 4)


def _mean(values: npt.NDArray[np.generic]) -> float:
    return round(float(np.cumsum(values, dtype=np.float64)[-1] / len(values)), 2)
