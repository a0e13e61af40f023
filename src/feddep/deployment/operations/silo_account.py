"""What a silo's owner can look up: what is spent of the budget, by which runs, what is left."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feddep.deployment.operations.config import SiloConfig
from feddep.deployment.operations.silo_setup import SECRET, own_disclosures
from feddep.deployment.protocol.budget import Account, Release, account_of, names_in
from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.log_lines import GENESIS, Line, head_of, spelt
from feddep.deployment.protocol.memory import Files
from feddep.errors import DataError, InputError
from feddep.graph.fingerprint import sealed_fingerprint
from feddep.graph.folder import read_graph
from feddep.graph.graph import Graph
from feddep.privacy.events import CappedGradients, Event, NoisedSums, SparseResponse

HEADINGS = ("mechanism", "ε alone", "shown", "runs")


@dataclass(frozen=True)
class SiloBooks:
    """A silo's consent and log, read together.

    Attributes:
        name: the silo's.
        consent: what its owner allows.
        lines: of its disclosure log, checked.
        graph: the data of today; None if they cannot be read.
        secret: the silo's; None if it has none.
    """

    name: str
    consent: Consent
    lines: list[Line]
    graph: Graph | None
    secret: int | None

    @property
    def head(self) -> str:
        """The log's, NUMBER:HASH."""
        return spelt(head_of(self.lines[-1]) if self.lines else GENESIS)

    @property
    def account(self) -> Account:
        """What counts against the budget of today."""
        known = self.graph is not None and self.secret is not None
        seal = sealed_fingerprint(self.graph, self.secret or 0) if known and self.graph else None
        return self.consent.account(self.lines, seal)

    def accounts(self) -> list[Account]:
        """That of today, then those of other data that the log knows."""
        own = self.account
        others = [name for name in names_in(self.lines) if name != own.data]
        return [own, *(account_of(self.lines, name, None) for name in others)]

    def delta(self, account: Account) -> float:
        """δ at which an account is counted."""
        nodes = account.nodes or (self.graph.nodes if self.graph else 0)
        return self.consent.delta_for(nodes)


def open_books(config: Path) -> SiloBooks:
    """Reads what the silo of a configuration file has written down; changes nothing.

    Raises:
        InputError: the configuration or the consent cannot be read, or the log is broken.
    """
    silo = SiloConfig.read(config)
    text = Files(silo.state).load(SECRET) if silo.secret else None
    try:
        graph: Graph | None = read_graph(silo.data)
    except InputError:
        graph = None
    if text is not None and not text.isdigit():
        raise DataError(f"{silo.state / SECRET}: expected a whole number (got something else)")
    secret = None if text is None else int(text)
    lines = own_disclosures(silo.state).lines()
    return SiloBooks(silo.name, Consent.read(silo.consent), lines, graph, secret)


def sentences(books: SiloBooks, account: Account) -> Iterator[str]:
    """What was spent on some data, and what is left, in words."""
    delta = books.delta(account)
    spent, budget = account.epsilon(delta), books.consent.budget_epsilon
    of = f"data {account.data!r}" if account.data else "the silo's data"
    since = f" since line {account.since}" if account.since else ""
    told = f"ε = {spent:.4g} at δ = {account.delta(delta):g}"
    if not account.releases:
        yield f"{of}: nothing is spent{since}"
    elif math.isinf(spent) and account.delta(1.0) and not delta:
        yield f"{of}: spent on DP-SGD{since}, which has a price only with a budget_delta"
    else:
        yield f"{of}: {told if math.isfinite(spent) else 'no bound on what'} is spent{since}"
    if budget is None:
        yield "the consent sets no budget (budget_epsilon)"
    elif account.data == books.consent.budget_graph:
        left = max(0.0, budget - spent)
        yield f"the budget is ε = {budget:g} at δ = {delta:g}; ε = {left:.4g} is left"


def rows(account: Account, delta: float) -> list[tuple[str, str, str, str]]:
    """A row of texts for each release."""
    return [
        (
            mechanism_of(release),
            f"{alone:.4g}" if math.isfinite(alone := release.epsilon(delta)) else "unbounded",
            "yes" if release.left else "not yet",
            ", ".join(release.runs),
        )
        for release in account.releases
    ]


def plain(books: SiloBooks) -> dict[str, Any]:
    """All accounts as plain data."""
    return {
        "silo": books.name,
        "budget": {
            "epsilon": books.consent.budget_epsilon,
            "delta": books.consent.budget_delta,
            "graph": books.consent.budget_graph,
            "since": books.consent.budget_since,
        },
        "head": books.head,
        "accounts": [_plain(account, books.delta(account)) for account in books.accounts()],
    }


def _plain(account: Account, delta: float) -> dict[str, Any]:
    spent = account.epsilon(delta)
    return {
        "graph": account.data,
        "versions": account.graphs,
        "epsilon": spent if math.isfinite(spent) else None,
        "delta": account.delta(delta),
        "releases": [
            {
                "mechanism": mechanism_of(release),
                "epsilon": alone if math.isfinite(alone := release.epsilon(delta)) else None,
                "left": release.left,
                "runs": list(release.runs),
            }
            for release in account.releases
        ],
    }


def mechanism_of(release: Release) -> str:
    """What bounds a release, in a few words."""
    if release.events is None:
        return "nothing that bounds it"
    return "; ".join(map(_told, release.events)) or "nothing leaves"


def _told(event: Event) -> str:
    if isinstance(event, CappedGradients):
        return (
            f"dp-sgd, σ = {event.noise:.4g}, q = {event.rate:.3g}, {event.steps} steps, "
            f"{event.touched} examples touched"
        )
    if isinstance(event, NoisedSums):
        return f"noised sums, σ = {event.noise:.4g}, {event.hops} hops"
    if isinstance(event, SparseResponse):
        return f"randomised-response, q₁ = {event.keep:.4g}, q₀ = {event.create:.4g}"
    return "randomised-response, symmetric"
