"""Reading what earlier versions stored: the one place that knows what was different.

Until 0.1:

- ``privacy_events.json`` was ``ledger.json``.
- Clients kept no ``mending.safetensors``, and ``generator.safetensors`` was that of the last round.
- In a client's memory z̄ of its nodes was called ``mended``, both in a checkpoint and in what a silo
  remembers of a run that is under way.
- A checkpoint kept nothing of the best round but the classifiers.
- The round was chosen by accuracy, and the first of equal rounds counted.
- Generators had five settings less. What they are set to today changes what a generator does, so a
  stored spec that does not name them has those that stand for what was done then.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from feddep.federation.messages import Arrays, group, grouped
from feddep.learning.mending import mending_of
from feddep.learning.selection import AS_IN_THE_PAPER, Selection
from feddep.scenario.spec import RunSpec

EVENTS = "privacy_events.json"
OLD_FILES = ("ledger.json",)
"""Names of files that are no longer written, but must be deleted when a run is replaced."""

GENERATOR_BEFORE: dict[str, Any] = {
    "generator.sampler": "thin",
    "generator.rounding": "nearest",
    "generator.signal": 0.0,
    "generator.distances": "summed",
    "generator.shown": 1.0,
}
"""How generators worked before these could be set."""

SETTINGS_BEFORE: Mapping[str, Any] = GENERATOR_BEFORE | {
    f"selection.{name}": value for name, value in asdict(AS_IN_THE_PAPER).items()
}
"""All that was so before it could be set: how the round was chosen, too."""


def read_spec(file: Path) -> RunSpec:
    """The spec of a stored run; an error names the file."""
    return RunSpec.read(file, SETTINGS_BEFORE)


def spec_of_text(text: str) -> RunSpec:
    """The spec in the text of a ``spec.toml``."""
    return RunSpec.from_toml(text, GENERATOR_BEFORE)


def events_file(folder: Path) -> Path:
    """The file with the clients' privacy events, under its present or its old name."""
    old = folder / "ledger.json"
    return old if old.exists() and not (folder / EVENTS).exists() else folder / EVENTS


def memory_of_today(memory: Arrays) -> dict[str, Any]:
    """A client's memory as it would be stored today."""
    return {
        "missing_embeddings" if name == "mended" else name: array for name, array in memory.items()
    }


def checkpoint_of_today(
    header: Mapping[str, Any], arrays: Arrays
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A checkpoint as it would be stored today."""
    if "selection" not in header:
        header = {**header, "selection": Selection(AS_IN_THE_PAPER, _settled=True).to_plain()}
    if "kept" in header:
        return dict(header), dict(arrays)
    found = dict(arrays)
    for name in (f"client-{client}" for client in range(header["clients"])):
        found.pop(f"{name}/mended", None)
        found |= grouped(name, memory_of_today(group(arrays, name)))
    # The memories are those of the round before; if it is the best one, they hold what to keep.
    history, count = header["history"], 0
    if history and history[-1]["round"] == header["best"]:
        count = header["clients"]
    for client in range(count):
        found |= grouped(f"kept-{client}", mending_of(group(found, f"client-{client}")))
    return {**header, "kept": count}, found
