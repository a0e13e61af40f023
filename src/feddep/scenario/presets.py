"""Presets: values for the settings that the user leaves open.

``paper`` is the defaults plus what the paper sets by data set; ``tuned`` adds what was chosen on
validation for a method and a data set; the path of a file that ``feddep tune`` wrote is ``tuned``
with that choice for its method. A preset says how to learn, never on which data or with how much
noise: it holds keys of :data:`SECTIONS`, except :data:`PROMISES`.
"""

import logging
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from feddep.errors import DataError, InputError
from feddep.reading import plain_text, toml_of
from feddep.scenario.toml import toml_value

if TYPE_CHECKING:  # the methods import torch, and reading a small file should not
    from feddep.algorithms.method import Method

NAMES = ("tuned", "paper")
SECTIONS = ("model", "training", "embedding", "generator", "selection")
PROMISES = ("training.update_clip", "training.update_noise")
FILE = Path(__file__).with_name("presets.toml")
ANY = "any"
"""The table of what all of the paper's runs had; other data take it with ``paper`` only."""

log = logging.getLogger(__name__)


def _known(preset: str) -> str:
    if preset not in NAMES and not preset.endswith(".toml"):
        expected = "'tuned', 'paper' or the path of a .toml file that feddep tune wrote"
        raise PydanticCustomError("preset", f"Input should be {expected}")
    return preset


Preset = Annotated[str, AfterValidator(_known)]


def preset_settings(preset: Preset, method: "Method", dataset: str) -> dict[str, Any]:
    """The settings of a preset for a method and a data set; none stored gives the paper's.

    Args:
        preset: which.
        method: an ablation takes the values of ``method.preset_of``. What it fixes is left out.
        dataset: the name of the data.
    """
    content, name = _read(FILE), method.preset_of or method.name
    papers = content.get("paper", {})
    paper = papers.get(dataset, {})
    if preset == "paper" or dataset in papers:
        paper = papers.get(ANY, {}) | paper
    tuned = content.get("tuned", {}).get(name, {}).get(dataset, {})
    _check(FILE, paper | tuned)
    if preset not in NAMES:
        tuned = _chosen(Path(preset), name, tuned)
    settings = paper | method.defaults | ({} if preset == "paper" else tuned)
    return {key: value for key, value in settings.items() if key not in method.settings}


def read_choice(file: Path) -> dict[str, Any]:
    """What ``feddep tune`` wrote: ``method``, ``dataset``, ``settings``, where they come from.

    Raises:
        InputError: the file is no such choice.
    """
    try:
        found = toml_of(plain_text(file, pipes=True))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the preset {file}: {error}") from None
    if not isinstance(found.get("settings"), dict) or "method" not in found:
        raise InputError(
            f"{file}: expected a method and [settings], as feddep tune writes them "
            f"(got {', '.join(found) or 'nothing'})"
        )
    _check(file, found["settings"])
    return found


def _chosen(file: Path, method: str, tuned: Mapping[str, Any]) -> Mapping[str, Any]:
    """The choice in a file; of another method, what is tuned for this one, and a word about it."""
    choice = read_choice(file)
    if choice["method"] == method:
        return dict(choice["settings"])
    _tell(f"{file} is a choice for {choice['method']}; {method} has the preset tuned")
    return tuned


@lru_cache  # once is enough, however many runs there are
def _tell(text: str) -> None:
    log.warning(text)


def _check(file: Path, settings: Iterable[str]) -> None:
    """Refuses settings that are not a preset's to decide."""
    for key in settings:
        if not may_set(key):
            raise DataError(
                f"{file}: a preset holds keys of {', '.join(SECTIONS)} but for "
                f"{' and '.join(PROMISES)} (got {key})"
            )


def may_set(key: str) -> bool:
    """Whether a preset may hold this key of the spec."""
    return key.partition(".")[0] in SECTIONS and key not in PROMISES


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
    return toml_of(text)
