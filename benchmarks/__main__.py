"""``make bench``: all benchmarks, a table on the screen and ``benchmarks/results.json``."""

import argparse
import json
from pathlib import Path

from benchmarks import (
    big_silo,
    dp_sgd,
    links,
    many_clients,
    phases,
    response,
    rounds,
    scale,
    selection,
)

ALL = {
    "rounds": rounds,
    "phases": phases,
    "dp_sgd": dp_sgd,
    "scale": scale,
    "many_clients": many_clients,
    "response": response,
    "links": links,
    "big_silo": big_silo,
    "selection": selection,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", default=[*ALL], help=", ".join(ALL))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results.json"))
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.names:
        print(f"== {name}", flush=True)
        results[name] = ALL[name].measure()
        options.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
