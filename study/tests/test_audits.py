"""The table of stored audits."""

import json

from feddep_study.audits import audits_in_short, audits_table
from feddep_study.source import Library

FOUND = {
    "name": "0-leak",
    "title": "fedavg on cora, none, 1 runs",
    "planted_leak": True,
    "claim": {"epsilon": None},
    "provable": 2.5,
    "attacks": {
        "sums": {
            "right": 9,
            "guesses": 10,
            "bound": 1.234,
            "p_claim": None,
            "auc": 0.9999,
            "true_positives_at_1_percent": 1.0,
        }
    },
}


def test_one_row_for_each_attack():
    text = audits_table([FOUND])
    assert (
        "| fedavg on cora, none, 1 runs, planted leak | sums | 9/10 | 1.23 | none | – | 1.000 "
        "| 1.000 |" in text
    )


def test_in_short_the_strongest_attack_and_the_smallest_p_stand_for_the_audit():
    outcome = FOUND["attacks"]["sums"]
    attacks = {
        "loss": outcome | {"bound": 0.0, "p_claim": 0.25},
        "flipped": outcome | {"bound": 0.9, "p_claim": 0.75},
    }
    text = audits_in_short([FOUND, FOUND | {"attacks": attacks, "claim": {"epsilon": 1.0}}])
    title = "fedavg on cora, none, 1 runs, planted leak"
    assert f"| 0-leak | {title} | none | 1.23 | sums | 2.50 | – |" in text
    assert f"| 0-leak | {title} | 1 | 0.90 | flipped | 2.50 | 0.25 |" in text


def test_without_audits_it_says_so():
    assert audits_table([]) == audits_in_short([]) == "No audit is stored yet.\n"


def test_audits_are_read_in_the_order_of_their_names(tmp_path):
    (tmp_path / "audits").mkdir()
    for name in ("b", "a"):
        (tmp_path / "audits" / f"{name}.json").write_text(json.dumps({"title": name}))
    assert [found["title"] for found in Library(tmp_path).audits] == ["a", "b"]
