"""The story of an audit: several runs with different seeds, attacked, and what they prove."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from feddep.audit.findings import findings, roc
from feddep.audit.linked import run_linked_trial
from feddep.audit.picture import draw
from feddep.audit.trial import Plan, run_trial
from feddep.errors import InputError
from feddep.runs.files import write_atomically
from feddep.runs.records import versions
from feddep.scenario.spec import RunSpec

PICTURE = "audit.png"
NUMBERS = "audit.json"


def audit(
    spec: RunSpec,
    plan: Plan,
    *,
    runs: int = 1,
    folder: Path | None = None,
    tell: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Audits some runs of a spec, with seeds from the spec's own on, and pools them.

    Args:
        spec: what is audited.
        plan: what is fixed beforehand.
        runs: how many; each has its own partition, canaries, coins and noise.
        folder: where ``audit.json`` and ``audit.png`` go; None writes nothing.
        tell: called after every run.
    """
    if runs < 1:
        raise InputError(f"an audit needs at least one run (got {runs})")
    run_one = run_trial if plan.secrets == "edges" else run_linked_trial
    trials, seconds = [], []
    for number in range(runs):
        started = time.perf_counter()
        trials.append(run_one(spec.with_settings({"seed": spec.seed + number}), plan))
        seconds.append(round(time.perf_counter() - started, 3))
        tell()
    found = _about(spec, plan, runs) | findings(trials, plan)
    found |= {"seconds": seconds, "versions": versions()}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        draw(found, {name: roc(trials, name) for name in found["attacks"]}, folder / PICTURE)
        write_atomically(folder / NUMBERS, json.dumps(found, indent=2) + "\n")
    return found


def _about(spec: RunSpec, plan: Plan, runs: int) -> dict[str, Any]:
    mechanism: str = spec.privacy.mechanism
    relation = "one undirected edge inside a client"
    if plan.secrets == "classes":
        mechanism = "k-ary response" if spec.links.noise != "none" else "answers without noise"
        relation = "the class of one node that others have a link to, in answers about it"
    server = "" if plan.crafted is None else f", a server with {plan.crafted} weights"
    title = f"{spec.method} on {spec.dataset}, {mechanism}{server}, {runs} run{'s' * (runs > 1)}"
    return {
        "title": title,
        "method": spec.method,
        "dataset": spec.dataset,
        "clients": spec.partition.clients,
        "rounds": spec.training.rounds,
        "seeds": [spec.seed + number for number in range(runs)],
        "mechanism": mechanism,
        "relation": relation,
    }
