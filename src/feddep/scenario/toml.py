"""Values as TOML writes them; the standard library only reads TOML."""

import json


def toml_value(value: object) -> str:
    """A number, a boolean, a list of them or a string; anything else as its string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # JSON escapes as TOML does, but leaves one control character alone.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
