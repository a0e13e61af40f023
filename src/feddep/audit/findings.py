"""From the trials of an audit to what they prove, as plain data and in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from feddep.audit.attacks import ATTACKS
from feddep.audit.inversion import summary
from feddep.audit.knowledge import Floats
from feddep.audit.linked import ANSWERS, ATTACKERS, SEALED
from feddep.audit.pairs import Bools
from feddep.audit.trial import Plan, Trial
from feddep.privacy.accountant import Guarantee
from feddep.privacy.audit_statistics import Guesses, guess, pooled

CONFIDENCE = 0.95
REJECTED_BELOW = 0.001
"""A claim is called refuted only below this p-value, because many audits are run."""

FEW_FALSE = 0.01

HEADINGS = ("attack", "right guesses", "ε at least", "p of the claim", "AUC", "found at 1% false")

_THRESHOLDS: dict[str, float | None] = {
    **{name: attack.threshold for name, attack in ATTACKS.items()},
    **dict.fromkeys(ATTACKERS),
}
_WHO = {
    ANSWERS: "A silo that asks",
    SEALED: "The server, which reads what it carries,",
    "lists": "The positive control, handed the lists as the mechanism left them,",
    "noised sums": "The positive control, handed the sums as the mechanism left them,",
    "sums": "The attack on the planted leak",
}


@dataclass(frozen=True, eq=False)
class Curve:
    """False and true positive rates of an attack, from no pair called an edge to all."""

    false: Floats
    true: Floats


def roc(trials: Sequence[Trial], attack: str) -> Curve:
    """The curve over all trials; pairs that never were edges are negatives too."""
    truth, scores = _labelled(trials, attack)
    false, true, _ = roc_curve(truth, scores)
    return Curve(false, true)


def found_at(curve: Curve, false: float) -> float:
    """True positives at a rate of false ones; between two thresholds the attacker flips a coin."""
    below = curve.false <= false
    return float(max(curve.true[below].max(), np.interp(false, curve.false, curve.true)))


def findings(trials: Sequence[Trial], plan: Plan) -> dict[str, Any]:
    """Everything that the trials prove, as plain data for ``audit.json``."""
    claim = weakest([trial.claim for trial in trials])
    canaries = sum(len(trial.included) for trial in trials)
    names = [name for name in _THRESHOLDS if all(name in trial.scores for trial in trials)]
    made = max(_guesses(trials, name, plan).made for name in names)
    return {
        "runs": len(trials),
        "canaries": canaries,
        "guess_share": plan.share,
        "planted_leak": plan.leak,
        "crafted_server": plan.crafted,
        "confidence": CONFIDENCE,
        "claim": {"epsilon": claim.epsilon, "delta": claim.delta, "verdict": claim.verdict},
        "provable": Guesses(made, made, canaries).lower_bound(_delta(claim), CONFIDENCE),
        "attacks": {name: _outcome(trials, name, plan, claim) for name in names},
        "prototypes": summary([one for trial in trials for one in trial.inversions]),
    }


def weakest(claims: Sequence[Guarantee]) -> Guarantee:
    """What is claimed for all trials: the largest ε, or nothing."""
    return max(claims, key=lambda claim: np.inf if claim.epsilon is None else claim.epsilon)


def rows(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """One row for each attack, under :data:`HEADINGS`."""
    return [
        (
            name,
            f"{outcome['right']}/{outcome['guesses']}",
            f"{outcome['bound']:.2f}",
            "none" if outcome["p_claim"] is None else f"{outcome['p_claim']:.2g}",
            f"{outcome['auc']:.3f}",
            f"{outcome['true_positives_at_1_percent']:.3f}",
        )
        for name, outcome in found["attacks"].items()
    ]


def sentences(found: dict[str, Any]) -> list[str]:
    """The findings in a few sentences."""
    claim = found["claim"]["epsilon"]
    lines = []
    if claim is None:
        about = "nodes" if ANSWERS in found["attacks"] else "edges"
        lines.append(f"Nothing is claimed about {about}, so there is no claim to refute.")
    for name, outcome in found["attacks"].items():
        who = _WHO.get(name, f"The {name} attack")
        proved = f"that ε is at least {outcome['bound']:.2f}" if outcome["bound"] else "nothing"
        line = f"{who} proves {proved}"
        if claim is not None:
            verdict = "REFUTES" if outcome["p_claim"] < REJECTED_BELOW else "does not contradict"
            line += f" and {verdict} the claim ε ≤ {claim:g} (p = {outcome['p_claim']:.2g})"
        lines.append(line + ".")
    lines.append(f"This many guesses can prove at most ε ≥ {found['provable']:.2f}.")
    if found["prototypes"]:
        near = found["prototypes"]
        lines.append(
            f"The prototype nearest to a node is {near['smallest_ratio']:.2f} of the typical "
            f"distance between nodes away from it (cluster of {near['size_of_closest']}); "
            f"the smallest cluster has {near['smallest_cluster']} nodes."
        )
    return lines


def _outcome(trials: Sequence[Trial], name: str, plan: Plan, claim: Guarantee) -> dict[str, Any]:
    guesses = _guesses(trials, name, plan)
    truth, scores = _labelled(trials, name)
    curve, delta = roc(trials, name), _delta(claim)
    epsilon = claim.epsilon
    return {
        "guesses": guesses.made,
        "right": guesses.right,
        "bound": guesses.lower_bound(delta, CONFIDENCE),
        "p_claim": None if epsilon is None else guesses.p_value(epsilon, delta),
        "auc": float(roc_auc_score(truth, scores)),
        "true_positives_at_1_percent": found_at(curve, FEW_FALSE),
        "positives": int(np.count_nonzero(truth)),
        "negatives": int(np.count_nonzero(~truth)),
    }


def _guesses(trials: Sequence[Trial], name: str, plan: Plan) -> Guesses:
    return pooled(
        guess(
            trial.scores[name][: len(trial.included)],
            trial.included,
            share=plan.share,
            threshold=_THRESHOLDS[name],
        )
        for trial in trials
    )


def _labelled(trials: Sequence[Trial], name: str) -> tuple[Bools, Floats]:
    scores = [trial.scores[name] for trial in trials]
    truth = [
        np.concatenate([trial.included, np.zeros(len(own) - len(trial.included), bool)])
        for trial, own in zip(trials, scores, strict=True)
    ]
    return np.concatenate(truth), np.concatenate(scores)


def _delta(claim: Guarantee) -> float:
    """δ at which ε is bounded: the claim's, or 0 where nothing is claimed."""
    return 0.0 if claim.epsilon is None else claim.delta
