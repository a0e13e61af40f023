"""The kit's nginx.conf, for real: the fleet API goes through, everything else is refused."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path, PurePosixPath
from shutil import which
from ssl import create_default_context

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tls_server import listening, superlink

from feddep.deployment.operations.certificates import load_private_openssh
from feddep.deployment.operations.doctor import diagnose
from feddep.deployment.operations.kit import Kit, init

NGINX = which("nginx") or which("nginx", path="/usr/sbin:/usr/local/sbin")

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")

MAIN = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {kit}/server/nginx.conf;
}}
"""


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    folder = tmp_path / "kit"
    return init(
        folder,
        hosts=["localhost"],
        silos=["a"],
        port=two_free_ports(),
        home=PurePosixPath(folder),
    )


@pytest.fixture
def main_conf(kit: Kit, tmp_path: Path) -> Path:
    path = tmp_path / "main.conf"
    path.write_text(MAIN.format(folder=tmp_path, kit=kit.folder))
    return path


def two_free_ports() -> int:
    """A port that is free, as is the one above it."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as one, socket.socket() as other:
            port = int(one.getsockname()[1])
            try:
                other.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


def port_of(kit: Kit) -> int:
    return int(kit.address.rpartition(":")[2])


@contextmanager
def proxy(conf: Path, port: int) -> Iterator[None]:
    assert NGINX
    errors = conf.with_name("start.log")
    process = subprocess.Popen([NGINX, "-c", str(conf), "-e", str(errors)])
    try:
        for _ in range(200):
            assert process.poll() is None, errors.read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


def ask(kit: Kit, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    context = create_default_context(cafile=kit.server / "ca.crt")
    connection = HTTPSConnection("localhost", port_of(kit), timeout=10, context=context)
    connection.request(method, path, body)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_nginx_accepts_the_configuration(main_conf):
    assert NGINX
    errors = main_conf.with_name("test.log")
    command = [NGINX, "-t", "-c", str(main_conf), "-e", str(errors)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_only_fleet_and_health_reach_the_server(kit, main_conf, tmp_path):
    seen: list[tuple[str, str, int]] = []

    def upstream(method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        seen.append((method, path, len(body)))
        return 200, {}, b"from the server"

    closed = [
        ("POST", "/v1/control/start-run"),
        ("POST", "/v1/control/register-node"),
        ("POST", "/v1/runtime/acquire-task"),
        ("POST", "/v1/fleet/../control/start-run"),
        ("POST", "/v1/fleet/%2e%2e/control/start-run"),
        ("POST", "/v1/fleet/..%2fcontrol/start-run"),
        ("POST", "//v1/control/start-run"),
        ("POST", "/v1/fleet/pull-messages/"),
        ("POST", "/v1/fleet/"),
        ("GET", "/v1/fleet/pull-messages"),
        ("POST", "/health"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/"),
    ]
    with listening(kit.server, upstream, port_of(kit) + 1), proxy(main_conf, port_of(kit)):
        for method, path in closed:
            assert ask(kit, method, path)[0] == 403, path
        assert seen == []
        assert ask(kit, "GET", "/health") == (200, b"from the server")
        chunk = bytes(6 << 20)  # more than one piece of an array
        assert ask(kit, "POST", "/v1/fleet/push-object", chunk) == (200, b"from the server")
        ask(kit, "POST", "/v1/control/..%2ffleet/pull-messages?x=1", b"")
    assert seen == [
        ("GET", "/health", 0),
        ("POST", "/v1/fleet/push-object", len(chunk)),
        ("POST", "/v1/fleet/pull-messages", 0),  # as it was matched, not as it was sent
    ]
    left = [path for name in ("body", "proxy") for path in (tmp_path / name).rglob("*")]
    assert [path for path in left if path.is_file()] == []


def test_a_server_of_another_kit_is_not_passed_on(kit, main_conf, tmp_path):
    other = init(tmp_path / "other", hosts=["localhost"], silos=["a"])
    with (
        listening(other.server, lambda *_: (200, {}, b""), port_of(kit) + 1),
        proxy(main_conf, port_of(kit)),
    ):
        assert ask(kit, "GET", "/health")[0] == 502


def test_the_doctor_is_content_with_flower_behind_it(kit, main_conf, monkeypatch):
    pytest.importorskip("flwr", reason="Flower comes with the extra [flower]")
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    silo = kit.silos["a"]
    key = load_private_openssh((silo / "a.key").read_bytes()).public_key()
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with (
        superlink(kit.server, port_of(kit) + 1, registered=[pem]),
        proxy(main_conf, port_of(kit)),
    ):
        found = {check.name: check.ok for check in diagnose(silo / "silo.toml")}
    for name in ("data", "separation"):  # there are no data here, and no users of a silo
        assert found.pop(name) is not True
    assert set(found.values()) == {True}, found
