"""The doctor: what it finds on healthy and broken machines, and that it never raises."""

import json
import shutil
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from tls_server import listening, superlink

from feddep.deployment.operations import boundary_checks, certificates, checks, probes
from feddep.deployment.operations.certificates import (
    key_pem,
    load_private_openssh,
    new_key,
    public_openssh,
)
from feddep.deployment.operations.checks import Check
from feddep.deployment.operations.doctor import diagnose
from feddep.deployment.operations.kit import Kit, init, renew
from feddep.graph.folder import write_graph
from feddep.graph.graph import Part

KNOWN = (400, {}, json.dumps({"code": 2003}).encode())
UNKNOWN = (412, {}, json.dumps({"code": 2004}).encode())


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def kit(tmp_path: Path, port: int, small_graph) -> Kit:
    kit = init(tmp_path / "kit", hosts=["localhost"], silos=["a", "b"], port=port, proxy=False)
    write_graph(small_graph, kit.silos["a"] / "data")
    return kit


def findings(folder: Path) -> dict[str, Check]:
    file = "server.toml" if (folder / "server.toml").exists() else "silo.toml"
    found = diagnose(folder / file)
    names = [check.name for check in found]
    assert len(names) == len(set(names))
    for check in found:
        assert check.found
        assert check.remedy or check.ok is not False
    return {check.name: check for check in found}


