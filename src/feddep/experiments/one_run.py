"""``python -m feddep.experiments.one_run``: settings on standard input, the record on output."""

import json
import sys
import time

from feddep.experiments.pipeline import run
from feddep.scenario.build import build, resolve
from feddep.scenario.spec import RunSpec


def main() -> None:
    """Runs one cell of a sweep with one worker."""
    settings = json.load(sys.stdin)
    spec = resolve(RunSpec().with_settings(settings), settings)
    started = time.perf_counter()
    shards = build(spec)
    result = run(spec, shards, workers=1, loading_seconds=time.perf_counter() - started)
    json.dump(result.record, sys.stdout)


if __name__ == "__main__":
    main()
