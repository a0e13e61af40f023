"""Many seeds of the fault simulation, each counted once; a failing one names its command."""

import logging
import time
from collections import Counter

from deployment.fault_simulation import BrokenPromiseError, Faulty, Federation
from hostile.record import SAVE_EVERY, Record

SEEDS = {"fedavg": 5000, "feddep": 5000}


def campaign(method: str, record: Record, seeds: int) -> None:
    """Tries the seeds that were not tried yet, and again those that failed."""
    logging.disable(logging.CRITICAL)
    shared, tally = Federation(method), record.tally("faults", method)
    for seed in map(int, tally.failing):
        ended = one(shared, seed)
        if ended in KINDS:
            record.change("faults", method, lambda own, s=seed, e=ended: own.note_again(s, e))
    seed = first = tally.tried
    while seed < seeds:
        found: Counter[str] = Counter()
        failing, until = {}, time.monotonic() + SAVE_EVERY
        while seed < seeds and time.monotonic() < until:
            ended = one(shared, seed)
            if ended not in KINDS:
                failing[seed] = ended
            else:
                found[ended] += 1
            seed += 1
        record.change("faults", method, lambda own: own.note(found, failing, seed))  # noqa: B023
        print(f"{method}: seeds {first} to {seed - 1}, {len(failing)} failing", flush=True)
        first = seed


KINDS = ("the undisturbed result", "said why not")


def one(shared: Federation, seed: int, *, tell: bool = False) -> str:
    """How one seed ends: one of :data:`KINDS`, or what is wrong."""
    try:
        return KINDS["why" in Faulty(shared, seed, tell=tell).outcome()]
    except BrokenPromiseError as error:
        return str(error)
    except Exception as error:  # an error of no kind that a run may end with
        return f"{type(error).__name__}: {error}"