def faults(folder: Path) -> set[str]:
    return {name for name, check in findings(folder).items() if check.ok is False}


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.fixture(autouse=True)
def not_root(monkeypatch):
    """Root is told to run Flower's programs as somebody else; see test_boundary_checks."""
    monkeypatch.setattr(boundary_checks.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(boundary_checks, "version", lambda: 7)


class Script:
    """A server behind its proxy, with one thing wrong if told so."""

    def __init__(self, own: bytes = b"", **wrong: Any) -> None:
        self.own, self.wrong = own, wrong
        self.paths: list[str] = []

    def __call__(self, method: str, path: str, body: bytes) -> Any:
        self.paths.append(path)
        if path == "/health":
            return 200, self.wrong.get("health", {}), b""
        if path == "/v1/fleet/activate-node":
            return self.wrong.get("activate", KNOWN if self.own in body else UNKNOWN)
        return self.wrong.get("control", 403), {}, b""


def public_pem(kit: Kit, name: str = "a") -> bytes:
    key = load_private_openssh((kit.silos[name] / f"{name}.key").read_bytes())
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


class TestSilo:
    def test_all_is_well(self, kit, port):
        script = Script(public_pem(kit))
        with listening(kit.server, script, port):
            found = findings(kit.silos["a"])
        assert {check.ok for check in found.values()} == {True}, found
        assert found["registration"].found == "the server knows this key"
        assert "120 nodes" in found["data"].found
        assert set(script.paths) == {
            "/health",
            "/v1/fleet/activate-node",
            "/v1/control/get-login-details",
        }

    def test_without_the_server_the_rest_is_still_checked(self, kit):
        found = findings(kit.silos["a"])
        assert found["port"].ok is False
        assert "Connection refused" in found["port"].found
        online = ("certificate chain", "clock", "registration", "control API")
        assert [found[name].ok for name in online] == [None] * 4
        assert all(found[name].ok for name in ("key", "consent", "data", "disk", "secret files"))

    def test_an_unknown_host(self, kit):
        change(kit.silos["a"] / "silo.toml", "localhost:", "nowhere.invalid:")
        assert findings(kit.silos["a"])["port"].ok is False

    @pytest.mark.parametrize(
        ("wrong", "name", "ok", "says"),
        [
            ({"control": 200}, "control API", False, "nginx.conf"),
            ({"control": 404}, "control API", True, ""),
            ({"control": 502}, "control API", None, ""),
            ({"activate": UNKNOWN}, "registration", False, "a.pub"),
            ({"activate": KNOWN}, "registration", None, ""),  # it says so of any key
            ({"activate": (401, {}, b"{}")}, "registration", False, "clock"),
            ({"activate": (502, {}, b"<html>")}, "registration", None, ""),
            ({"health": {"Date": "yesterday"}}, "clock", None, ""),
        ],
    )
    def test_what_the_server_s_answers_mean(self, kit, port, wrong, name, ok, says):
        with listening(kit.server, Script(public_pem(kit), **wrong), port):
            check = findings(kit.silos["a"])[name]
        assert check.ok is ok
        assert says in check.remedy

    @pytest.mark.parametrize(
        ("ahead", "ok"), [(-100, False), (-20, True), (0, True), (2, True), (10, False)]
    )
    def test_clocks_that_differ(self, kit, port, ahead, ok):
        server = datetime.now(UTC) - timedelta(seconds=ahead)
        script = Script(health={"Date": format_datetime(server, usegmt=True)})
        with listening(kit.server, script, port):
            check = findings(kit.silos["a"])["clock"]
        assert check.ok is ok
        assert ("NTP" in check.remedy) is not ok

    def test_a_server_of_another_kit_is_not_trusted(self, kit, port, tmp_path):
        other = init(tmp_path / "other", hosts=["localhost"], silos=["a"])
        script = Script()
        with listening(other.server, script, port):
            found = findings(kit.silos["a"])
        assert found["certificate chain"].ok is False
        assert "from another kit" in found["certificate chain"].remedy
        assert found["registration"].ok is None
        assert script.paths == []  # nothing is said to a stranger

    def test_a_host_that_the_certificate_is_not_for(self, kit, port):
        change(kit.silos["a"] / "silo.toml", "localhost:", "127.0.0.2:")
        with listening(kit.server, Script(), port, host="127.0.0.2"):
            check = findings(kit.silos["a"])["certificate chain"]
        assert check.ok is False
        assert "--host 127.0.0.2" in check.remedy

    @pytest.mark.parametrize(
        ("hours", "found", "remedy"),
        [(-0.5, "expired", "feddep deploy renew"), (None, "not yet valid", "clock")],
    )
    def test_a_certificate_of_another_time(self, kit, port, monkeypatch, hours, found, remedy):
        if hours is None:
            monkeypatch.setattr(certificates, "_LEEWAY", timedelta(hours=-1))
        else:
            until = datetime.now(UTC) + timedelta(hours=hours)
            monkeypatch.setattr(certificates, "_in_days", lambda _: until)
        renew(kit.folder)
        with listening(kit.server, Script(), port):
            check = findings(kit.silos["a"])["certificate chain"]
        assert check.ok is False
        assert found in check.found
        assert remedy in check.remedy

    def test_a_certificate_that_ends_soon_is_a_warning(self, kit, port):
        renew(kit.folder, days=10)
        with listening(kit.server, Script(public_pem(kit)), port):
            check = findings(kit.silos["a"])["certificate chain"]
        assert check.ok
        assert "9 days left" in check.found
        assert "feddep deploy renew" in check.remedy

    def test_a_port_that_does_not_speak_tls(self, kit, port, monkeypatch):
        monkeypatch.setattr(probes, "TIMEOUT", 0.3)
        with socket.create_server(("127.0.0.1", port)):
            found = findings(kit.silos["a"])
        assert found["port"].ok
        assert found["certificate chain"].ok is False
        assert found["clock"].ok is None

    def test_a_missing_authority(self, kit, port):
        (kit.silos["a"] / "ca.crt").unlink()
        with listening(kit.server, Script(), port):
            assert {"certificate chain", "authority expiry"} <= faults(kit.silos["a"])

    @pytest.mark.parametrize(
        "content",
        [
            b"nothing of the kind",
            key_pem(new_key()),  # PEM, but not OpenSSH's
            *(
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.OpenSSH,
                    encryption,
                )
                for key, encryption in (
                    (ec.generate_private_key(ec.SECP256R1()), serialization.NoEncryption()),
                    (ed25519.Ed25519PrivateKey.generate(), serialization.NoEncryption()),
                )
            ),
        ],
    )
    def test_a_key_that_flower_would_not_take(self, kit, content):
        (kit.silos["a"] / "a.key").write_bytes(content)
        assert "key" in faults(kit.silos["a"])

    def test_files_that_others_can_read(self, kit):
        (kit.silos["a"] / "a.key").chmod(0o640)
        check = findings(kit.silos["a"])["secret files"]
        assert check.ok is False
        assert "has mode 640" in check.found
        assert "chmod go=" in check.remedy

    def test_data_that_is_missing_or_damaged(self, kit, small_graph):
        folder = kit.silos["a"] / "data"
        with (folder / "edges.csv").open("a") as file:
            file.write("1,2\n")
        assert "SHA-256" in findings(kit.silos["a"])["data"].found
        shutil.rmtree(folder)
        assert "data" in faults(kit.silos["a"])

    def test_data_without_training_nodes_is_a_warning(self, kit, small_graph):
        idle = small_graph.with_split([Part.TEST] * small_graph.nodes)
        write_graph(idle, kit.silos["a"] / "data", overwrite=True)
        check = findings(kit.silos["a"])["data"]
        assert check.ok
        assert "weight 0" in check.remedy

    def test_a_consent_that_is_none(self, kit):
        change(kit.silos["a"] / "consent.toml", "rounds = 100", "rounds = -1")
        assert "rounds" in findings(kit.silos["a"])["consent"].found

    def test_a_full_disk(self, kit, monkeypatch):
        monkeypatch.setattr(checks, "ROOM", 10**18)
        assert "disk" in faults(kit.silos["a"])

    def test_a_folder_that_cannot_be_entered(self, kit, monkeypatch):
        def closed(_: Path) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(checks, "disk", closed)
        check = findings(kit.silos["a"])["disk"]
        assert check.ok is None
        assert "as the user that runs feddep" in check.remedy


