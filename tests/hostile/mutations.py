"""Honest content, changed by a seed: in single bytes, in words, in values, or in its place."""

import io
import json
import os
import random
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from feddep.reading import json_of, toml_of

NUMBERS = (
    *(0, -1, 1, 2, 3, 255, 2**31 - 1, 2**31, -(2**31), 2**53, 2**62, 2**63, -(2**63), 2**64),
    *(10**9, 10**18, 10**40, 10**400, 0.5, -0.0, 1e-320, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf")),
)
TEXTS = (
    *("", " ", "a", "\0", "\n", "a\r\nb", "é", "\ud800", "\U0001f512", "NaN", "1e999", "0x10"),
    *("..", "/", "../../etc/passwd", "/dev/zero", "/dev/full", "/proc/self/mem", "~", "~nobody/x"),
    *("x" * 300, "x" * 600, "x/" * 3000, "x" * 70_000, "\U0001f512" * 300, "9" * 5000),
    *("[" * 2000, "{" * 2000, "%s%n", "a:b", "feddep.cli.main:main", "client-0/bias", "fedavg"),
)
WORDS = (*(str(number) for number in NUMBERS if abs(number) < 10**100), *TEXTS)
DTYPES = ("f2", "<f4", ">f4", "<f8", "<i1", "<i4", "<i8", "<u8", "?", "c8", "S3", "U3", "M8[s]")

Arrays = Mapping[str, np.ndarray]


def some_plain(draws: random.Random, depth: int = 0) -> Any:
    """Anything that JSON or TOML could hold."""
    kind = draws.randrange(8 if depth < 3 else 6)
    if kind < 2:
        return draws.choice(NUMBERS)
    if kind < 4:
        return draws.choice(TEXTS)
    if kind < 6:
        return draws.choice((None, True, False))
    inner = [some_plain(draws, depth + 1) for _ in range(draws.randrange(4))]
    if kind == 6:
        return inner
    return {draws.choice(TEXTS): value for value in inner}


def altered_value(draws: random.Random, value: Any) -> Any:
    """A plain value, changed in one place somewhere within it."""
    if draws.random() < 0.1 or not isinstance(value, dict | list) or not value:
        if isinstance(value, str) and value and draws.random() < 0.4:
            return altered_text(draws, value)
        return some_plain(draws)
    if isinstance(value, list):
        at, deed = draws.randrange(len(value)), draws.randrange(6)
        if deed == 0:
            return value[:at] + value[at + 1 :]
        if deed == 1:
            return [*value, *value] if draws.random() < 0.9 else value * 1000
        return [*value[:at], altered_value(draws, value[at]), *value[at + 1 :]]
    name, deed = draws.choice(list(value)), draws.randrange(8)
    others = {key: entry for key, entry in value.items() if key != name}
    if deed == 0:
        return others
    if deed == 1:
        return {**value, draws.choice(TEXTS): some_plain(draws)}
    if deed == 2:
        return {**others, draws.choice((*TEXTS, *value)): value[name]}
    return {**value, name: altered_value(draws, value[name])}


def altered_text(draws: random.Random, text: str) -> str:
    """A text of which a word, a number or a line is another."""
    found = list(re.finditer(r"[\w.+-]+|[^\w\s]", text))
    if not found:
        return draws.choice(TEXTS)
    word, deed = draws.choice(found), draws.randrange(5)
    if deed == 0:
        return text[: word.start()] + text[word.end() :]
    if deed == 1:
        return text[: word.start()] + draws.choice(found)[0] + text[word.end() :]
    if deed == 2:
        lines = text.splitlines(keepends=True)
        lines.insert(draws.randrange(len(lines) + 1), draws.choice(lines))
        return "".join(lines)
    if deed == 3:
        return text[: word.start()] + draws.choice(WORDS)
    return text[: word.start()] + draws.choice(WORDS) + text[word.end() :]


def altered_bytes(draws: random.Random, data: bytes) -> bytes:
    """Bytes, changed in one place."""
    at, deed = draws.randrange(len(data) + 1), draws.randrange(8)
    other = draws.randrange(len(data) + 1)
    if deed < 3 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << draws.randrange(8)]) + data[at + 1 :]
    if deed == 3:
        return data[:at]
    if deed == 4:
        return data[:at] + draws.randbytes(draws.randrange(1, 20)) + data[at:]
    if deed == 5:
        return data[: min(at, other)] + data[max(at, other) :]
    if deed == 6:
        word = draws.choice((1, 4, 8))
        return data[:at] + draws.choice((b"\0", b"\xff", b"\x7f")) * word + data[at + word :]
    return draws.choice((b"", data * 2, data[::-1], draws.randbytes(30), b"\0" * 100, b"\n" * 9))


