"""What a generated set of payments is made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from feddep.errors import InputError
from feddep.graph.payments.typologies import TYPOLOGIES

DAYS_PER_MONTH = 30
FEWEST_ACCOUNTS_PER_BANK = 20


@dataclass(frozen=True, kw_only=True)
class PaymentsSpec:
    """What :func:`~feddep.graph.payments.folders.make_payments` makes. Defaults follow AMLGentex.

    Attributes:
        seed: which data; the same seed and spec give the same bytes.
        banks: how many; the first is the largest, as in AMLGentex (35, 25, 18, 13 and 9%).
        accounts: of all banks together.
        months: of 30 days.
        payments: ordinary payments that an account makes in a month, in the mean.
        rate: share of accounts that are part of a laundering pattern.
        cross_share: share of payments, ordinary and laundering, that go to another bank.
        difficulty: 0 to 1, how well laundering is hidden. Its payments are 9 times as large as
            their sender's ordinary ones at 0, and alike at 1; a pattern takes 5 days at 0, and the
            whole time at 1. For each laundering account there are 2 · difficulty *doubles*: honest
            accounts with the same odd payments, but to and from ordinary accounts. By themselves a
            double and a launderer look alike; their counterparties do not.
        typologies: shares of the patterns, by name.
    """

    seed: int = 0
    banks: int = 5
    accounts: int = 10_000
    months: int = 3
    payments: float = 3.6
    rate: float = 0.02
    cross_share: float = 0.76
    difficulty: float = 0.5
    typologies: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(TYPOLOGIES, 1.0))

    def __post_init__(self) -> None:
        _require(2 <= self.banks <= 1000, "banks must be 2 to 1000", self.banks)
        fewest = FEWEST_ACCOUNTS_PER_BANK * self.banks
        _require(
            fewest <= self.accounts <= 10**8,
            f"accounts must be {fewest} to 100000000, {FEWEST_ACCOUNTS_PER_BANK} for each bank "
            "or more",
            self.accounts,
        )
        _require(1 <= self.months <= 120, "months must be 1 to 120", self.months)
        _require(1 <= self.payments <= 100, "payments must be 1 to 100 a month", self.payments)
        _require(0 < self.rate <= 0.2, "rate must be above 0 and at most 0.2", self.rate)
        _require(0 <= self.cross_share <= 1, "cross_share must be 0 to 1", self.cross_share)
        _require(0 <= self.difficulty <= 1, "difficulty must be 0 to 1", self.difficulty)
        _require(self.seed >= 0, "seed must be 0 or more", self.seed)
        self._check_typologies()

    @property
    def days(self) -> int:
        """How many days the payments span."""
        return DAYS_PER_MONTH * self.months

    def _check_typologies(self) -> None:
        unknown = sorted(self.typologies.keys() - TYPOLOGIES.keys())
        _require(not unknown, f"typologies are {', '.join(TYPOLOGIES)}", ", ".join(unknown))
        shares = list(self.typologies.values())
        _require(
            bool(shares) and min(shares) >= 0 and 0 < sum(shares) < float("inf"),
            "typologies must have shares of 0 or more, not all 0",
            shares,
        )


def _require(holds: bool, expectation: str, got: object) -> None:
    if not holds:
        raise InputError(f"{expectation} (got {got})")
