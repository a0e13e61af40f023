"""The spec of a run: everything that determines its result, strict, frozen, TOML ⇄ dataclass.

A key is ``section.name`` (``training.batch_size``) or one of the plain names at the top. What a
section holds is declared beside the thing that it describes. How a run is carried out (workers,
device, folder) is not part of the spec, because it does not change the result.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from feddep.errors import InputError, unknown
from feddep.federation.aggregation import AggregationSpec
from feddep.graph.partition import PartitionSpec
from feddep.graph.splits import SplitSpec
from feddep.graph.synthetic import SyntheticSpec
from feddep.learning.link_codes import LinksSpec
from feddep.learning.prototypes import EmbeddingSpec
from feddep.learning.selection import SelectionSpec
from feddep.learning.spec import TrainingSpec
from feddep.models.generator import GeneratorSpec
from feddep.models.sage import ModelSpec
from feddep.privacy.spec import PrivacySpec
from feddep.reading import plain_text, toml_of
from feddep.scenario.presets import Preset
from feddep.scenario.toml import toml_value


def _folders(value: object) -> object:
    """Folders in one text, separated as in PATH; others as they are."""
    return [part for part in value.split(os.pathsep) if part] if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run.

    Attributes:
        method: a name in ``feddep methods``, or ``module:ATTRIBUTE`` for one of your own.
        dataset: a name in ``feddep data list``, or the path of a graph or shard folder.
        silos: folders of silos that are never joined, in place of a data set.
        seed: fixes split, partition, initial weights and every other draw.
        feature_share: share of the feature columns that are kept, chosen at random; for studying
            weak features.
        preset: where values come from that the user leaves open.
    """

    method: str = "feddep"
    dataset: str = "synthetic"
    silos: Annotated[tuple[str, ...], BeforeValidator(_folders)] = ()
    seed: Annotated[int, Ge(0)] = 0
    feature_share: Annotated[float, Gt(0), Le(1)] = 1.0
    preset: Preset = "tuned"
    partition: PartitionSpec = field(default_factory=PartitionSpec)
    split: SplitSpec = field(default_factory=SplitSpec)
    model: ModelSpec = field(default_factory=ModelSpec)
    training: TrainingSpec = field(default_factory=TrainingSpec)
    embedding: EmbeddingSpec = field(default_factory=EmbeddingSpec)
    generator: GeneratorSpec = field(default_factory=GeneratorSpec)
    privacy: PrivacySpec = field(default_factory=PrivacySpec)
    aggregation: AggregationSpec = field(default_factory=AggregationSpec)
    selection: SelectionSpec = field(default_factory=SelectionSpec)
    links: LinksSpec = field(default_factory=LinksSpec)
    synthetic: SyntheticSpec = field(default_factory=SyntheticSpec)

    def with_settings(self, settings: Mapping[str, Any]) -> "RunSpec":
        """The spec with some keys changed; text is read as the key's type.

        Raises:
            InputError: a key is unknown, or a value is invalid; it names the key.
        """
        known = spec_keys()
        values = asdict(self)
        for key, value in settings.items():
            if key not in known:
                raise unknown("setting", key, known)
            section, _, name = key.rpartition(".")
            (values[section] if section else values)[name] = value
        return _validated(values)

    def value_of(self, key: str) -> Any:
        """The value of a key such as ``training.rounds``."""
        section, _, name = key.rpartition(".")
        return getattr(getattr(self, section) if section else self, name)

    def settings_of(self, sections: Iterable[str]) -> dict[str, Any]:
        """The keys of some sections with their values."""
        return {
            f"{section}.{name}": value
            for section in sections
            for name, value in asdict(getattr(self, section)).items()
        }

    def to_toml(self) -> str:
        """All keys, sections last."""
        lines = []
        sections = []
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                rows = [f"{key} = {toml_value(entry)}" for key, entry in value.items()]
                sections.append("\n".join([f"[{name}]", *rows]))
            else:
                lines.append(f"{name} = {toml_value(value)}")
        return "\n\n".join(["\n".join(lines), *sections]) + "\n"

    @classmethod
    def from_toml(cls, text: str, missing: Mapping[str, Any] | None = None) -> "RunSpec":
        """The inverse of :meth:`to_toml`; unknown keys are refused.

        Args:
            text: what a spec file holds.
            missing: values of keys that the text does not set, in place of the defaults.
        """
        return cls().with_settings({**(missing or {}), **_settings(text)})

    @classmethod
    def read(cls, path: Path, missing: Mapping[str, Any] | None = None) -> "RunSpec":
        """Reads a spec file; an error names it.

        Args:
            path: the file.
            missing: values of keys that the file does not set, in place of the defaults.
        """
        settings = {**(missing or {}), **read_settings(path)}
        try:
            return cls().with_settings(settings)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


def difference(one: RunSpec, other: RunSpec) -> str:
    """The first line in which two specs differ, for people."""
    rows = zip(one.to_toml().splitlines(), other.to_toml().splitlines(), strict=False)
    changed = [f"{a} there, {b} here" for a, b in rows if a != b]
    return changed[0] if changed else "other keys"


def read_settings(path: Path) -> dict[str, Any]:
    """The keys that a spec file sets, and no others; an error names the file."""
    try:
        return _settings(plain_text(path, pipes=True))
    except OSError as error:
        raise InputError(f"cannot read the spec {path}: {error.strerror}") from None
    except (UnicodeDecodeError, InputError) as error:
        raise InputError(f"{path}: {error}") from None


def _settings(text: str) -> dict[str, Any]:
    try:
        return _flat(toml_of(text))
    except ValueError as error:
        raise InputError(f"the spec is not TOML: {error}") from None


def spec_keys() -> list[str]:
    """Every key that a spec can hold."""
    keys = []
    for top in fields(RunSpec):
        factory = top.default_factory
        if isinstance(factory, type) and is_dataclass(factory):
            keys += [f"{top.name}.{inner.name}" for inner in fields(factory)]
        else:
            keys.append(top.name)
    return keys


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """``key=value`` texts from the command line."""
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError(
                f"expected key=value, for example training.batch_size=64 (got {pair!r})"
            )
        settings[key.strip()] = value.strip()
    return settings


def _validated(values: dict[str, Any]) -> RunSpec:
    try:
        return _ADAPTER.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Input should be ")
        raise InputError(f"{key}: expected {message} (got {first['input']!r})") from None


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": entry for key, entry in value.items()}
        else:
            flat[name] = value
    return flat


_ADAPTER = TypeAdapter(RunSpec)
