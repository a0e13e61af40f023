"""Which round is returned where few nodes are of the class that is looked for.

On generated payments with 2% of laundering accounts: the average precision of that class on each
silo's own test nodes, mean over silos, in the round that was chosen on validation nodes and in the
round that turned out best on test nodes, which nobody could have known.
"""

import json
import tempfile
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import feddep
from feddep.federation.messages import group
from feddep.learning.evaluation import Scores
from feddep.learning.evaluation import measure as measured
from feddep.runs import pipeline
from feddep.runs.execute import execute
from feddep.runtime.inprocess import InProcess

METHODS, SEEDS, ROUNDS = ("local", "fedavg", "feddep"), range(5), 30
RATE, BANKS, ACCOUNTS = 0.02, 2, 6000
_AVERAGE_PRECISION = "test_average_precision"


class OnOwnNodes(InProcess):
    """Scores every round's classifiers on each silo's own graph, in place of a whole one."""

    def measure(self, classifier: dict | None) -> "Future[list[Scores]]":
        """See :class:`InProcess`."""
        found = []
        for client, own in self._local.clients.items():
            weights = classifier or group(self._local.states[client], "classifier")
            model = self._spec.classifier(weights)
            found.append(measured(model, own.silo.graph, own.silo.table))
        done: Future[list[Scores]] = Future()
        done.set_result(found)
        return done


def measure() -> dict[str, object]:
    rows: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "banks"
        feddep.make_payments(folder, banks=BANKS, accounts=ACCOUNTS, rate=RATE, seed=0)
        silos = feddep.shards(sorted(folder.glob("bank-*")))
        print(f"{'method':8} {'chosen':>15} {'best':>15}  within one sd", flush=True)
        for method in METHODS:
            pairs = [one_run(method, silos, seed) for seed in SEEDS]
            chosen, best = ([pair[side] for pair in pairs] for side in (0, 1))
            within = mean(best) - mean(chosen) <= stdev(best)
            rows[method] = {"chosen": chosen, "best": best, "within_one_sd": within}
            told = [f"{mean(own):.3f} ± {stdev(own):.3f}" for own in (chosen, best)]
            print(
                f"{method:8} {told[0]:>15} {told[1]:>15}  {'yes' if within else 'no'}", flush=True
            )
    return {"rate": RATE, "banks": BANKS, "accounts": ACCOUNTS, "rounds": ROUNDS, **rows}


def one_run(method: str, silos: feddep.Silos, seed: int) -> tuple[float, float]:
    """Average precision in the chosen round and in the best one."""
    settings = {"method": method, "seed": seed, "training.rounds": ROUNDS}
    start = partial(OnOwnNodes, workers=1, device="cpu")
    result = execute(settings, silos, runner=partial(pipeline.run, start=start))
    by_round = {row["round"]: row["global"][_AVERAGE_PRECISION] for row in result.history}
    return by_round[result.record["best_round"]], max(by_round.values())


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
