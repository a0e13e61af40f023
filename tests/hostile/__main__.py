"""Campaigns of hostile inputs, faults and kills: long, resumable, and every case again by its seed.

    python -m hostile                        whatever is left of all campaigns
    python -m hostile inputs                 of one
    python -m hostile inputs settings        of one of its subjects
    python -m hostile inputs settings 1234   one case, told; ended by an error if it fails

``PYTHONPATH=tests`` finds them. What was tried is counted in ``tests/hostile/record.json``.
"""

import argparse
import sys

from hostile import faults, inputs, kills
from hostile.record import Record


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m hostile", description=__doc__)
    parser.add_argument("campaign", nargs="?", choices=CAMPAIGNS)
    parser.add_argument("subject", nargs="?")
    parser.add_argument("seed", nargs="?", type=int)
    asked = parser.parse_args()
    for name, (subjects, run, again) in CAMPAIGNS.items():
        for subject, seeds in subjects().items():
            if asked.campaign not in (None, name) or asked.subject not in (None, subject):
                continue
            if asked.seed is not None:
                sys.exit(again(subject, asked.seed))
            run(subject, Record(), seeds)


def fault_again(method: str, seed: int) -> str | None:
    ended = faults.one(faults.Federation(method), seed, tell=True)
    print(ended)
    return None if ended in faults.KINDS else ended


def kill_again(method: str, seed: int) -> str | None:
    ended = kills.one(method, seed)
    print(ended)
    return None if ended == kills.SAME else ended


def input_again(name: str, seed: int) -> None:
    print(inputs.one(name, seed))


CAMPAIGNS = {
    "inputs": (
        lambda: {name: s.cases for name, s in inputs.SUBJECTS.items()},
        inputs.campaign,
        input_again,
    ),
    "faults": (lambda: faults.SEEDS, faults.campaign, fault_again),
    "kills": (lambda: kills.RUNS, kills.campaign, kill_again),
}


if __name__ == "__main__":
    main()
