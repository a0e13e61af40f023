import csv
import hashlib
import json

import numpy as np
import pyarrow.parquet
import pytest

import feddep
from feddep.graph.payments.generate import generate_payments
from feddep.graph.payments.parts import PARTS
from feddep.graph.payments.spec import PaymentsSpec
from feddep.graph.payments.typologies import TYPOLOGIES, known_by, payments_of

SMALL = {"accounts": 600, "banks": 3, "rate": 0.05}


@pytest.fixture(scope="module")
def made():
    return generate_payments(PaymentsSpec(accounts=4000, rate=0.05, seed=3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("payments") / "banks"
    feddep.make_payments(place, **SMALL)
    return place


def rows_of(file):
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def digest(folder):
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*.csv")):
        found.update(file.read_bytes())
    return found.hexdigest()


def test_the_bytes_are_those_of_every_other_machine(folder):
    """If the generator is changed on purpose, its data are other ones: say so in the changelog."""
    assert digest(folder)[:16] == "cf568ed3aba45642"


def test_a_payment_between_two_banks_stands_in_both_tables(folder):
    tables = {file.parent.name: rows_of(file) for file in folder.glob("*/transactions.csv")}
    one, other = (
        [row for row in tables[bank] if {row["source_bank"], row["target_bank"]} == pair]
        for bank, pair in (("bank-0", {"bank-0", "bank-1"}), ("bank-1", {"bank-0", "bank-1"}))
    )
    assert one
    assert one == other
    facts = json.loads((folder / "facts.json").read_text())
    assert {bank: len(rows) for bank, rows in tables.items()} == {
        bank: told["transactions"] for bank, told in facts["banks"].items()
    }


def test_features_agree_with_the_payments_that_they_are_made_from(folder):
    payments = rows_of(folder / "bank-1/transactions.csv")
    for account in rows_of(folder / "bank-1/accounts.csv")[:50]:
        own = [row for row in payments if row["source"] == account["id"]]
        amounts = [float(row["amount"]) for row in own]
        assert int(account["out_count"]) == len(own)
        assert int(account["out_counterparties"]) == len({row["target"] for row in own})
        assert f"{float(account['out_sum']):.2f}" == f"{sum(amounts):.2f}"
        assert f"{float(account['out_median']):.2f}" == f"{np.round(np.median(amounts), 4):.2f}"
        assert float(account["out_max"]) == max(amounts)
        assert int(account["out_first_day"]) == min(int(row["time"]) for row in own)
        crossing = sum(row["target_bank"] != "bank-1" for row in own)
        assert f"{float(account['out_share_other_banks']):.3f}" == f"{crossing / len(own):.3f}"


def test_what_does_not_exist_is_an_empty_cell(folder):
    accounts = [row for k in range(3) for row in rows_of(folder / f"bank-{k}/accounts.csv")]
    assert all((row["age"] == "") == (row["kind"] == "company") for row in accounts)
    assert all((row["in_mean"] == "") == (row["in_count"] == "0") for row in accounts)
    assert {row["label"] for row in accounts} == {"0", "1"}


def test_shares_are_those_that_were_asked_for(made):
    bank, payments = made.people.bank, made.payments
    assert made.labels.sum() == 200
    crossing = np.mean(bank[payments.source] != bank[payments.target])
    assert abs(crossing - 0.76) < 0.02
    own = made.laundering.payments
    assert abs(np.mean(bank[own.source] != bank[own.target]) - 0.76) < 0.1
    assert abs(len(payments) / 4000 - 3 * 3.6) < 1.5
    kinds = np.bincount(made.laundering.typology, minlength=7)
    assert kinds.max() - kinds.min() <= 1


def test_nobody_pays_itself_or_is_in_two_patterns(made):
    assert (made.payments.source != made.payments.target).all()
    assert len(np.unique(made.laundering.account)) == len(made.laundering.account)
    assert (np.bincount(made.laundering.pattern) >= 3).all()
    assert (np.diff(made.payments.day) >= 0).all()
    assert made.payments.day.min() >= 0
    assert made.payments.day.max() < 90


@pytest.mark.parametrize("cross_share", [0.0, 0.5, 1.0])
def test_the_share_between_banks_holds_for_laundering_too(cross_share):
    made = generate_payments(PaymentsSpec(accounts=4000, rate=0.02, cross_share=cross_share))
    bank = made.people.bank
    for payments in (made.payments, made.laundering.payments):
        crossing = np.mean(bank[payments.source] != bank[payments.target])
        assert abs(crossing - cross_share) < 0.12


@pytest.mark.parametrize("name", list(TYPOLOGIES))
@pytest.mark.parametrize("members", range(3, 16))
def test_everybody_in_a_pattern_pays_or_is_paid(name, members):
    payments = payments_of(name, members)
    assert set(payments.ravel().tolist()) == set(range(members))
    assert (payments[:, 0] != payments[:, 1]).all()
    assert all(0 <= other < max(i, 1) for i, other in enumerate(known_by(payments, members)))


def test_each_typology_has_its_shape():
    paid = {name: np.bincount(payments_of(name, 9)[:, 1], minlength=9) for name in TYPOLOGIES}
    pays = {name: np.bincount(payments_of(name, 9)[:, 0], minlength=9) for name in TYPOLOGIES}
    assert paid["fan_in"].max() == pays["fan_out"].max() == 8
    assert (paid["cycle"] == 1).all()
    assert (pays["cycle"] == 1).all()
    assert paid["scatter_gather"][8] == pays["scatter_gather"][0] == 7
    assert paid["gather_scatter"][0] == pays["gather_scatter"][0] == 4
    assert not (np.minimum(paid["bipartite"], pays["bipartite"])).any()
    assert np.count_nonzero(np.minimum(paid["stack"], pays["stack"])) == 3


def test_a_split_by_pattern_keeps_patterns_together(made):
    parts = made.splits["pattern_0"][made.laundering.account]
    pattern = made.laundering.pattern
    pairs = np.unique(np.stack([pattern, parts], axis=1), axis=0)
    assert len(pairs) == pattern.max() + 1
    stratified = made.splits["stratified_0"]
    for bank in range(5):
        for label in (0, 1):
            found = stratified[(made.people.bank == bank) & (made.labels == label)]
            shares = np.bincount(found, minlength=len(PARTS)) / len(found)
            assert (np.abs(shares - [0.6, 0.2, 0.2]) <= 1 / len(found) + 1e-9).all()


def test_a_double_does_what_a_launderer_does_but_among_ordinary_accounts():
    made = generate_payments(PaymentsSpec(accounts=4000, rate=0.05, difficulty=1.0))
    doubles, own = made.laundering.doubles, made.laundering.payments
    assert abs(len(doubles) / (2 * 2 * len(own)) - 1) < 0.05  # each payment has two ends
    honest = made.labels == 0
    ends = honest[doubles.source].astype(int) + honest[doubles.target]
    assert np.mean(ends == 2) > 0.9
    easy = generate_payments(PaymentsSpec(accounts=4000, rate=0.05, difficulty=0.0))
    assert not len(easy.laundering.doubles)
    amounts = [np.median(made.laundering.payments.cents) for made in (easy, made)]
    assert amounts[0] > 4 * amounts[1]


def test_seeds_differ_and_parquet_holds_the_same_values(folder, tmp_path):
    feddep.make_payments(tmp_path / "other", seed=1, **SMALL)
    assert digest(tmp_path / "other") != digest(folder)
    feddep.make_payments(tmp_path / "parquet", format="parquet", **SMALL)
    table = pyarrow.parquet.read_table(tmp_path / "parquet/bank-2/accounts.parquet")
    rows = rows_of(folder / "bank-2/accounts.csv")
    assert table["id"].to_pylist() == [int(row["id"]) for row in rows]
    means = [None if row["in_mean"] == "" else float(row["in_mean"]) for row in rows]
    assert table["in_mean"].to_pylist() == means


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"banks": 1}, "banks must be 2 to 1000"),
        ({"accounts": 10}, "accounts must be 100 to"),
        ({"rate": 0}, "rate must be above 0"),
        ({"difficulty": 2}, "difficulty must be 0 to 1"),
        ({"typologies": {"ring": 1.0}}, "typologies are fan_in"),
        ({"typologies": {"cycle": 0.0}}, "not all 0"),
        ({"split": "best"}, "split must be one of stratified_0"),
        ({"format": "xlsx"}, "format must be one of csv, parquet"),
        ({"bankss": 3}, "payments are made from seed, banks"),
    ],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(settings, said, tmp_path):
    with pytest.raises(feddep.InputError, match=said):
        feddep.make_payments(tmp_path / "banks", **settings)
    assert list(tmp_path.iterdir()) == []


def test_many_small_banks_can_lose_all_their_accounts_to_patterns():
    made = generate_payments(PaymentsSpec(accounts=800, banks=40, rate=0.2, months=1))
    assert made.labels.sum() == 160
    assert len(np.unique(made.laundering.account)) == 160
