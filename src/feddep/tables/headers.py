"""The names of a table's columns."""

from collections import Counter
from collections.abc import Sequence

from feddep.errors import InputError


def checked_header(names: Sequence[str], where: str) -> tuple[str, ...]:
    """The names of columns, trimmed, each once; those without a name may repeat."""
    found = tuple(name.strip() for name in names)
    twice = [name for name, count in Counter(found).items() if name and count > 1]
    if twice:
        raise InputError(
            f"{where}, line 1: expected a name of its own for every column "
            f"({twice[0]!r} stands there twice); rename one"
        )
    return found
