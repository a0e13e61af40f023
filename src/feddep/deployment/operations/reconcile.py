"""Holds Flower's list of nodes against the keys that the server's operator lets in.

Whoever reaches Flower's control interface can register a key, and Flower remembers it in its
database for ever. The operator's list is the folder with the silos' keys, and nothing else.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from feddep.deployment.operations.certificates import (
    key_fingerprint,
    load_public_openssh,
    loaded,
)
from feddep.deployment.protocol.registry import Registered
from feddep.errors import InputError

_MOST = 1 << 64


def known_keys(folder: Path) -> dict[str, str]:
    """The name of each silo that may take part, by the fingerprint of its key.

    Raises:
        InputError: there is none, a file is not a key, or two have the same.
    """
    found: dict[str, str] = {}
    for file in sorted(folder.glob("*.pub")):
        key = key_fingerprint(loaded(file, load_public_openssh))
        if key in found:
            raise InputError(
                f"{found[key]}.pub and {file.name} in {folder} hold the same key; delete one, or "
                "give each silo a key of its own"
            )
        found[key] = file.stem
    if not found:
        raise InputError(
            f"expected the silos' public keys, NAME.pub, in {folder} (got none); copy the folder "
            "from the kit"
        )
    return found


def remove_strangers(database: Path, known: Mapping[str, str]) -> list[str]:
    """Deletes nodes whose keys are not known, while Flower does not run, and returns their names.

    The keys that are known keep their addresses, so a run can be resumed while some are absent.
    """
    if not database.exists():
        return []
    try:
        with closing(sqlite3.connect(database)) as connection, connection:
            strangers = [
                (number, _called(name, key))
                for number, name, key in connection.execute(
                    "SELECT node_id, name, public_key FROM node"
                )
                if _fingerprint(key) not in known
            ]
            connection.executemany(
                "DELETE FROM node WHERE node_id = ?", [(number,) for number, _ in strangers]
            )
    except sqlite3.Error:  # of another version of Flower, or broken: nothing else is in it
        _forget(database)
        return ["all nodes, as the database could not be read"]
    return [name for _, name in strangers]


def registry_of(database: Path, known: Mapping[str, str]) -> dict[int, Registered]:
    """Who is registered now, by address: only keys that are known.

    Raises:
        InputError: the database cannot be read, so nobody can be told from anybody else.
    """
    try:
        with closing(sqlite3.connect(database)) as connection:
            rows = connection.execute("SELECT node_id, public_key FROM node").fetchall()
    except sqlite3.Error as error:
        raise InputError(
            f"cannot read Flower's database {database} ({error}); stop the server, delete the "
            "file and start again"
        ) from None
    keys = {number % _MOST: _fingerprint(key) for number, key in rows}
    return {number: Registered(known[key], key) for number, key in keys.items() if key in known}


def _fingerprint(key: bytes | None) -> str:
    try:
        public = serialization.load_pem_public_key(key or b"")
    except ValueError:
        return ""
    return key_fingerprint(public) if isinstance(public, ec.EllipticCurvePublicKey) else ""


def _called(name: str | None, key: bytes | None) -> str:
    shown = "".join(sign for sign in name or "" if sign.isprintable())[:40]
    return f"{shown or 'without a name'} ({_fingerprint(key)[:16] or 'no key'})"


def _forget(database: Path) -> None:
    files: Sequence[Path] = list(database.parent.glob(f"{database.name}*"))
    for file in files:
        file.unlink()
