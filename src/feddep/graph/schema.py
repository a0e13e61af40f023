"""What a graph's columns and classes mean: names, types, categories, class names.

Columns and classes are matched by name, never by position: what differs only in order is put in
one order (:func:`arranged`), and everything else is refused by name.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from feddep.errors import InputError

Kind = Literal["number", "boolean", "category"]

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a silo's table, and the feature columns that it becomes.

    Attributes:
        name: as in the table.
        kind: a number is one feature; a boolean is 0 or 1; a category has a feature for each of
            its categories.
        categories: of a category, in the order of their features.
        flagged: whether a further feature says where the cell is missing.
        log: whether a number is replaced by sign(x) log(1 + |x|).
        mean: what is subtracted from a number, where the silos agreed on it.
        deviation: what a number is divided by, where the silos agreed on it.
        from_edges: whether it was computed from the table of edges.
    """

    name: str
    kind: Kind = "number"
    categories: tuple[str, ...] = ()
    flagged: bool = False
    log: bool = False
    mean: float | None = None
    deviation: float | None = None
    from_edges: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its feature columns."""
        own: tuple[str, ...] = (self.name,)
        if self.kind == "category":
            own = tuple(f"{self.name} = {category}" for category in self.categories)
        return (*own, f"{self.name} is missing") if self.flagged else own


@dataclass(frozen=True)
class Schema:
    """The columns of a graph's features in order, and the names of its classes.

    Attributes:
        columns: what the features come from, in order.
        classes: the name of each class, in order; empty where nobody named them.
    """

    columns: tuple[Column, ...]
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for what, names in (("column", self.features), ("class", self.classes)):
            twice = {name for name in names if names.count(name) > 1} if _repeats(names) else set()
            if twice:
                raise InputError(f"every {what} needs a name of its own ({min(twice)!r} repeats)")

    @classmethod
    def of_numbers(cls, names: Iterable[str], classes: Iterable[str] = ()) -> "Schema":
        """Numeric columns that are used as they are."""
        return cls(tuple(Column(name=name) for name in names), tuple(classes))

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of the feature columns, in order."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def reads_edges(self) -> bool:
        """Whether some features were computed from edges."""
        return any(column.from_edges for column in self.columns)

    @property
    def canonical(self) -> "Schema":
        """The same in the one order that all silos come to without talking: by name."""
        columns = (
            replace(column, categories=tuple(in_order(column.categories)))
            for column in self.columns
        )
        ordered = tuple(sorted(columns, key=lambda column: column.name))
        return Schema(ordered, tuple(in_order(self.classes)))

    def digest(self) -> str:
        """64 digits that are equal for schemas that differ in nothing but order."""
        text = json.dumps(self.canonical.to_plain(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def differences(self, other: "Schema") -> list[str]:
        """What this one has, and ``other`` has differently, in words; order does not count."""
        found = _names_that_differ(
            "column", {c.name for c in self.columns}, {c.name for c in other.columns}
        )
        theirs = {column.name: column for column in other.columns}
        for column in self.columns:
            if column.name in theirs:
                found += _differences_of(column, theirs[column.name])
        return found + _names_that_differ("class", set(self.classes), set(other.classes))

    def to_plain(self) -> dict[str, Any]:
        """As JSON holds it; the inverse is :meth:`from_plain`."""
        return {
            "columns": [_without_defaults(column) for column in self.columns],
            "classes": list(self.classes),
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "Schema":
        """Reads what :meth:`to_plain` wrote. Where it comes from is not trusted.

        Raises:
            InputError: it is not a schema.
        """
        try:
            return _ADAPTER.validate_json(json.dumps(dict(values)), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "content"
            raise InputError(
                f"schema: {where}: {first['msg']} (got {first['input']!r:.80})"
            ) from None


_ADAPTER = TypeAdapter(Schema)


def in_order(names: Iterable[str]) -> list[str]:
    """Names in their natural order: as numbers if all of them are, otherwise as text."""
    known = list(names)
    try:
        return sorted(known, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(known)


def refuse_difference(one: Schema, other: Schema, who: str, whom: str) -> None:
    """Refuses schemas that differ in more than order.

    Args:
        one: of ``who``.
        other: of ``whom``.
        who: as the message calls it.
        whom: as the message calls it.

    Raises:
        InputError: it names what differs.
    """
    found = one.differences(other)
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise InputError(
            f"the columns of {who} are not those of {whom}: {'; '.join(found[:_SHOWN])}{more}; "
            "agree on one schema first (feddep schema join)"
        )


def places(have: tuple[str, ...], want: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Where each wanted name stands among those at hand."""
    place = {name: number for number, name in enumerate(have)}
    return np.array([place[name] for name in want], np.int64)


def _repeats(names: tuple[str, ...]) -> bool:
    return len(set(names)) != len(names)


def _names_that_differ(what: str, mine: set[str], theirs: set[str]) -> list[str]:
    found = []
    if mine - theirs:
        found.append(f"{what} {_some(mine - theirs)} only in the first")
    if theirs - mine:
        found.append(f"{what} {_some(theirs - mine)} only in the second")
    return found


def _some(names: set[str]) -> str:
    first = in_order(names)
    more = f" and {len(first) - _SHOWN} more" if len(first) > _SHOWN else ""
    return ", ".join(repr(name) for name in first[:_SHOWN]) + more


def _differences_of(mine: Column, theirs: Column) -> list[str]:
    if mine.kind != theirs.kind:
        return [f"{mine.name!r} is a {mine.kind} and a {theirs.kind}"]
    if set(mine.categories) != set(theirs.categories):
        return _names_that_differ(
            f"{mine.name!r}: category", set(mine.categories), set(theirs.categories)
        )
    words = {
        "flagged": "has a flag for missing cells",
        "log": "is log-scaled",
        "mean": "is centred on another mean",
        "deviation": "is divided by another deviation",
        "from_edges": "is computed from edges",
    }
    return [
        f"{mine.name!r} {told} in one of them"
        for name, told in words.items()
        if getattr(mine, name) != getattr(theirs, name)
    ]


def _without_defaults(column: Column) -> dict[str, Any]:
    plain = Column(name=column.name)
    values = {
        name: value
        for name, value in asdict(column).items()
        if name == "name" or value != getattr(plain, name)
    }
    return {**values, **({"categories": list(column.categories)} if column.categories else {})}
