"""``server.toml`` and ``silo.toml``: read strictly, paths from the file, faults by name."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from feddep.deployment.operations.config import (
    ServerConfig,
    SiloConfig,
    host_and_port,
    is_loopback,
    read_config,
    split_address,
)
from feddep.errors import InputError

SERVER = """\
host = "127.0.0.1"
port = 8001
certificate = "server.pem"
key = "/etc/keys/server.key"
ca = "ca.crt"
silos = "silos"
state = "../state"
"""
SILO = """\
name = "bank-a"
server = "fl.example.org:8000"
ca = "ca.crt"
key = "bank-a.key"
data = "data"
state = "state"
consent = "consent.toml"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "machine").mkdir()
    return tmp_path / "machine" / "config.toml"


def test_paths_are_seen_from_the_file(file, tmp_path, monkeypatch):
    file.write_text(SERVER)
    monkeypatch.chdir(tmp_path)
    config = ServerConfig.read(Path("machine/config.toml"))
    folder = tmp_path.resolve()
    assert config.certificate == folder / "machine/server.pem"
    assert config.key == Path("/etc/keys/server.key")
    assert config.state == folder / "state"


def test_either_kind_is_recognised(file):
    file.write_text(SERVER)
    assert isinstance(read_config(file), ServerConfig)
    file.write_text(SILO)
    config = read_config(file)
    assert isinstance(config, SiloConfig)
    assert (config.host, config.port, config.secret) == ("fl.example.org", 8000, True)


def test_it_cannot_be_changed(file):
    file.write_text(SILO + "secret = false\n")
    config = SiloConfig.read(file)
    assert not config.secret
    with pytest.raises(ValidationError):
        config.secret = True


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "bank-a"\n', "", "the key 'name' is missing"),
        ("name =", "nmae =", "the key 'name' is missing"),
        ('data = "data"', 'data = "data"\ndevice = "cuda"', "unknown key 'device'; known: name"),
        ('"bank-a"\n', '"bank a"\n', r"name: expected 1 to 32 letters.* \(got 'bank a'\)"),
        (":8000", "", r"server: expected \"host:port\""),
        (":8000", ":80000", "server: expected"),
        ("fl.example.org", "https://fl.example.org", "server: expected"),
        ("fl.example.org", "2001:db8::1", "server: expected"),
        ('data = "data"', "data = 7", r"data: expected a path \(got 7\)"),
        ('data = "data"', 'data = ""', r"data: expected a path \(got ''\)"),
        ('data = "data"', "data =", "is not TOML"),
        ('data = "data"', 'data = "data"\nsecret = "yes"', r"secret: .*boolean.* \(got 'yes'\)"),
    ],
)
def test_a_fault_names_file_and_key(file, old, new, message):
    file.write_text(SILO.replace(old, new))
    with pytest.raises(InputError, match=message) as raised:
        SiloConfig.read(file)
    assert str(file) in str(raised.value)


@pytest.mark.parametrize("port", ["0", "65536", "8000.0", '"8000"', "true"])
def test_a_port_is_a_number_that_can_be_one(file, port):
    file.write_text(SERVER.replace("8001", port))
    with pytest.raises(InputError, match="port: expected"):
        ServerConfig.read(file)


def test_a_missing_file_is_named(file):
    with pytest.raises(InputError, match=r"cannot read .*config\.toml: No such file"):
        read_config(file)


@pytest.mark.parametrize("host", ["fl.example.org", "10.0.0.1", "::1"])
def test_addresses_go_to_and_fro(host):
    assert split_address(host_and_port(host, 8000)) == (host, 8000)


def test_loopback_is_told_from_the_rest():
    assert all(is_loopback(host) for host in ("localhost", "127.0.0.1", "127.8.8.8", "::1"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"))
