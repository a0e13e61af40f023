"""The rule for a silo's name, which its configuration, the kit and the server all check."""

import re

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


def silo_name(name: str) -> str:
    """Returns the name if it can be part of a file name.

    Raises:
        ValueError: it cannot; the text says what was expected.
    """
    if not _NAME.fullmatch(name):
        raise ValueError("1 to 32 letters, digits, - and _, the first a letter or digit")
    return name
