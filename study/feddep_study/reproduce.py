"""The paper's tables and figures, each as the sweeps behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from feddep.sweeps.sweep import Sweep
from feddep_study.source import declared_sweep


@dataclass(frozen=True)
class Part:
    """One table or figure.

    Attributes:
        what: in one line.
        sweeps: names of sweeps in ``declarations/``; none for what needs no training.
    """

    what: str
    sweeps: tuple[str, ...]


PARTS: Mapping[str, Part] = {
    "data": Part("the data table of the appendix", ()),
    "table1": Part("Table 1: every method, 3, 5 and 10 clients", ("table1",)),
    "quota": Part("the authors' split, which the paper's numbers probably come from", ("quota",)),
    "table2": Part("Table 2: the number of clusters", ("table2",)),
    "hops": Part("the depth of the embeddings", ("hops",)),
    "privacy": Part("utility against privacy", ("privacy",)),
    "curves": Part("training curves over 100 epochs", ("curves",)),
    "costs": Part("the table of extra cost", ("costs",)),
    "pays": Part("when does it pay: lost edges and weaker features", ("pays", "longer")),
}


def sweeps_of(names: Sequence[str], study: Path, *, quick: bool) -> dict[str, Sweep]:
    """The sweeps behind some parts, or with these names, each once; the paper's parts first."""
    wanted = [name for part in PARTS if part in names for name in PARTS[part].sweeps]
    wanted += [name for name in names if name not in PARTS]
    return {name: declared_sweep(study, name, quick=quick) for name in dict.fromkeys(wanted)}


def seconds_left(sweep: Sweep, at_once: int) -> float | None:
    """How long the missing runs may take, from the runs most like them so far.

    None where nothing has been run yet, or nothing is missing.
    """
    total = sum(seconds for _, seconds in sweep.waiting())
    return total / sweep.processes(at_once) or None
