"""The doctor on the wall between a silo's data and Flower's programs."""

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from feddep.deployment.operations import boundary_checks, silo_daemon
from feddep.deployment.operations.boundary_checks import sandbox, separation, silo_answers
from feddep.deployment.operations.config import NodeConfig, SiloConfig
from feddep.errors import InputError
from feddep.runtime.envelope import Envelope

OTHER = 4711


@pytest.fixture
def config(tmp_path) -> SiloConfig:
    for name in ("data", "state"):
        (tmp_path / "silo" / name).mkdir(parents=True)
    for name in ("consent.toml", "a.key"):
        (tmp_path / "silo" / name).touch()
    (tmp_path / "silo").chmod(0o700)
    text = 'name = "a"\nserver = "localhost:9"\nca = "ca.crt"\nkey = "a.key"\ndata = "data"\n'
    file = tmp_path / "silo" / "silo.toml"
    file.write_text(text + 'state = "state"\nconsent = "consent.toml"\n')
    return SiloConfig.read(file)


@pytest.fixture
def apart(config, monkeypatch) -> SiloConfig:
    """Flower's programs have a user of their own; the doctor runs as the silo's."""
    known = SimpleNamespace(pw_uid=OTHER, pw_gid=OTHER)
    monkeypatch.setattr(boundary_checks, "user", lambda name: known)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getgrouplist", lambda name, group: [group])
    return config.model_copy(update={"node_user": "flower", "socket": Path("/run/s")})


def test_a_closed_folder_keeps_the_other_user_out(apart):
    found = separation(apart)
    assert found.ok, found
    assert not found.remedy


@pytest.mark.parametrize("opened", [0o711, 0o755, 0o777])
def test_an_open_one_does_not(apart, tmp_path, opened):
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    try:
        (tmp_path / "silo").chmod(opened)
        found = separation(apart)
        assert found.ok is False
        assert str(apart.data) in found.found
        assert found.remedy.startswith("chmod go= ")
    finally:
        for folder in (tmp_path, *tmp_path.parents[:-2]):
            if folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
                folder.chmod(0o700)


def test_a_user_who_is_not_there(apart, monkeypatch):
    def absent(name: str):
        raise InputError(f"there is no user {name}")

    monkeypatch.setattr(boundary_checks, "user", absent)
    assert "no user flower" in separation(apart).found


@pytest.mark.parametrize("number", [0, os.getuid()])
def test_a_user_who_is_no_other(apart, monkeypatch, number):
    same = SimpleNamespace(pw_uid=number, pw_gid=number)
    monkeypatch.setattr(boundary_checks, "user", lambda name: same)
    found = separation(apart)
    assert found.ok is False
    assert "user of their own" in found.remedy


def test_root_cannot_tell(apart, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert separation(apart).ok is None


@pytest.mark.parametrize(
    ("user", "landlock", "ok", "says"),
    [
        (1000, 7, True, "only the sandbox keeps them off"),
        (1000, 0, False, "reads data, secret, keys and disclosure log"),
        (0, 7, False, "as root, together with the data"),
    ],
)
def test_one_user_for_all_is_told_what_that_risks(config, monkeypatch, user, landlock, ok, says):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(boundary_checks, "version", lambda: landlock)
    found = separation(config)
    assert found.ok is ok
    assert says in found.found
    assert "node_user" in found.remedy


def test_data_among_the_programs_are_no_secret(config, monkeypatch):
    monkeypatch.setattr(boundary_checks, "programs", lambda: [str(config.data.parent)])
    found = separation(config)
    assert found.ok is False
    assert str(config.data) in found.found


def test_no_sandbox_is_said(monkeypatch):
    monkeypatch.setattr(boundary_checks, "version", lambda: 0)
    assert "nothing is confined" in sandbox().found
    assert "Linux 5.13" in sandbox().remedy
    monkeypatch.setattr(boundary_checks, "version", lambda: 7)
    assert not sandbox().remedy


def test_the_node_is_let_in_or_not(tmp_path):
    address = tmp_path / "s"
    fields = {"name": "a", "server": "localhost:9", "socket": str(address)}
    files = {name: str(tmp_path / name) for name in ("ca", "key", "state")}
    config = NodeConfig(**fields, **files)
    found = silo_answers(config)
    assert found.ok is False
    assert "does not answer" in found.found
    answer = lambda envelope: Envelope({"name": "bank-a"})  # noqa: E731
    run = threading.Thread(target=silo_daemon.serve, args=(str(address), None, answer), daemon=True)
    run.start()
    while not address.exists():
        time.sleep(0.002)
    assert silo_answers(config).found.startswith("bank-a answers")
