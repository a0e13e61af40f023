"""The deployment kit: what is written, for whom, how secret, and all of it or nothing."""

import configparser
import os
import shutil
import ssl
import stat
import subprocess
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from shutil import rmtree, which

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from cryptography.x509.verification import PolicyBuilder, Store

from feddep.deployment.operations import kit as kits
from feddep.deployment.operations.certificates import hosts_of, load_certificate
from feddep.deployment.operations.config import NodeConfig, ServerConfig, SiloConfig
from feddep.deployment.operations.kit import Kit, add_silo, init, read_kit, renew
from feddep.deployment.protocol.consent import Consent
from feddep.errors import InputError

HOSTS = ["fl.example.org", "10.1.2.3"]


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return init(tmp_path / "kit", hosts=HOSTS, silos=["bank-a", "bank-b"], days=90)


def every_file(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestInit:
    def test_says_what_was_made(self, kit, tmp_path):
        assert kit.address == "fl.example.org:8000"
        assert kit.hosts == ("fl.example.org", "localhost", "10.1.2.3", "127.0.0.1")
        assert kit.silos == {name: tmp_path / "kit/silos" / name for name in ("bank-a", "bank-b")}
        assert timedelta(days=89) < kit.until - datetime.now(UTC) <= timedelta(days=90)
        assert read_kit(kit.folder) == kit

    def test_every_party_has_its_files_and_no_others(self, kit):
        found = {str(path.relative_to(kit.folder)) for path in every_file(kit.folder)}
        server = "ca.crt feddep-server.service nginx.conf server.key server.pem server.toml"
        silo = "ca.crt consent.toml feddep-silo.service feddep-node.service node.toml silo.toml "
        silo += "link_keys.json"
        assert found == {
            "kit.toml",
            "link_keys.json",
            "ca/ca.crt",
            "ca/ca.key",
            *(f"server/{name}" for name in server.split()),
            *(f"server/silos/{name}.pub" for name in kit.silos),
            *(f"silos/{name}/{file}" for name in kit.silos for file in silo.split()),
            *(f"silos/{name}/{name}{key}" for name in kit.silos for key in (".key", ".link.key")),
        }

    def test_secrets_are_their_owner_s_alone(self, tmp_path):
        before = os.umask(0)
        try:
            kit = init(tmp_path / "kit", hosts=HOSTS, silos=["a"])
        finally:
            os.umask(before)
        for path in (kit.folder, *kit.folder.rglob("*")):
            mode = stat.S_IMODE(path.stat().st_mode)
            if path.is_dir():
                assert mode == 0o700, path
            else:
                assert mode == (0o600 if path.suffix == ".key" else 0o644), path

    def test_private_keys_stand_where_they_belong_and_nowhere_else(self, kit):
        holders = {
            str(path.relative_to(kit.folder))
            for path, content in every_file(kit.folder).items()
            if b"PRIVATE KEY" in content
        }
        assert holders == {
            "ca/ca.key",
            "server/server.key",
            "silos/bank-a/bank-a.key",
            "silos/bank-a/bank-a.link.key",
            "silos/bank-b/bank-b.key",
            "silos/bank-b/bank-b.link.key",
        }

    def test_an_ipv6_address_stands_in_brackets(self, tmp_path):
        kit = init(tmp_path / "kit", hosts=["2001:db8::1"], silos=["a"], port=9000)
        assert kit.address == "[2001:db8::1]:9000"
        silo = SiloConfig.read(kit.silos["a"] / "silo.toml")
        assert (silo.host, silo.port) == ("2001:db8::1", 9000)
        assert "    listen [::]:9000 ssl;" in (kit.server / "nginx.conf").read_text()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"hosts": []}, "at least one name or address"),
            ({"hosts": ["https://fl.example.org"]}, "host: expected an IP address or a DNS name"),
            ({"hosts": ["fl.example.org:8000"]}, "without scheme and port"),
            ({"hosts": ["10.0.0.256"]}, "10.0.0.256"),
            ({"silos": []}, "silo: expected at least one name"),
            ({"silos": ["../evil"]}, "silo: expected 1 to 32 letters"),
            ({"silos": ["a" * 33]}, "1 to 32 letters"),
            ({"silos": ["Bank", "bank"]}, "there is already a silo named 'bank'"),
            ({"port": 0}, "port"),
            ({"port": 65535}, "port"),
            ({"days": 0}, "days"),
            ({"home": PurePosixPath("feddep")}, "absolute path"),
            ({"home": PurePosixPath("/opt/fed dep")}, "home: expected an absolute path of letters"),
        ],
    )
    def test_what_cannot_be_used_is_refused_and_nothing_is_written(self, tmp_path, change, message):
        with pytest.raises(InputError, match=message):
            init(tmp_path / "kit", **({"hosts": HOSTS, "silos": ["a"]} | change))
        assert list(tmp_path.iterdir()) == []

    def test_an_existing_kit_is_left_alone(self, kit):
        before = every_file(kit.folder)
        with pytest.raises(InputError, match="already exists and is not overwritten"):
            init(kit.folder, hosts=HOSTS, silos=["a"])
        assert every_file(kit.folder) == before

    def test_an_empty_folder_can_be_used_and_a_file_cannot(self, tmp_path):
        (tmp_path / "empty").mkdir()
        assert init(tmp_path / "empty", hosts=HOSTS, silos=["a"]).silos
        (tmp_path / "file").touch()
        with pytest.raises(InputError, match="already exists"):
            init(tmp_path / "file", hosts=HOSTS, silos=["a"])

    def test_a_failure_half_way_leaves_nothing(self, tmp_path, monkeypatch):
        written = []

        def full_disk(path: Path, *_: object) -> None:
            written.append(path)
            if path.name == "consent.toml":
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(kits, "_write", full_disk)
        monkeypatch.setattr(Path, "read_bytes", lambda _: b"")
        with pytest.raises(InputError, match="No space left on device; nothing was changed"):
            init(tmp_path / "kit", hosts=HOSTS, silos=["a"])
        assert written
        assert list(tmp_path.iterdir()) == []


