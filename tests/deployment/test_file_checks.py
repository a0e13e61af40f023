"""The doctor on what a silo's files are, where they lead, and who can change them."""

import os
import socket
from pathlib import Path

import pytest

from feddep.deployment.operations import file_checks
from feddep.deployment.operations.config import SiloConfig
from feddep.deployment.operations.file_checks import safe_files


@pytest.fixture
def config(tmp_path: Path) -> SiloConfig:
    home = tmp_path / "silo"
    for name in ("data", "state/results"):
        (home / name).mkdir(parents=True)
    for name in ("consent.toml", "a.key", "ca.crt", "data/nodes.csv", "state/disclosures.jsonl"):
        (home / name).touch()
    text = 'name = "a"\nserver = "localhost:9"\nca = "ca.crt"\nkey = "a.key"\ndata = "data"\n'
    (home / "silo.toml").write_text(text + 'state = "state"\nconsent = "consent.toml"\n')
    for path in (home, *home.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return SiloConfig.read(home / "silo.toml")


def test_plain_files_of_ones_own(config):
    found = safe_files(config)
    assert found.ok, found
    assert not found.remedy


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(path))


def elsewhere(path: Path) -> None:
    path.symlink_to("/dev/null")


@pytest.mark.parametrize("place", ["state/disclosures.jsonl", "data/nodes.csv", "state/secret"])
@pytest.mark.parametrize(
    ("put", "told"), [(pipe, "is a pipe"), (bound, "is a socket"), (elsewhere, "/dev/null")]
)
def test_what_is_no_file_in_a_file_s_place(config, place, put, told):
    path = config.consent.parent / place
    path.unlink(missing_ok=True)
    put(path)
    found = safe_files(config)
    assert found.ok is False
    assert str(path) in found.found
    assert told in found.found


def test_a_link_within_its_own_folder_is_no_harm(config):
    (config.data / "edges.csv").symlink_to("nodes.csv")
    assert safe_files(config).ok


@pytest.mark.parametrize("name", ["consent.toml", "data", "data/nodes.csv", "state/results"])
def test_what_others_can_write_to(config, name):
    path = config.consent.parent / name
    path.chmod(path.stat().st_mode | 0o020)
    found = safe_files(config)
    assert found.ok is False
    assert f"{path} can be changed by others" in found.found
    assert "chmod go-w" in found.remedy


def test_a_folder_above_in_which_others_can_put_something_else(config):
    home = config.consent.parent
    home.chmod(0o777)
    assert f"whoever can write to {home}" in safe_files(config).found
    home.chmod(0o1777)  # as /tmp: only a file's owner can move it
    assert safe_files(config).ok


def test_files_of_somebody_else(config, monkeypatch):
    monkeypatch.setattr(file_checks.os, "getuid", lambda: 4711)
    owner = config.consent.stat().st_uid
    assert safe_files(config).ok is (owner == 0)


def test_many_faults_are_not_all_told(config):
    for number in range(9):
        pipe(config.state / f"{number}")
    assert "and 4 more" in safe_files(config).found
