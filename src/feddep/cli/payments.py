"""The command that generates payments between banks: data make payments."""

from pathlib import Path
from typing import Annotated, Any

import typer

from feddep.cli.console import note, print_json, print_pairs
from feddep.cli.options import AsJson, check_new
from feddep.errors import InputError

make_app = typer.Typer(no_args_is_help=True)


@make_app.callback()
def _about() -> None:
    """Generate data to try things with."""


@make_app.command("payments")
def make(
    out: Annotated[Path, typer.Option(help="New folder; bank-0, bank-1, … are put into it.")],
    banks: Annotated[int, typer.Option(help="Number of banks.")] = 5,
    accounts: Annotated[int, typer.Option(help="Accounts of all banks together.")] = 10_000,
    months: Annotated[int, typer.Option(help="Months of 30 days.")] = 3,
    payments: Annotated[float, typer.Option(help="Payments of an account in a month.")] = 3.6,
    rate: Annotated[float, typer.Option(help="Share of accounts that launder money.")] = 0.02,
    cross_share: Annotated[float, typer.Option(help="Share of payments to another bank.")] = 0.76,
    difficulty: Annotated[
        float, typer.Option(help="How well laundering is hidden: 0 (badly) to 1.")
    ] = 0.5,
    typologies: Annotated[
        str | None,
        typer.Option(
            help="Shapes of laundering with their shares, such as fan-in,cycle=2; default: all "
            "seven alike."
        ),
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            help="stratified_0 to 2; or pattern_0 to 2, where whole patterns are held out."
        ),
    ] = "stratified_0",
    parquet: Annotated[bool, typer.Option("--parquet", help="Write Parquet files.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Generate banks with accounts and payments, and laundering among them."""
    from feddep.graph.payments.folders import make_payments

    check_new(out)
    settings: dict[str, Any] = {
        "banks": banks,
        "accounts": accounts,
        "months": months,
        "payments": payments,
        "rate": rate,
        "cross_share": cross_share,
        "difficulty": difficulty,
        "seed": seed,
    }
    if typologies is not None:
        settings["typologies"] = _shares(typologies)
    facts = make_payments(out, split=split, format="parquet" if parquet else "csv", **settings)
    note(f"stored in {out}; {out / 'README.md'} says what is what")
    if as_json:
        print_json(facts)
        return
    print_pairs(
        [
            ("accounts", f"{facts['accounts']:,} at {banks} banks"),
            (
                "payments",
                f"{facts['transactions']:,}, {facts['cross_share_transactions']:.0%} of them "
                "between banks",
            ),
            (
                "laundering",
                f"{facts['laundering_accounts']:,} accounts ({facts['laundering_rate']:.1%}) in "
                f"{facts['patterns']} patterns, each over {facts['banks_per_pattern']:.1f} banks "
                "in the mean",
            ),
        ]
    )


def _shares(text: str) -> dict[str, float]:
    """Typologies with their shares, from ``fan-in,cycle=2``."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        try:
            shares[name.strip().replace("-", "_")] = float(share or 1)
        except ValueError:
            raise InputError(
                f"--typologies takes names and numbers, such as fan-in,cycle=2 (got {part!r})"
            ) from None
    return shares
