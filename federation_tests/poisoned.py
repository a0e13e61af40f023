"""A silo that sends poison: its averaging answers are far out, everything else is honest."""

import sys
from pathlib import Path

import numpy as np

from feddep.deployment import resident
from feddep.deployment.programs import Silo
from feddep.deployment.station import Station
from feddep.runtime.letter import Letter

honest = Station.answer


def poisoned(self, letter, pieces):
    answer = honest(self, letter, pieces)
    if letter.header.get("phase") != "averaging" or not answer.arrays:
        return answer
    arrays = {name: np.full_like(array, np.inf) for name, array in answer.arrays.items()}
    return Letter(answer.header, arrays)


if __name__ == "__main__":
    if len(sys.argv) == 3:  # as the resident process
        Station.answer = poisoned
        resident.main()
    else:
        with Silo(Path(sys.argv[1]), resident=[sys.executable, "-P", __file__]) as silo:
            print("the silo is ready", flush=True)
            silo.wait()