class TestServer:
    def test_all_is_well_before_it_starts(self, kit):
        found = findings(kit.server)
        assert {check.ok for check in found.values()} == {True}, found
        assert found["port"].found.endswith("is free")
        assert found["silo keys"].found == "a, b"

    def test_and_while_it_runs(self, kit, port):
        with listening(kit.server, Script(), port):
            check = findings(kit.server)["port"]
        assert check.ok
        assert "our server runs" in check.found

    def test_a_renewed_certificate_asks_for_a_restart(self, kit, port):
        with listening(kit.server, Script(), port):
            renew(kit.folder)
            check = findings(kit.server)["port"]
        assert check.ok is False
        assert "restart" in check.remedy

    def test_another_program_on_the_port(self, kit, port, tmp_path):
        other = init(tmp_path / "other", hosts=["localhost"], silos=["a"])
        with listening(other.server, Script(), port):
            check = findings(kit.server)["port"]
        assert check.ok is False
        assert "another program" in check.found

    def test_an_address_that_is_not_this_machine_s(self, kit):
        change(kit.server / "server.toml", 'host = "127.0.0.1"', 'host = "192.0.2.1"')
        assert {"port", "certificate chain", "control API"} <= faults(kit.server)

    def test_listening_to_everybody_shows_the_control_api(self, kit):
        change(kit.server / "server.toml", 'host = "127.0.0.1"', 'host = "0.0.0.0"')
        check = findings(kit.server)["control API"]
        assert check.ok is False
        assert "nginx.conf" in check.remedy

    @pytest.mark.parametrize("file", ["server.pem", "server.key", "ca.crt"])
    def test_files_of_different_kits(self, kit, tmp_path, file):
        other = init(tmp_path / "other", hosts=["localhost"], silos=["a"])
        shutil.copy(other.server / file, kit.server / file)
        assert "certificate chain" in faults(kit.server)

    @pytest.mark.parametrize("file", ["server.pem", "server.key", "ca.crt"])
    def test_files_that_are_missing_or_garbage(self, kit, file):
        (kit.server / file).write_text("garbage")
        assert "certificate chain" in faults(kit.server)
        (kit.server / file).unlink()
        assert "certificate chain" in faults(kit.server)

    @pytest.mark.parametrize(
        ("days", "ok", "found"),
        [(80, True, "9 days left"), (91, False, "expired on"), (-2, False, "valid only from")],
    )
    def test_the_certificate_s_time(self, kit, monkeypatch, days, ok, found):
        class Shifted(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.now(tz) + timedelta(days=days)

        renew(kit.folder, days=90)
        monkeypatch.setattr(checks, "datetime", Shifted)
        check = findings(kit.server)["certificate expiry"]
        assert check.ok is ok
        assert found in check.found
        assert check.remedy

    def test_silo_keys_that_are_broken_double_or_missing(self, kit):
        folder = kit.server / "silos"
        shutil.copy(folder / "a.pub", folder / "c.pub")
        assert "a and c have the same key" in findings(kit.server)["silo keys"].found
        (folder / "c.pub").write_text("ssh-rsa AAAA")
        assert "c.pub" in findings(kit.server)["silo keys"].found
        small = ec.generate_private_key(ec.SECP256R1()).public_key()
        (folder / "c.pub").write_bytes(public_openssh(small, "c"))
        assert "secp256r1" in findings(kit.server)["silo keys"].found
        shutil.rmtree(folder)
        assert "silo keys" in faults(kit.server)


class TestVersions:
    def test_the_installed_ones_fit(self):
        assert all(check.ok for check in checks.versions() if check.name != "flwr version")

    @pytest.mark.parametrize(
        ("version", "ok"),
        [("1.39.2", False), ("1.40.0", True), ("1.40", True), ("1.99.1", True), ("2.0.0", False)],
    )
    def test_flower_is_held_to_the_range(self, monkeypatch, version, ok):
        monkeypatch.setattr(metadata, "version", lambda name: version)
        check = checks.package_check("flwr", "<2,>=1.40")
        assert check.ok is ok
        assert ("install flwr" in check.remedy) is not ok

    def test_a_local_part_does_not_count(self):
        assert checks.version_check("torch", "2.13.0+cpu", "==2.13.0").ok
        assert not checks.version_check("torch", "2.12.0+cpu", "==2.13.0").ok

    def test_what_is_missing_is_said(self, monkeypatch):
        def absent(name: str) -> str:
            raise metadata.PackageNotFoundError(name)

        monkeypatch.setattr(metadata, "version", absent)
        monkeypatch.setattr(metadata, "metadata", absent)
        found = {check.name: check for check in checks.versions()}
        assert found["python version"].ok
        assert found["flwr version"].ok is False
        assert "feddep[flower]" in found["flwr version"].remedy


def test_a_configuration_that_cannot_be_read_ends_the_diagnosis(tmp_path):
    *versions, last = diagnose(tmp_path / "silo.toml")
    assert len(versions) == 4
    assert (last.name, last.ok) == ("configuration", False)


class TestFlower:
    """Against Flower's own SuperLink application: do its answers mean what the doctor says?"""

    def test_registered_unregistered_and_open_control_api(self, kit, port, monkeypatch):
        pytest.importorskip("flwr", reason="Flower comes with the extra [flower]")
        monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
        with superlink(kit.server, port, registered=[public_pem(kit)]):
            known, unknown = findings(kit.silos["a"]), findings(kit.silos["b"])
            running = findings(kit.server)["port"]
        assert known["registration"].ok
        assert unknown["registration"].ok is False
        assert known["clock"].ok
        assert known["certificate chain"].ok
        assert known["control API"].ok is False
        assert running.ok
