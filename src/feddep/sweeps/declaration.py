"""From a sweep's declaration to the settings of single runs."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from feddep.errors import InputError
from feddep.reading import plain_text, toml_of

SWITCHES = ("history", "timed")

MOST_CELLS = 100_000
"""Runs of a sweep: all of them are held in memory, and nobody waits for more."""

Cell = dict[str, Any]
"""The settings of one run."""


def read_declaration(file: Path) -> dict[str, Any]:
    """The tables and switches of a file.

    Raises:
        InputError: an entry has the wrong type; it says which.
    """
    try:
        content = toml_of(plain_text(file, pipes=True))
    except (OSError, ValueError) as error:
        hint = "" if file.suffix else f"; expected a file such as {file.name}.toml"
        raise InputError(f"cannot read the sweep {file}: {error}{hint}") from None
    if "grid" not in content or not content.keys() <= {"grid", "fixed", "quick", *SWITCHES}:
        raise InputError(
            f"{file}: expected [grid] and perhaps [fixed], [quick], {' and '.join(SWITCHES)} "
            f"(got {list(content)})"
        )
    for name in SWITCHES:
        if not isinstance(content.setdefault(name, False), bool):
            raise InputError(f"{file}: {name} must be true or false (got {content[name]!r})")
    if not isinstance(content["grid"], list):
        content["grid"] = [content["grid"]]
    for name, tables in (
        ("fixed", [content.setdefault("fixed", {})]),
        ("grid", content["grid"]),
        ("quick", [content.get("quick", {})]),
    ):
        if not all(isinstance(table, dict) for table in tables):
            raise InputError(f"{file}: [{name}] must be a table (got {content[name]!r})")
        for key, value in [pair for table in tables for pair in table.items()]:
            _check_entry(file, name, key, value)
    _check_number(file, content["grid"])
    both = sorted(content["fixed"].keys() & {key for grid in content["grid"] for key in grid})
    if both:
        raise InputError(f"{file}: {both[0]} stands in [fixed] and in [grid]; choose one of them")
    return content


def _check_entry(file: Path, table: str, key: str, value: Any) -> None:
    if isinstance(value, dict):
        inner = f'"{key}.{next(iter(value), "")}"'
        raise InputError(f"{file}: quote keys that have a dot, as {inner} in [{table}]")
    if table != "fixed" and not (isinstance(value, list) and value):
        raise InputError(
            f"{file}: every entry of [{table}] must be a list of values (got {key} = {value!r})"
        )


def _check_number(file: Path, grids: Sequence[Mapping[str, Sequence[Any]]]) -> None:
    cells = sum(math.prod(map(len, grid.values())) for grid in grids)
    if cells > MOST_CELLS:
        raise InputError(f"{file}: {cells:,} runs, where at most {MOST_CELLS:,} make a sweep")


def declared_cells(content: Mapping[str, Any]) -> list[Cell]:
    """Every combination of each grid, with what is fixed."""
    return [content["fixed"] | cell for grid in content["grid"] for cell in _combinations(grid)]


def quick_cells(content: Mapping[str, Any]) -> list[Cell]:
    """The cells that ``[quick]`` selects; a single value is also set where there is none."""
    wanted: Mapping[str, Sequence[Any]] = content["quick"]
    defaults = {key: values[0] for key, values in wanted.items() if len(values) == 1}
    return [
        defaults | cell
        for cell in declared_cells(content)
        if all(cell[key] in values for key, values in wanted.items() if key in cell)
    ]


def _combinations(grid: Mapping[str, Sequence[Any]]) -> Iterator[Cell]:
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))
