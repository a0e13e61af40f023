"""The paper's tables and figures, each as the sweeps behind it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from feddep.sweeps.sweep import Sweep
from feddep_study.source import declared_sweep

PARTS: Mapping[str, Sequence[str]] = {
    "data": (),  # the data table of the appendix, which needs no training
    "impairment": (),  # what could be learnt of it, which needs no federation
    "payments": (),  # what banks find that know their payments to each other
    "table1": ("table1",),
    "quota": ("quota",),  # Table 1 under the authors' split
    "table2": ("table2",),
    "hops": ("hops",),
    "privacy": ("privacy",),
    "curves": ("curves",),
    "costs": ("costs",),
    "pays": ("pays", "longer"),
}
"""The names of the sweeps behind each part of the paper."""


def sweeps_of(names: Sequence[str], study: Path, *, quick: bool) -> dict[str, Sweep]:
    """The sweeps behind some parts, or with these names, each once; the paper's parts first."""
    wanted = [name for part in PARTS if part in names for name in PARTS[part]]
    wanted += [name for name in names if name not in PARTS]
    return {name: declared_sweep(study, name, quick=quick) for name in dict.fromkeys(wanted)}


def seconds_left(sweep: Sweep, at_once: int) -> float | None:
    """How long the missing runs may take, from the runs most like them so far.

    None where nothing has been run yet, or nothing is missing.
    """
    total = sum(seconds for _, seconds in sweep.waiting())
    return total / sweep.processes(at_once) or None
