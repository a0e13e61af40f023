"""How silos come to one schema without showing each other data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from feddep.errors import DataError, InputError
from feddep.graph.files import AnyPath
from feddep.graph.schema import Column, Schema
from feddep.reading import json_of, plain_text
from feddep.tables.encoder import survey
from feddep.tables.files import open_tables

_FORMAT = "feddep-schema"


def make_schema(folder: AnyPath, **flags: Any) -> Schema:
    """What may be shown of a folder's tables: names, types, categories and classes."""
    return survey(open_tables(folder, **flags))[0]


def write_schema(schema: Schema, path: Path) -> None:
    """Writes a schema as JSON that its owner can read and edit."""
    values = {"format": _FORMAT, "version": 1, **schema.to_plain()}
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror}; choose another --out") from None


def read_schema(path: Path) -> Schema:
    """The schema in a file, in the order of names.

    Raises:
        DataError: it cannot be read.
        InputError: it is no schema.
    """
    try:
        values = json_of(plain_text(path))
        if values.pop("format") != _FORMAT or values.pop("version") != 1:
            raise ValueError("another format or version")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{path} is no schema ({error}); feddep schema make writes one") from None
    try:
        return Schema.from_plain(values).canonical
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def join_schemas(schemas: Mapping[str, Schema]) -> tuple[Schema, list[str]]:
    """The schema that all silos can encode by, and in words what each of them lacked.

    Categories and classes are joined; a number is log-scaled, and missing cells are flagged, if
    one silo asks for it.

    Raises:
        InputError: a column is missing in one of them, or is of another kind there.
    """
    everyone = {who: {column.name: column for column in s.columns} for who, s in schemas.items()}
    names = sorted(set().union(*everyone.values()))
    wrong = [
        f"{who} has no column {name!r}"
        for name in names
        for who, columns in everyone.items()
        if name not in columns
    ]
    if wrong:
        more = f"; and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        raise InputError(
            f"the silos' columns are not the same: {'; '.join(wrong[:6])}{more}; rename or drop "
            'columns (drop = ["…"] in tables.toml) until all have the same'
        )
    told: list[str] = []
    joined = [
        _joined({who: columns[name] for who, columns in everyone.items()}, told) for name in names
    ]
    classes = {who: set(schema.classes) for who, schema in schemas.items()}
    told += _lacking("class", classes)
    return Schema(tuple(joined), tuple(set().union(*classes.values()))).canonical, told


def _joined(columns: Mapping[str, Column], told: list[str]) -> Column:
    first = next(iter(columns.values()))
    kinds = {who: column.kind for who, column in columns.items()}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"a {kind} in {who}" for who, kind in kinds.items())
        raise InputError(
            f"column {first.name!r} is {listed}; make it the same everywhere, for example with "
            f'categories = ["{first.name}"] in tables.toml'
        )
    found = replace(
        first,
        categories=tuple(set().union(*(column.categories for column in columns.values()))),
        flagged=any(column.flagged for column in columns.values()),
        log=any(column.log for column in columns.values()),
    )
    told += _lacking(
        f"category of {first.name!r}", {who: set(c.categories) for who, c in columns.items()}
    )
    for what, field in (("log-scaled", "log"), ("flagged where missing", "flagged")):
        asking = [who for who, column in columns.items() if getattr(column, field)]
        if 0 < len(asking) < len(columns):
            told.append(f"column {first.name!r} is {what} for all, as {_some(asking)} asked for it")
    return found


def _lacking(what: str, sets: Mapping[str, set[str]]) -> list[str]:
    everything = set().union(*sets.values())
    return [
        f"{who} has no {what} {_some(sorted(everything - own))}: it is known, with no node there"
        for who, own in sets.items()
        if everything - own
    ]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
