"""Makes a choice of ``feddep tune`` the preset that the library ships; for checkouts only."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from feddep.algorithms import METHODS
from feddep.errors import InputError
from feddep.runs.files import write_atomically
from feddep.scenario import presets
from feddep.scenario.build import dataset_names

_FACTS = ("dataset", "records", "trial", "trials", "validation", "seeds", "clients")
_ENTRY = re.compile(r"^(?=\[tuned\.)", flags=re.MULTILINE)


def adopt(file: Path) -> tuple[str, str]:
    """Writes the choice into the library's presets; gives its method and data set.

    Raises:
        InputError: it is no choice for a method and a data set of the library.
    """
    choice = presets.read_choice(file)
    missing = [name for name in _FACTS if name not in choice]
    if missing:
        raise InputError(f"{file}: expected what feddep tune writes ({', '.join(missing)} missing)")
    method, dataset = choice["method"], choice["dataset"]
    if method not in METHODS or dataset not in dataset_names():
        raise InputError(
            f"a preset is for a method and a data set of the library (got {method} on {dataset}); "
            f"use the choice with --preset {file}"
        )
    text = presets.FILE.read_text(encoding="utf-8")
    entry = with_tuned(text, method, dataset, choice["settings"], _origin(choice))
    write_atomically(presets.FILE, entry)
    return method, dataset


def with_tuned(
    text: str, method: str, dataset: str, settings: Mapping[str, Any], origin: str
) -> str:
    """The text of a presets file with one tuned entry put in or replaced; entries are sorted."""
    head, *entries = _ENTRY.split(text)
    title = f"[tuned.{method}.{dataset}]\n"
    kept = [entry.strip() for entry in entries if not entry.startswith(title)]
    rows = "".join(f"\n{row}" for row in presets.toml_rows(settings))
    new = f"{title}# {origin}{rows}"
    return "\n\n".join([head.strip(), *sorted([*kept, new])]) + "\n"


def _origin(choice: Mapping[str, Any]) -> str:
    """Where the settings come from, in one line."""
    splits = f", {' and '.join(choice['splits'])} split" if "splits" in choice else ""
    return (
        f"{choice['records']}: trial {choice['trial']} of {choice['trials']}, mean validation "
        f"accuracy {choice['validation']:.4f} over {len(choice['seeds'])} seeds, "
        f"{choice['clients']} clients{splits}"
    )
