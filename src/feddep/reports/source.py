"""What a section of the report is made from: one sweep, what it has so far, and the paper."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feddep.errors import InputError
from feddep.experiments.records import Record
from feddep.experiments.sweep import History, Sweep
from feddep.reports.against_paper import Paper
from feddep.reports.summary import Rows, varied


@dataclass(frozen=True)
class Source:
    """A sweep as the report sees it.

    Attributes:
        name: of its declaration.
        cells: the settings of all declared runs.
        rows: settings and record of every run so far.
        histories: the same with thin histories, where the sweep keeps them.
        paper: what is printed.
    """

    name: str
    cells: Sequence[Mapping[str, Any]]
    rows: Rows
    paper: Paper
    histories: Sequence[tuple[Mapping[str, Any], Record, History]] = ()


def read_sources(experiments: Path, *, quick: bool = False) -> list[Source]:
    """Every sweep that is declared in a folder, by name.

    Args:
        experiments: holds the declarations and ``paper.toml``.
        quick: look at the small versions.
    """
    files = [file for file in sorted(experiments.glob("*.toml")) if _is_sweep(file)]
    if not files:
        raise InputError(
            f"{experiments} declares no sweeps; call this in the project's folder, "
            "or give the folder of a run"
        )
    paper = Paper.read(experiments / "paper.toml")
    return [_source(file.stem, Sweep.read(file, quick=quick), paper) for file in files]


def _source(name: str, sweep: Sweep, paper: Paper) -> Source:
    return Source(name, sweep.cells, sweep.records(), paper, sweep.histories())


def _is_sweep(file: Path) -> bool:
    try:
        return "grid" in tomllib.loads(file.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"cannot read {file}: {error}") from None


# How a setting is named in a title; others show their bare value.
_NAMED = {
    "partition.clients": "M = {}",
    "training.rounds": "{} rounds",
    "preset": "preset {}",
    "split.kind": "{} split",
    "feature_share": "features kept {}",
    "embedding.clusters": "C = {}",
    "embedding.depth": "L = {}",
}


def shared_settings(rows: Rows, *without: str) -> list[str]:
    """The settings in which runs differ, but for the method and those that an axis shows."""
    names = varied([settings for settings, _ in rows])
    return [name for name in names if name not in ("method", *without)]


def title_of(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    """The values under these names, as the title of a panel or table."""
    shown = ((name, settings[name]) for name in names if name in settings)
    return ", ".join(_NAMED.get(name, "{}").format(value) for name, value in shown)
