"""A silo that sends poison: its averaging answers are far out, everything else is honest."""

import sys
from pathlib import Path

import numpy as np

from feddep.deployment.operations import silo_daemon
from feddep.deployment.operations.silo_programs import Silo
from feddep.deployment.protocol.silo_service import SiloService
from feddep.runtime.envelope import Envelope

honest = SiloService.answer


def poisoned(self, envelope, pieces):
    answer = honest(self, envelope, pieces)
    if envelope.header.get("phase") != "averaging" or not answer.arrays:
        return answer
    arrays = {name: np.full_like(array, np.inf) for name, array in answer.arrays.items()}
    return Envelope(answer.header, arrays)


if __name__ == "__main__":
    if len(sys.argv) == 3:  # as the silo daemon
        SiloService.answer = poisoned
        silo_daemon.main()
    else:
        with Silo(Path(sys.argv[1]), daemon=[sys.executable, "-P", __file__]) as silo:
            print("the silo is ready", flush=True)
            silo.wait()
