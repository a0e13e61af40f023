"""Laundering patterns and the doubles that hide them."""

from dataclasses import dataclass

import numpy as np

from feddep.graph.payments.draws import Floats, Longs, log_normal, order, pick, whole
from feddep.graph.payments.ordinary import Payments, counterparties, other_bank, rounded
from feddep.graph.payments.population import Population
from feddep.graph.payments.spec import PaymentsSpec
from feddep.graph.payments.typologies import TYPOLOGIES, known_by, payments_of
from feddep.seeding import Seeds

SMALLEST, LARGEST = 3, 15  # members of a pattern, as in AMLGentex
_SHORTEST_DAYS = 5
_LARGEST_UPLIFT = 8.0
_DOUBLES = 2.0
_MOST_TRANCHES = 3  # payments over one link of a pattern


@dataclass(frozen=True)
class Laundering:
    """What was planted.

    Attributes:
        account: the members of all patterns, pattern by pattern.
        pattern: the number of each member's pattern.
        typology: of each pattern, its place in :data:`TYPOLOGIES`.
        payments: the laundering payments.
        payment_pattern: the pattern of each.
        doubles: honest payments that look like laundering.
    """

    account: Longs
    pattern: Longs
    typology: Longs
    payments: Payments
    payment_pattern: Longs
    doubles: Payments


def plant(spec: PaymentsSpec, people: Population, seeds: Seeds) -> Laundering:
    """Draws patterns with members at several banks, their payments and their doubles."""
    rng = seeds.stream("patterns")
    sizes = _sizes(rng, max(round(spec.rate * people.accounts), SMALLEST))
    shares = np.array([float(spec.typologies.get(name, 0.0)) for name in TYPOLOGIES])
    typology = _apportioned(rng, len(sizes), shares)
    start = np.cumsum(sizes) - sizes  # of each pattern's members
    bank = np.empty(int(sizes.sum()), np.int64)
    rows: list[Longs] = []
    for kind, name in enumerate(TYPOLOGIES):
        for size in range(SMALLEST, LARGEST + 1):
            found = np.flatnonzero((typology == kind) & (sizes == size))
            if not len(found):
                continue
            pairs = payments_of(name, size)
            bank[start[found][:, None] + np.arange(size)] = _banks(
                rng, known_by(pairs, size), len(found), people, spec
            )
            rows.append(_rows(found, start[found], pairs))
    account = _members(rng, bank, people)
    links = np.concatenate(rows)
    tranches = 1 + whole(rng, len(links), _MOST_TRANCHES)
    sender, receiver, pattern, step = np.repeat(links, tranches, axis=0).T
    payments = _payments(rng, account[sender], account[receiver], pattern, step, people, spec)
    double = _doubles(seeds.stream("doubles"), account, payments, people, spec)
    return Laundering(
        account, np.repeat(np.arange(len(sizes)), sizes), typology, payments, pattern, double
    )


