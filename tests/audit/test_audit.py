"""The bars of the audit on the embedded data set; five runs on Cora: see `feddep audit --help`."""

import json

import numpy as np
import pytest

from feddep.audit.audit import NUMBERS, PICTURE, audit
from feddep.audit.findings import Curve, found_at, rows, sentences
from feddep.audit.trial import Plan
from feddep.errors import InputError
from feddep.learning import silo
from feddep.scenario.build import resolve
from feddep.scenario.spec import RunSpec

SMALL = {
    "method": "fedavg",
    "synthetic.nodes": 1200,
    "training.rounds": 2,
    "model.hidden": 8,
}


def spec_of(**changes):
    given = SMALL | {key.replace("__", "."): value for key, value in changes.items()}
    return resolve(RunSpec().with_settings(given), given)


def randomised(epsilon):
    return spec_of(privacy__mechanism="randomised-response", privacy__epsilon=epsilon)


@pytest.fixture(scope="module")
def leaking(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    return audit(spec_of(), Plan(leak=True), folder=folder), folder


def test_the_planted_leak_is_found(leaking):
    found, _ = leaking
    outcome = found["attacks"]["sums"]
    assert outcome["guesses"] >= 500
    assert found["claim"] == {"epsilon": None, "delta": 1.0, "verdict": "none"}
    assert outcome["bound"] > 3
    assert outcome["auc"] > 0.95
    assert outcome["true_positives_at_1_percent"] > 0.95
    assert outcome["negatives"] >= 1000


def test_numbers_and_picture_are_stored(leaking):
    found, folder = leaking
    assert json.loads((folder / NUMBERS).read_text()) == found
    assert (folder / PICTURE).read_bytes().startswith(b"\x89PNG")


def test_without_a_claim_there_is_nothing_to_refute(leaking):
    found, _ = leaking
    assert all(outcome["p_claim"] is None for outcome in found["attacks"].values())
    text = " ".join(sentences(found))
    assert "no claim to refute" in text
    assert "REFUTES" not in text
    assert [row[0] for row in rows(found)] == [
        *("loss", "updates", "sums", "lists", "similarity", "influence")
    ]


@pytest.mark.parametrize(("epsilon", "bar"), [(1, 0.6), (4, 3)])
def test_randomised_response_keeps_its_claim_and_the_positive_control_has_teeth(epsilon, bar):
    found = audit(randomised(epsilon), Plan())
    assert found["claim"] == {"epsilon": epsilon, "delta": 0.0, "verdict": "holds"}
    assert all(outcome["p_claim"] >= 0.001 for outcome in found["attacks"].values())
    control = found["attacks"]["lists"]
    assert control["guesses"] >= 500
    assert bar <= control["bound"] <= found["provable"]
    assert "REFUTES" not in " ".join(sentences(found))


def test_a_mechanism_that_does_not_do_what_it_claims_is_refuted(monkeypatch):
    monkeypatch.setattr(silo, "perturbed", lambda graph, *_: graph)
    found = audit(randomised(4), Plan())
    assert found["attacks"]["lists"]["p_claim"] < 0.001
    assert "REFUTES the claim ε ≤ 4" in " ".join(sentences(found))


def test_runs_are_pooled_and_draw_other_canaries():
    spec = spec_of(synthetic__nodes=200, training__rounds=1)
    one = audit(spec, Plan(canaries=30))
    two = audit(spec, Plan(canaries=30, share=0.5), runs=2)
    assert one["canaries"] == 30
    assert two["canaries"] == 60
    assert two["seeds"] == [0, 1]
    assert len(two["seconds"]) == 2
    assert two["attacks"]["loss"]["guesses"] == 28  # 14 of each 30: as many on either side
    assert two["attacks"]["lists"]["guesses"] == 60


def test_an_audit_can_be_repeated():
    spec = spec_of(synthetic__nodes=200, training__rounds=1)
    first, second = (audit(spec, Plan(canaries=30)) for _ in range(2))
    assert first["attacks"] == second["attacks"]


def test_a_method_that_sends_no_weights_leaves_only_the_control():
    found = audit(spec_of(method="local", synthetic__nodes=200), Plan(canaries=20))
    assert list(found["attacks"]) == ["lists"]


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(InputError, match="expected a federated method"):
        audit(spec_of(method="global"), Plan())
    with pytest.raises(InputError, match="at least one run"):
        audit(spec_of(), Plan(), runs=0)


def test_between_two_thresholds_a_coin_decides():
    curve = Curve(np.array([0, 0.02, 1]), np.array([0, 0.8, 1]))
    assert found_at(curve, 0.01) == pytest.approx(0.4)
    steep = Curve(np.array([0, 0.01, 0.01, 1]), np.array([0, 0.2, 0.7, 1]))
    assert found_at(steep, 0.01) == pytest.approx(0.7)


def noised_sums(epsilon):
    return spec_of(
        privacy__mechanism="aggregation-perturbation",
        privacy__epsilon=epsilon,
        privacy__delta=1e-7,
    )


@pytest.mark.parametrize(("epsilon", "most"), [(1.0, 1.0), (4.0, 4.0), (400.0, None)])
def test_noised_sums_show_what_their_noise_allows(epsilon, most):
    found = audit(noised_sums(epsilon), Plan())
    outcome = found["attacks"]["noised sums"]
    assert list(found["attacks"]) == ["noised sums", "similarity"], "nobody reads a list"
    if most is None:
        assert found["claim"]["verdict"] == "none"
        assert outcome["bound"] > 1
    else:
        assert 0.9 * epsilon < found["claim"]["epsilon"] <= most
        assert outcome["bound"] < found["claim"]["epsilon"]
        assert outcome["p_claim"] > 0.001
    assert "handed the sums as the mechanism left them" in " ".join(sentences(found))


def test_noised_sums_have_no_lists_to_leak():
    with pytest.raises(InputError, match="leave out --plant-leak"):
        audit(noised_sums(1.0), Plan(leak=True))
