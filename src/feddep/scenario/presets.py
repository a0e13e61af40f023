"""Presets: values for the settings that the user leaves open.

``paper`` is the defaults plus what the paper sets by data set; ``tuned`` adds what
``feddep tune`` chose on validation for a method and a data set. A preset says how to learn, never
on which data or with how much noise: it holds keys of :data:`SECTIONS`, except :data:`PROMISES`.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from feddep.errors import DataError
from feddep.scenario.toml import toml_value

if TYPE_CHECKING:  # the methods import torch, and reading a small file should not
    from feddep.algorithms.method import Method

Preset = Literal["tuned", "paper"]
SECTIONS = ("model", "training", "embedding", "generator")
PROMISES = ("training.update_clip", "training.update_noise")
FILE = Path(__file__).with_name("presets.toml")

_ENTRY = re.compile(r"^(?=\[tuned\.)", flags=re.MULTILINE)


def preset_settings(preset: Preset, method: "Method", dataset: str) -> dict[str, Any]:
    """The settings of a preset for a method and a data set; none stored gives the paper's.

    Args:
        preset: which.
        method: an ablation takes the values of ``method.preset_of``. What it fixes is left out.
        dataset: the name of the data.
    """
    content = _read(FILE)
    paper = content.get("paper", {}).get(dataset, {})
    tuned = content.get("tuned", {}).get(method.preset_of or method.name, {}).get(dataset, {})
    for key in paper | tuned:
        if not may_set(key):
            raise DataError(
                f"{FILE}: a preset holds keys of {', '.join(SECTIONS)} but for "
                f"{' and '.join(PROMISES)} (got {key})"
            )
    settings = paper | method.defaults | (tuned if preset == "tuned" else {})
    return {key: value for key, value in settings.items() if key not in method.settings}


def may_set(key: str) -> bool:
    """Whether a preset may hold this key of the spec."""
    return key.partition(".")[0] in SECTIONS and key not in PROMISES


def with_tuned(
    text: str, method: str, dataset: str, settings: Mapping[str, Any], origin: str
) -> str:
    """The text of a presets file with one tuned entry put in or replaced; entries are sorted.

    Args:
        text: the file's content.
        method: whose settings.
        dataset: on which data.
        settings: the values.
        origin: where they come from, in one line.
    """
    head, *entries = _ENTRY.split(text)
    title = f"[tuned.{method}.{dataset}]\n"
    kept = [entry.strip() for entry in entries if not entry.startswith(title)]
    rows = "".join(f"\n{row}" for row in toml_rows(settings))
    new = f"{title}# {origin}{rows}"
    return "\n\n".join([head.strip(), *sorted([*kept, new])]) + "\n"


def toml_rows(settings: Mapping[str, Any]) -> list[str]:
    """One line for each setting; the key is quoted because it has a dot."""
    return [f"{toml_value(key)} = {toml_value(value)}" for key, value in settings.items()]


def _read(file: Path) -> dict[str, Any]:
    try:
        return _parsed(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the presets {file}: {error}") from None


@lru_cache(1)  # a report resolves thousands of settings
def _parsed(text: str) -> dict[str, Any]:
    return tomllib.loads(text)