def _sizes(rng: np.random.Generator, accounts: int) -> Longs:
    """Patterns of 3 to 15 members that together have as many as are wanted."""
    sizes = SMALLEST + whole(rng, accounts // SMALLEST + 1, LARGEST - SMALLEST + 1)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), accounts))]
    left = accounts - int(sizes.sum())
    if left >= SMALLEST or not len(sizes):
        return np.append(sizes, left)
    for place in range(left):  # fewer than three, one more member for each of some patterns
        sizes[np.argmin(sizes + (np.arange(len(sizes)) < place) * LARGEST)] += 1
    return sizes


def _apportioned(rng: np.random.Generator, count: int, shares: Floats) -> Longs:
    """Typologies in their shares as exactly as whole numbers allow, in random order."""
    ends = np.floor(np.cumsum(shares) / shares.sum() * count + 0.5).astype(np.int64)
    kinds = np.searchsorted(ends, np.arange(count), side="right")
    return kinds[order(rng, count)]


def _banks(
    rng: np.random.Generator,
    known: list[int],
    patterns: int,
    people: Population,
    spec: PaymentsSpec,
) -> Longs:
    """``(patterns, members)`` banks: whoever pays a member is elsewhere in ``cross_share``."""
    sizes = np.bincount(people.bank, minlength=spec.banks).astype(np.float64)
    banks = np.empty((patterns, len(known)), np.int64)
    banks[:, 0] = pick(rng, patterns, sizes)
    for member in range(1, len(known)):
        near = banks[:, known[member]]
        crosses = rng.random(patterns) < spec.cross_share
        banks[:, member] = np.where(crosses, other_bank(rng, near, sizes), near)
    return banks


def _rows(patterns: Longs, start: Longs, pairs: Longs) -> Longs:
    """``(payments, 4)``: sender and receiver as places among the members, pattern, step."""
    members = start[:, None, None] + pairs[None]
    step = np.broadcast_to(np.arange(len(pairs)), members.shape[:2])
    number = np.broadcast_to(patterns[:, None], members.shape[:2])
    return np.concatenate([members, number[..., None], step[..., None]], axis=2).reshape(-1, 4)


def _members(rng: np.random.Generator, bank: Longs, people: Population) -> Longs:
    """An account for each member, of the bank that it should be at and in one pattern only."""
    free = quiet_accounts(people)[order(rng, people.accounts // 2)]
    free = free[np.argsort(people.bank[free], kind="stable")]
    first = np.searchsorted(people.bank[free], np.arange(people.bank.max() + 2))
    by_bank = np.argsort(bank, kind="stable")
    rank = np.empty_like(bank)
    rank[by_bank] = np.arange(len(bank)) - np.searchsorted(bank[by_bank], bank[by_bank])
    place = first[bank] + rank
    full = place >= first[bank + 1]  # a small bank has run out: accounts of others
    account = np.full(len(bank), -1)
    account[~full] = free[place[~full]]
    unused = np.setdiff1d(np.arange(people.accounts), account[~full])
    account[full] = unused[order(rng, len(unused))[: int(full.sum())]]
    return account


def quiet_accounts(people: Population) -> Longs:
    """The half that moves least money by itself, from which mules are recruited."""
    return np.argsort(people.sends, kind="stable")[: people.accounts // 2]


def _payments(
    rng: np.random.Generator,
    source: Longs,
    target: Longs,
    pattern: Longs,
    step: Longs,
    people: Population,
    spec: PaymentsSpec,
) -> Payments:
    """Amounts near their sender's own and days in the order of the money, as far as it shows."""
    patterns = int(pattern.max()) + 1
    shown = 1 - spec.difficulty
    span = round(_SHORTEST_DAYS + spec.difficulty * (spec.days - 1 - _SHORTEST_DAYS))
    begin = whole(rng, patterns, spec.days - span)
    steps = np.zeros(patterns, np.int64)
    np.maximum.at(steps, pattern, step + 1)
    within = (step + rng.random(len(step))) / steps[pattern]
    uplift = 1 + _LARGEST_UPLIFT * shown
    return Payments(
        source=source,
        target=target,
        cents=rounded(rng, people.scale[source] * uplift * log_normal(rng, len(source), 0.5)),
        day=begin[pattern] + np.floor(within * span).astype(np.int64),
    )


def _doubles(
    rng: np.random.Generator,
    members: Longs,
    payments: Payments,
    people: Population,
    spec: PaymentsSpec,
) -> Payments:
    """For each double all payments of one member, with ordinary accounts at the other end."""
    honest = np.setdiff1d(quiet_accounts(people), members)
    count = min(round(_DOUBLES * spec.difficulty * len(members)), len(honest))
    copied = members[order(rng, count) % len(members)] if count else members[:0]
    double = honest[order(rng, len(honest))[:count]]
    owner = np.concatenate([payments.source, payments.target])
    row = np.tile(np.arange(len(payments)), 2)
    sends = np.arange(len(owner)) < len(payments)
    by_owner = np.argsort(owner, kind="stable")
    begin, end = (np.searchsorted(owner[by_owner], copied, side=side) for side in ("left", "right"))
    who = np.repeat(np.arange(count), end - begin)
    offset = np.arange(len(who)) - np.repeat(np.cumsum(end - begin) - (end - begin), end - begin)
    place = by_owner[begin[who] + offset]
    other = counterparties(rng, double[who], people, spec, near_share=0.0, even_share=1.0)
    ratio = people.scale[double[who]] / people.scale[copied[who]]
    return Payments(
        source=np.where(sends[place], double[who], other),
        target=np.where(sends[place], other, double[who]),
        cents=rounded(rng, payments.cents[row[place]] * ratio),
        day=payments.day[row[place]],
    )
