"""Prints what instructions the numeric libraries of this process use, as JSON."""

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator

import numpy as np
import scipy.linalg.blas  # so that its library is loaded  # noqa: F401
import torch
from numba.core.registry import cpu_target
from threadpoolctl import threadpool_info


@contextlib.contextmanager
def written() -> Iterator[io.StringIO]:
    """What C code prints meanwhile."""
    found, before = io.StringIO(), os.dup(1)
    with tempfile.TemporaryFile("w+") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield found
        finally:
            os.dup2(before, 1)
            os.close(before)
        file.seek(0)
        found.write(file.read())


def reproducibility_of_mkl() -> str:
    """MKL's branch of code, as it says itself; empty where torch has another library."""
    with written() as said, torch.backends.mkl.verbose(torch.backends.mkl.VERBOSE_ON):
        torch.ones(64, 64) @ torch.ones(64, 64)
    return said.getvalue().partition("CNR:")[2].partition(" ")[0]


if __name__ == "__main__":
    pools = [one for one in threadpool_info() if one["internal_api"] == "openblas"]
    found = {
        "torch": torch.backends.cpu.get_cpu_capability(),
        "mkl": reproducibility_of_mkl(),
        "openblas": sorted({pool["architecture"] for pool in pools}),
        "numpy": np.show_config(mode="dicts")["SIMD Extensions"].get("found", []),
        "numba": cpu_target.target_context.codegen().magic_tuple()[1],
    }
    print(json.dumps(found))
