"""The numeric tests as on other processors: other orders of summation, with and without FMA.

Every library chooses its code by what the processor can do, and can be told to do with less:
torch's own kernels (``ATEN_CPU_CAPABILITY``), its MKL (``MKL_CBWR``, and on Intel's processors
``MKL_ENABLE_INSTRUCTIONS``), numpy's and scipy's OpenBLAS (``OPENBLAS_CORETYPE``), numpy's loops
(``NPY_DISABLE_CPU_FEATURES``) and numba (``NUMBA_CPU_NAME``).
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
NUMERIC = (
    "tests/test_rounding.py",
    "tests/privacy/test_gaussian.py",
    *(f"tests/{layer}" for layer in ("models", "learning", "phases", "algorithms", "examples")),
)
EXTENSIONS = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])

PROCESSORS = {
    "sse": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": ",".join(EXTENSIONS),
        "NUMBA_CPU_NAME": "generic",
    },
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NUMBA_CPU_NAME": "haswell",
    },
    "avx512f": {
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "OPENBLAS_CORETYPE": "SkylakeX",
        "NUMBA_CPU_NAME": "skylake-avx512",
    },
}
EXPECTED = {
    "sse": {
        "torch": "DEFAULT",
        "mkl": "COMPATIBLE",
        "openblas": ["Nehalem"],
        "numpy": [],
        "numba": "generic",
    },
    "avx2": {"torch": "AVX2", "openblas": ["Haswell"], "numba": "haswell"},
    "avx512f": {"torch": "AVX512", "openblas": ["SkylakeX"], "numba": "skylake-avx512"},
}


def instructions() -> set[str]:
    """What this machine's processor can do."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


@pytest.fixture(params=PROCESSORS)
def processor(request):
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("which instructions to do without is known of x86 processors only")
    if request.param != "sse" and request.param not in instructions():
        pytest.skip(f"this processor has no {request.param}")
    return request.param


@pytest.fixture
def environment(processor, pytestconfig):
    """Of a process that takes its processor for another one."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_CORE_")) and name not in PROCESSORS["sse"]
    }
    cache = pytestconfig.cache.mkdir(f"numba-{processor}")  # compiling takes half of the time
    return own | PROCESSORS[processor] | {"NUMBA_CACHE_DIR": str(cache)}


def run(command, environment):
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_numeric_tests_pass(processor, environment):
    found = json.loads(run(["tests/end_to_end/instruction_set.py"], environment).stdout)
    expected = EXPECTED[processor]
    assert {name: found[name] for name in expected} == expected, "or nothing else is tested"
    done = run(["-m", "pytest", "-m", "not slow", *NUMERIC], environment)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = int(done.stdout.split(" passed")[0].split()[-1])
    assert passed > 500, done.stdout[-500:]