def altered_array(draws: random.Random, array: np.ndarray) -> np.ndarray:
    """An array with another element, type or shape."""
    deed = draws.randrange(7)
    if deed < 2 and array.size:
        found = array.copy()
        number = draws.choice(NUMBERS)
        with np.errstate(all="ignore"):
            try:
                found.reshape(-1)[draws.randrange(found.size)] = number
            except (OverflowError, ValueError, TypeError):
                return array[:-1] if array.ndim else array
        return found
    if deed == 2:
        kind = draws.choice(DTYPES)
        with np.errstate(all="ignore"):
            return array.astype("S3" if array.dtype.kind in "SU" else kind)
    if deed == 3 and array.ndim:
        return array[: draws.randrange(len(array) + 1)]
    if deed == 4:
        return array[None]
    if deed == 5:
        return array.reshape(-1)
    shape = tuple(draws.choice((0, 1, 2, 3, 5, 100)) for _ in range(draws.randrange(4)))
    return np.full(shape, draws.choice((0, 1, -1, 7)), array.dtype)


def altered_arrays(draws: random.Random, arrays: Arrays) -> dict[str, np.ndarray]:
    """Named arrays of which one is another, has another name, is gone or is new."""
    if not arrays:
        return {draws.choice(TEXTS): np.zeros(draws.randrange(3), draws.choice(DTYPES))}
    name, deed = draws.choice(sorted(arrays)), draws.randrange(8)
    others = {key: array for key, array in arrays.items() if key != name}
    if deed == 0:
        return others
    if deed == 1:
        return {**others, draws.choice((*TEXTS, *sorted(arrays))): arrays[name]}
    if deed == 2:
        return {**arrays, draws.choice(TEXTS): altered_array(draws, arrays[name])}
    return {**arrays, name: altered_array(draws, arrays[name])}


def altered_file(draws: random.Random, name: str, data: bytes) -> bytes:
    """What a file holds, changed by its kind or in its bytes."""
    change = _BY_ENDING.get(Path(name).suffix)
    if change is None or draws.random() < 0.25:
        return altered_bytes(draws, data)
    try:
        found = change(draws, data)
    except (UnicodeDecodeError, json.JSONDecodeError):  # sealed
        return altered_bytes(draws, data)
    return altered_bytes(draws, found) if draws.random() < 0.05 else found


def altered_place(draws: random.Random, path: Path, *, pipes: bool) -> None:
    """Puts something that is no file in a file's place, or nothing; or a pipe."""
    path.unlink()
    deed = draws.randrange(6)
    if deed == 1:
        path.mkdir()
    elif deed == 2 and pipes:
        os.mkfifo(path)
    elif deed == 3:
        path.symlink_to(draws.choice(("/dev/zero", "/dev/tty", "/proc/self/mem", "/nowhere")))
    elif deed == 4:
        path.symlink_to(path.name)
    elif deed == 5:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))


def toml_text(values: Mapping[str, Any]) -> str:
    """Plain values as TOML, a line for each; what TOML cannot say comes out wrong."""
    return "".join(f"{_key(name)} = {_toml(value)}\n" for name, value in values.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]+", name, re.ASCII) else json.dumps(name)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool | str):
        return json.dumps(value)
    return {float("inf"): "inf", float("-inf"): "-inf"}.get(value, str(value).lower())


def _json(draws: random.Random, data: bytes) -> bytes:
    if draws.random() < 0.3:
        return _text(draws, data)
    lines = data.splitlines() if data.count(b"\n{") else [data]  # one value, or one in each line
    at = draws.randrange(len(lines))
    lines[at] = json.dumps(altered_value(draws, json_of(lines[at]))).encode()
    return b"\n".join(lines) + b"\n"


def _text(draws: random.Random, data: bytes) -> bytes:
    return altered_text(draws, data.decode()).encode(errors="surrogatepass")


def _settings(draws: random.Random, data: bytes) -> bytes:
    if draws.random() < 0.4:
        return _text(draws, data)
    text = toml_text(altered_value_of_table(draws, toml_of(data.decode())))
    return text.encode(errors="surrogatepass")


def altered_value_of_table(draws: random.Random, table: dict[str, Any]) -> dict[str, Any]:
    """The same for a table, which it stays."""
    found = altered_value(draws, table)
    return found if isinstance(found, dict) else {draws.choice(TEXTS): found}


def _array(draws: random.Random, data: bytes) -> bytes:
    return _saved(np.save, altered_array(draws, np.load(io.BytesIO(data))))


def _archive(draws: random.Random, data: bytes) -> bytes:
    with np.load(io.BytesIO(data)) as opened:
        arrays = altered_arrays(draws, dict(opened))
    usable = {
        name: array for name, array in arrays.items() if name.isascii() and 0 < len(name) < 99
    }
    save = np.savez_compressed if draws.random() < 0.3 else np.savez
    return _saved(lambda out, named: save(out, **named), usable)


def _tensors(draws: random.Random, data: bytes) -> bytes:
    from safetensors import SafetensorError
    from safetensors.numpy import load, save

    try:
        arrays = altered_arrays(draws, load(data))
        return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    except (KeyError, SafetensorError, ValueError, TypeError):  # of no type that it can hold
        return altered_bytes(draws, data)


def _saved(save: Any, content: Any) -> bytes:
    out = io.BytesIO()
    save(out, content)
    return out.getvalue()


_BY_ENDING = {
    ".json": _json,
    ".jsonl": _json,
    ".toml": _settings,
    ".csv": _text,
    ".pub": _text,
    ".pem": _text,
    ".npy": _array,
    ".npz": _archive,
    ".safetensors": _tensors,
}