class TestCertificates:
    @pytest.mark.parametrize("host", ["fl.example.org", "localhost", "10.1.2.3", "127.0.0.1"])
    def test_a_strict_verifier_trusts_the_server_under_all_names(self, kit, host):
        ca = load_certificate(kit.server / "ca.crt")
        server = load_certificate(kit.server / "server.pem")
        subject = hosts_of(server).index(host)
        names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        verifier = PolicyBuilder().store(Store([ca])).build_server_verifier(list(names)[subject])
        assert len(verifier.verify(server, [])) == 2

    @pytest.mark.skipif(which("openssl") is None, reason="there is no openssl to ask")
    def test_openssl_agrees(self, kit):
        command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver"]
        files = ["-CAfile", str(kit.server / "ca.crt"), str(kit.server / "server.pem")]
        hosts = ["-verify_hostname", "fl.example.org"]
        done = subprocess.run([*command, *hosts, *files], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def test_the_server_can_load_them_with_its_own_key_only(self, kit):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(kit.server / "server.pem", kit.server / "server.key")
        with pytest.raises(ssl.SSLError, match="KEY_VALUES_MISMATCH"):
            context.load_cert_chain(kit.server / "server.pem", kit.folder / "ca" / "ca.key")

    def test_everybody_has_the_same_authority(self, kit):
        folders = [kit.folder / "ca", kit.server, *kit.silos.values()]
        assert len({(folder / "ca.crt").read_bytes() for folder in folders}) == 1

    def test_silo_keys_are_what_flower_reads(self, kit):
        numbers = set()
        for name, folder in kit.silos.items():
            private = load_ssh_private_key((folder / f"{name}.key").read_bytes(), None)
            public = load_ssh_public_key((kit.server / "silos" / f"{name}.pub").read_bytes())
            assert isinstance(private, ec.EllipticCurvePrivateKey)
            assert isinstance(private.curve, ec.SECP384R1)
            assert private.public_key() == public
            numbers.add(private.public_key().public_numbers())
        assert len(numbers) == len(kit.silos)


class TestFiles:
    def test_the_server_listens_behind_the_proxy(self, kit):
        config = ServerConfig.read(kit.server / "server.toml")
        assert (config.host, config.port) == ("127.0.0.1", 8001)
        assert config.certificate == kit.server.resolve() / "server.pem"
        assert config.state.is_dir()
        proxy = (kit.server / "nginx.conf").read_text()
        assert "listen 8000 ssl;" in proxy
        assert "server 127.0.0.1:8001;" in proxy
        assert "ssl_certificate /opt/feddep/server/server.pem;" in proxy

    @pytest.mark.parametrize(("hosts", "host"), [(HOSTS, "0.0.0.0"), (["localhost"], "127.0.0.1")])
    def test_without_a_proxy_it_listens_itself(self, tmp_path, hosts, host):
        kit = init(tmp_path / "kit", hosts=hosts, silos=["a"], port=9000, proxy=False)
        config = ServerConfig.read(kit.server / "server.toml")
        assert (config.host, config.port) == (host, 9000)
        assert not (kit.server / "nginx.conf").exists()

    def test_a_silo_s_files_fit_together(self, kit):
        folder = kit.silos["bank-a"].resolve()
        config = SiloConfig.read(folder / "silo.toml")
        assert config.name == "bank-a"
        assert config.server == kit.address
        assert config.key == folder / "bank-a.key"
        assert config.secret
        assert all(path.exists() for path in (config.ca, config.key, config.state, config.consent))

    def test_the_consent_is_one(self, kit):
        consent = Consent.read(kit.silos["bank-a"] / "consent.toml")
        assert consent.methods == {"feddep", "fedavg"}
        assert consent.messages == {"classifier", "prototypes"}
        assert (consent.rounds, consent.smallest_cluster) == (100, 5)
        assert consent.highest_epsilon == "unbounded"

    @pytest.mark.parametrize(
        ("unit", "folder", "command"),
        [
            ("server/feddep-server.service", "/srv/fed/server", "server"),
            ("silos/a/feddep-silo.service", "/srv/fed/silos/a", "silo"),
        ],
    )
    def test_units_start_feddep_and_close_it_in(self, tmp_path, unit, folder, command):
        home = PurePosixPath("/srv/fed")
        kit = init(tmp_path / "kit", hosts=HOSTS, silos=["a"], home=home)
        text = (kit.folder / unit).read_text()
        parser = configparser.RawConfigParser(strict=False, interpolation=None)
        parser.optionxform = str
        parser.read_string(text)
        service = dict(parser["Service"])
        assert service["User"] == {"server": "feddep", "silo": "feddep-silo"}[command]
        run = f"/srv/fed/venv/bin/feddep {command} {folder}/{command}.toml"
        assert service["ExecStart"] == run
        assert service["Restart"] == "on-failure"
        assert service["NoNewPrivileges"] == "yes"
        assert service["ProtectSystem"] == "strict"
        assert service["ReadWritePaths"] == f"{folder}/state"
        for setting in (
            "FLWR_TELEMETRY_ENABLED=0",
            "FLWR_DISABLE_UPDATE_CHECK=1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1",
        ):
            assert f"Environment={setting}\n" in text

    def test_flower_s_user_gets_the_key_and_not_the_folder(self, tmp_path):
        kit = init(tmp_path / "kit", hosts=HOSTS, silos=["a"], home=PurePosixPath("/srv/fed"))
        folder = kit.silos["a"]
        silo, node = (SiloConfig.read(folder / "silo.toml"), NodeConfig.read(folder / "node.toml"))
        unit = (folder / "feddep-node.service").read_text().splitlines()
        assert f"User={silo.node_user}" in unit
        assert "InaccessiblePaths=/srv/fed/silos/a" in unit
        handed = [line for line in unit if line.startswith("LoadCredential=")]
        assert handed == [
            f"LoadCredential={name}:/srv/fed/silos/a/{name}"
            for name in ("node.toml", "ca.crt", "a.key")
        ]
        assert (node.ca, node.key) == (silo.ca, silo.key), "they stand beside node.toml"
        assert (node.socket, node.server) == (silo.socket, silo.server)
        own = (folder / "feddep-silo.service").read_text().splitlines()
        assert {"PrivateNetwork=yes", "RestrictAddressFamilies=AF_UNIX"} <= {*own}

    def test_a_trial_has_one_user(self, tmp_path):
        kit = init(tmp_path / "kit", hosts=["localhost"], silos=["a"], proxy=False)
        for own in (kit, add_silo(kit.folder, "b")):
            for folder in own.silos.values():
                assert SiloConfig.read(folder / "silo.toml").node_user is None
                assert not list(folder.glob("*node*")) + list(folder.glob("*.service"))

    @pytest.mark.skipif(which("systemd-analyze") is None, reason="there is no systemd to ask")
    def test_systemd_understands_the_units(self, tmp_path):
        home = tmp_path / "home"
        (home / "venv/bin").mkdir(parents=True)
        (home / "venv/bin/feddep").touch(0o755)
        kit = init(tmp_path / "kit", hosts=HOSTS, silos=["a"], home=PurePosixPath(home))
        own = kit.silos["a"]
        units = [own / "feddep-silo.service", own / "feddep-node.service"]
        units.append(kit.server / "feddep-server.service")
        command = ["systemd-analyze", "verify", "--man=no", *map(str, units)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert not [line for line in done.stderr.splitlines() if "feddep" in line]


class TestAddSilo:
    def test_adds_one_and_leaves_the_rest(self, kit):
        before = every_file(kit.folder)
        after = add_silo(kit.folder, "bank-c")
        assert list(after.silos) == ["bank-a", "bank-b", "bank-c"]
        lists = {path for path in before if path.name == "link_keys.json"}  # bank-c is on them now
        assert len(lists) == 3
        same = {path: content for path, content in before.items() if path not in lists}
        assert same.items() <= every_file(kit.folder).items()
        config = SiloConfig.read(after.silos["bank-c"] / "silo.toml")
        assert config.server == kit.address
        private = load_ssh_private_key(config.key.read_bytes(), None)
        public = load_ssh_public_key((kit.server / "silos/bank-c.pub").read_bytes())
        assert private.public_key() == public
        assert stat.S_IMODE(config.key.stat().st_mode) == 0o600

    def test_works_when_the_silos_folders_are_given_away(self, kit):
        shutil.rmtree(kit.folder / "silos")
        assert list(add_silo(kit.folder, "bank-c").silos) == ["bank-c"]
        with pytest.raises(InputError, match="bank-a"):
            add_silo(kit.folder, "bank-a")

    @pytest.mark.parametrize("change", [lambda kit: add_silo(kit, "bank-c"), renew])
    def test_without_the_server_s_folder_it_says_what_is_missing(self, kit, change):
        shutil.rmtree(kit.server)
        with pytest.raises(InputError, match="no longer has the folder server/, which this needs"):
            change(kit.folder)

    def test_works_while_the_authority_is_locked_away(self, kit):
        rmtree(kit.folder / "ca")
        assert "bank-c" in add_silo(kit.folder, "bank-c").silos

    @pytest.mark.parametrize("gone", ["silos/bank-a", None])
    def test_a_name_is_given_once_even_if_its_folder_was_handed_over(self, kit, gone):
        if gone:
            rmtree(kit.folder / gone)
        with pytest.raises(InputError, match="there is already a silo named 'Bank-A'"):
            add_silo(kit.folder, "Bank-A")

    def test_a_failure_leaves_nothing(self, kit, monkeypatch):
        before = every_file(kit.folder)

        def failing(path: Path, content: bytes | str, *_: object) -> None:
            if path.suffix == ".pub":
                raise OSError(28, "No space left on device")
            path.write_bytes(content.encode() if isinstance(content, str) else content)

        monkeypatch.setattr(kits, "_write", failing)
        with pytest.raises(InputError, match="No space left"):
            add_silo(kit.folder, "bank-c")
        assert every_file(kit.folder) == before
        assert not (kit.folder / "silos/bank-c").exists()

    def test_another_folder_is_no_kit(self, tmp_path):
        with pytest.raises(InputError, match="is not a kit"):
            add_silo(tmp_path, "a")


class TestRenew:
    def test_only_the_certificate_changes(self, kit):
        before = every_file(kit.folder)
        done = renew(kit.folder, days=400)
        changed = {
            path for path, content in every_file(kit.folder).items() if content != before[path]
        }
        assert changed == {done.certificate} == {kit.server / "server.pem"}
        assert done.before == kit.until < done.until
        assert done.hosts == kit.hosts
        certificate = load_certificate(done.certificate)
        certificate.verify_directly_issued_by(load_certificate(kit.server / "ca.crt"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(done.certificate, kit.server / "server.key")

    def test_hosts_can_change_but_not_the_one_that_silos_use(self, kit):
        done = renew(kit.folder, hosts=["new.example.org", "fl.example.org"])
        assert "new.example.org" in hosts_of(load_certificate(done.certificate))
        with pytest.raises(InputError, match=r"silos connect to fl\.example\.org:8000"):
            renew(kit.folder, hosts=["new.example.org"])

    def test_never_beyond_the_authority(self, kit):
        done = renew(kit.folder, days=3650)
        assert done.until <= load_certificate(kit.server / "ca.crt").not_valid_after_utc

    def test_without_the_authority_s_key_it_says_what_is_missing(self, kit):
        (kit.folder / "ca/ca.key").unlink()
        with pytest.raises(InputError, match=r"cannot read .*ca\.key"):
            renew(kit.folder)

    def test_an_expired_authority_needs_a_new_kit(self, kit, monkeypatch):
        class Later(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.now(tz) + timedelta(days=4000)

        monkeypatch.setattr(kits, "datetime", Later)
        with pytest.raises(InputError, match=r"the authority .* expired on .*; write a new kit"):
            renew(kit.folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('home = "/opt/feddep"', "the key 'address' is missing"),
        ('address = "nowhere"\nhome = "/opt/feddep"', "host:port"),
        ("address =", "expected TOML"),
    ],
)
def test_a_damaged_kit_file_is_named(kit, content, message):
    (kit.folder / "kit.toml").write_text(content)
    with pytest.raises(InputError, match=message):
        read_kit(kit.folder)


def test_the_kit_file_is_toml(kit):
    found = tomllib.loads((kit.folder / "kit.toml").read_text())
    assert found == {"address": kit.address, "home": "/opt/feddep", "node_user": True}
