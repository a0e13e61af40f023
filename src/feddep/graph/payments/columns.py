"""What a bank knows about each of its accounts: features from payments, and demographics.

Amounts are whole cents and days whole numbers, so sums are exact; means and deviations are
rounded, so that every machine writes the same digits.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from feddep.graph.payments.draws import Floats, Longs
from feddep.graph.payments.ordinary import Payments
from feddep.graph.payments.population import CITIES, Population

Column = npt.NDArray[np.generic] | np.ma.MaskedArray

_DECIMALS = 4
_WEEK = 7


def feature_columns(people: Population, payments: Payments) -> dict[str, Column]:
    """All features by name, a row for each account; what does not exist is masked."""
    columns: dict[str, Column] = {
        "kind": np.array(["person", "company"])[people.company.astype(np.int64)],
        "city": np.array(CITIES)[people.city],
        "age": np.ma.masked_array(people.age, people.company),
        "salary": np.ma.masked_array(people.salary, people.salary == 0),
        "days_with_bank": people.tenure,
    }
    for side, own, other in (
        ("in", payments.target, payments.source),
        ("out", payments.source, payments.target),
    ):
        found = dict(_of_one_side(people, own, other, payments))
        columns |= {f"{side}_{name}": values for name, values in found.items()}
    return columns


def _of_one_side(
    people: Population, own: Longs, other: Longs, payments: Payments
) -> Iterator[tuple[str, Column]]:
    accounts = people.accounts
    count = np.bincount(own, minlength=accounts)
    none, single = count == 0, count < 2
    yield "count", count
    pairs = np.unique(own * accounts + other) // accounts
    yield "counterparties", np.bincount(pairs, minlength=accounts)
    crossing = own[people.bank[own] != people.bank[other]]
    crossed = np.bincount(crossing, minlength=accounts)
    yield "share_other_banks", _ratio(crossed, count, none)

    weeks = int(payments.day.max()) // _WEEK + 1
    by_week = np.bincount(
        own * weeks + payments.day // _WEEK, weights=payments.cents, minlength=accounts * weeks
    )
    busiest = by_week.reshape(accounts, weeks).max(axis=1)
    yield "busiest_week", np.round(busiest / 100, 2)

    by_amount = np.lexsort((payments.cents, own))
    sizes = payments.cents[by_amount]
    first = np.cumsum(count) - count
    total = _sums(sizes, count)
    mean = total / np.maximum(count, 1)
    yield "sum", np.round(total / 100, 2)
    yield "mean", _known(mean / 100, none)
    yield "median", _known(_middle(sizes, first, count) / 100, none)
    deviation = (sizes - np.repeat(mean, count)) ** 2
    yield "std", _known(np.sqrt(_sums(deviation, count) / np.maximum(count - 1, 1)) / 100, single)
    yield "max", _known(_at(sizes, first + count - 1) / 100, none)
    yield "min", _known(_at(sizes, first) / 100, none)

    days = payments.day[np.argsort(own, kind="stable")]  # payments are in the order of days
    begin, end = _at(days, first), _at(days, first + count - 1)
    yield "first_day", np.ma.masked_array(begin, none)
    yield "last_day", np.ma.masked_array(end, none)
    yield "mean_gap", _ratio(end - begin, np.maximum(count - 1, 1), single)
    gaps = np.diff(days, prepend=0)
    gaps[first[~none]] = 0
    longest = np.zeros(accounts, np.int64)
    np.maximum.at(longest, np.repeat(np.arange(accounts), count), gaps)
    yield "longest_gap", np.ma.masked_array(longest, single)


def _sums(values: Longs | Floats, count: Longs) -> Floats:
    """The sum of each account's values; bincount adds one after the other, alike everywhere."""
    owner = np.repeat(np.arange(len(count)), count)
    weights = values.astype(np.float64)
    return np.bincount(owner, weights=weights, minlength=len(count)).astype(np.float64)


def _at(values: Longs, place: Longs) -> Longs:
    """Values at places, which for accounts without any may be beside the array."""
    return values[np.clip(place, 0, len(values) - 1)]


def _middle(values: Longs, first: Longs, count: Longs) -> Floats:
    low, high = first + (count - 1) // 2, first + count // 2
    both = (_at(values, low) + _at(values, high)).astype(np.float64)
    return both / 2


def _ratio(above: Longs, below: Longs, missing: npt.NDArray[np.bool_]) -> Column:
    return _known(above / np.maximum(below, 1), missing)


def _known(values: Floats, missing: npt.NDArray[np.bool_]) -> Column:
    return np.ma.masked_array(np.round(values, _DECIMALS), missing)
