"""Flower's list of nodes against the operator's folder of keys."""

import sqlite3
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from feddep.deployment.operations.certificates import key_fingerprint, new_key, public_openssh
from feddep.deployment.operations.reconcile import known_keys, registry_of, remove_strangers
from feddep.deployment.protocol.registry import Registered
from feddep.errors import InputError

KEYS = {name: new_key().public_key() for name in ("bank-a", "bank-b", "mallory")}
FINGERPRINTS = {name: key_fingerprint(key) for name, key in KEYS.items()}


@pytest.fixture
def folder(tmp_path) -> Path:
    silos = tmp_path / "silos"
    silos.mkdir()
    for name in ("bank-a", "bank-b"):
        (silos / f"{name}.pub").write_bytes(public_openssh(KEYS[name], name))
    return silos


@pytest.fixture
def database(tmp_path) -> Path:
    """As Flower keeps it: numbers are signed, names are what whoever registered a key said."""
    pem = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    file = tmp_path / "flower.db"
    rows = [(-5, "bank-a", "bank-a"), (8, "bank-b", "bank-a"), (9, "mallory", "bank-a")]
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE node (node_id BIGINT, public_key BLOB, name VARCHAR)")
        for number, key, name in rows:
            told = (number, KEYS[key].public_bytes(*pem), name)
            connection.execute("INSERT INTO node VALUES (?, ?, ?)", told)
    return file


def test_who_is_not_listed_is_removed_and_named(folder, database):
    (found,) = remove_strangers(database, known_keys(folder))
    assert found == f"bank-a ({FINGERPRINTS['mallory'][:16]})", "the name is its own word"
    assert remove_strangers(database, known_keys(folder)) == []


def test_who_is_listed_keeps_its_address(folder, database):
    known = known_keys(folder)
    remove_strangers(database, known)
    assert registry_of(database, known) == {
        2**64 - 5: Registered("bank-a", FINGERPRINTS["bank-a"]),
        8: Registered("bank-b", FINGERPRINTS["bank-b"]),
    }


def test_a_stranger_who_registers_later_is_in_no_registry(folder, database):
    assert 9 not in registry_of(database, known_keys(folder))


def test_a_key_that_was_taken_away_is_a_stranger(folder, database):
    (folder / "bank-b.pub").unlink()
    assert len(remove_strangers(database, known_keys(folder))) == 2
    assert registry_of(database, known_keys(folder)).keys() == {2**64 - 5}


@pytest.mark.parametrize("key", [None, b"", b"no key"])
def test_a_node_without_a_key_is_a_stranger(folder, database, key):
    with sqlite3.connect(database) as connection:
        connection.execute("INSERT INTO node VALUES (10, ?, NULL)", (key,))
    assert "without a name (no key)" in remove_strangers(database, known_keys(folder))


def test_a_database_that_cannot_be_read_is_forgotten_whole(folder, tmp_path):
    file = tmp_path / "flower.db"
    file.write_bytes(b"something else" * 100)
    (tmp_path / "flower.db-wal").touch()
    assert remove_strangers(file, known_keys(folder))[0].startswith("all nodes")
    assert not list(tmp_path.glob("flower.db*"))
    assert remove_strangers(file, known_keys(folder)) == []


def test_nobody_can_be_told_from_anybody_without_it(folder, tmp_path):
    (tmp_path / "flower.db").write_bytes(b"something else" * 100)
    with pytest.raises(InputError, match="delete the file and start again"):
        registry_of(tmp_path / "flower.db", known_keys(folder))


def test_keys_that_make_no_sense(folder):
    (folder / "copy.pub").write_bytes((folder / "bank-a.pub").read_bytes())
    with pytest.raises(InputError, match=r"bank-a\.pub and copy\.pub in .* hold the same key"):
        known_keys(folder)
    (folder / "copy.pub").write_text("nonsense")
    with pytest.raises(InputError, match=r"copy\.pub is not what the kit wrote"):
        known_keys(folder)
