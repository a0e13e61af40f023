"""``python -m feddep.experiments.one_run``: settings on standard input, the record on output.

With ``--history`` the output holds two entries, ``record`` and a thin ``history``.
"""

import json
import sys
import time

from feddep.experiments.pipeline import run
from feddep.experiments.records import thin_history
from feddep.scenario.build import build, resolve
from feddep.scenario.spec import RunSpec


def main() -> None:
    """Runs one cell of a sweep with one worker."""
    settings = json.load(sys.stdin)
    spec = resolve(RunSpec().with_settings(settings), settings)
    started = time.perf_counter()
    shards = build(spec)
    loading = time.perf_counter() - started
    # That a method cannot be trained with these settings is a result, and no reason to end a sweep.
    result = run(spec, shards, workers=1, loading_seconds=loading, keep_diverged=True)
    found = result.record
    if "--history" in sys.argv[1:]:
        found = {"record": result.record, "history": thin_history(result.history)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
