"""Which files and columns of a silo hold what: by usual names, or by a small TOML file."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import TypeAdapter, ValidationError

from feddep.errors import InputError
from feddep.reading import plain_text, toml_of

SETTINGS = "tables.toml"

_USUAL = {
    "id": ("id", "node", "node_id", "account", "account_id", "customer", "customer_id"),
    "label": ("label", "class", "target_label", "is_fraud", "is_laundering"),
    "split": ("split",),
    "case": (),
    "since": (),
    "source": ("source", "src", "from", "sender", "from_account", "from_id"),
    "target": ("target", "dst", "to", "receiver", "to_account", "to_id"),
    "weight": ("weight", "amount"),
    "time": ("time", "timestamp", "date"),
    "source_silo": ("source_silo", "source_bank", "from_bank"),
    "target_silo": ("target_silo", "target_bank", "to_bank"),
}
_OF_NODES = ("id", "label", "split", "case", "since")
_NEEDED = ("id", "source", "target")


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """How a silo's two tables are read. What is empty is found by its usual name.

    Attributes:
        nodes: the file of nodes (accounts, patients, papers), relative to the folder.
        edges: the file of edges (payments, referrals, citations).
        id: the column of nodes that names them.
        label: the class, if known.
        split: train, val, test or empty.
        case: the case that a node belongs to, such as a ring; no feature.
        since: a date or number that says when a node was known; no feature.
        split_by: how a split is drawn that the table does not have; ``case`` and ``time`` take the
            place of one that it has.
        source: the column of edges that names where one begins.
        target: where it ends.
        weight: its weight or amount.
        time: when it was.
        source_silo: the silo that ``source`` belongs to.
        target_silo: the silo that ``target`` belongs to.
        silo: what those two columns call this silo; found beside its own ids.
        drop: columns of nodes that are no features.
        categories: columns of numbers that are codes, such as a branch.
        log: columns to be log-scaled; ``auto`` chooses the very skewed ones, ``none`` none.
        edge_features: counts, sums and means of each node's edges, in and out, as features.
        flows: direction and weight of edges are kept for models that read them (``model.weighted``,
            ``model.directions``).
        outside: links to other silos are kept for methods that use them, or dropped.
        most_categories: a text column with more values than this is no feature.
    """

    nodes: str = ""
    edges: str = ""
    id: str = ""
    label: str = ""
    split: str = ""
    case: str = ""
    since: str = ""
    split_by: Literal["random", "case", "time"] = "random"
    source: str = ""
    target: str = ""
    weight: str = ""
    time: str = ""
    source_silo: str = ""
    target_silo: str = ""
    silo: str = ""
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    log: tuple[str, ...] | Literal["auto", "none"] = "auto"
    edge_features: bool = False
    flows: bool = False
    outside: Literal["keep", "drop"] = "keep"
    most_categories: Annotated[int, Ge(2), Le(1000)] = 50

    @classmethod
    def read(cls, path: Path, missing: Mapping[str, Any] | None = None) -> "TableSettings":
        """The settings in a TOML file, which may be absent; an error names it.

        Args:
            path: the file.
            missing: values that stand above those of the file, such as flags.
        """
        values: dict[str, Any] = {}
        if path.exists():
            try:
                values = toml_of(plain_text(path))
            except OSError as error:
                raise InputError(f"{path} cannot be read ({error.strerror})") from None
            except ValueError as error:  # not UTF-8, or not TOML
                raise InputError(f"{path} is not a TOML file ({error})") from None
        return cls.of({**values, **(missing or {})}, str(path))

    @classmethod
    def of(
        cls, values: Mapping[str, Any], where: str = "the settings of tables"
    ) -> "TableSettings":
        """Settings from plain values; what is unknown or wrong is refused by name."""
        unknown = sorted(values.keys() - asdict(cls()).keys())
        if unknown:
            raise InputError(
                f"{where}: unknown key {unknown[0]!r}; known: {', '.join(asdict(cls()))}"
            )
        try:
            return _ADAPTER.validate_python(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(
                f"{where}: {first['loc'][0]}: {first['msg']} (got {first['input']!r:.80})"
            ) from None

    def of_nodes(self, header: Sequence[str], where: str) -> "TableSettings":
        """The settings with the columns of a table of nodes."""
        return self._found(header, _OF_NODES, where)

    def of_edges(self, header: Sequence[str], where: str) -> "TableSettings":
        """The settings with the columns of a table of edges."""
        found = self._found(header, [name for name in _USUAL if name not in _OF_NODES], where)
        if bool(found.source_silo) != bool(found.target_silo):
            raise InputError(
                f"{where}: the silo of one end is named ({found.source_silo or found.target_silo}),"
                " but not that of the other; name both columns or neither"
            )
        return found

    def _found(self, header: Sequence[str], roles: Sequence[str], where: str) -> "TableSettings":
        columns: dict[str, Any] = {role: self._column(role, header, where) for role in roles}
        return replace(self, **columns)

    def _column(self, role: str, header: Sequence[str], where: str) -> str:
        given: str = getattr(self, role)
        names = (given,) if given else _USUAL[role]
        by_lower = {name.lower(): name for name in reversed(header)}
        for name in names:
            if name in header or name.lower() in by_lower:
                return name if name in header else by_lower[name.lower()]
        if given or role in _NEEDED:
            wanted = repr(given) if given else " or ".join(map(repr, names[:3]))
            raise InputError(
                f"{where}, line 1: expected a column {wanted} as {role} "
                f"(got {', '.join(map(repr, header[:8]))}{', …' if len(header) > 8 else ''}); "
                f'name it with {role} = "…" in {SETTINGS} or --{role.replace("_", "-")}'
            )
        return ""


_ADAPTER = TypeAdapter(TableSettings)
