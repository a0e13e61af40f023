"""Requests to a server over TLS, as a silo would send them; none changes anything at the server.

Flower speaks protobuf over HTTP/1.1. The one message needed here is built by hand, because only
:mod:`feddep.runtime.flower` imports Flower.
"""

import json
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

TIMEOUT = 5.0  # seconds
HEALTH = "/health"
CONTROL = "/v1/control/get-login-details"  # asks how to log in: open to everybody and harmless
ACTIVATE = "/v1/fleet/activate-node"

_PROTOBUF = "application/protobuf"


class ProbeError(Exception):
    """The server cannot be reached or does not answer; the message says why."""


class DistrustError(ProbeError):
    """The server's certificate cannot be trusted.

    Attributes:
        code: OpenSSL's number for the reason.
    """

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class Server:
    """Where to connect, and the authority that must have signed the server's certificate."""

    host: str
    port: int
    ca: Path


@dataclass(frozen=True)
class Answer:
    """The server's response; ``date`` is its clock, to the second."""

    status: int
    date: datetime | None
    body: bytes

    @property
    def code(self) -> int | None:
        """The code of a Flower error, or None if the response is not one."""
        try:
            content = json.loads(self.body)
        except ValueError:
            return None
        code = content.get("code") if isinstance(content, dict) else None
        return code if isinstance(code, int) else None


def connect(server: Server) -> None:
    """Opens a connection and closes it.

    Raises:
        ProbeError: nobody listens there.
    """
    with _as_probe_error():
        socket.create_connection((server.host, server.port), TIMEOUT).close()


def served_certificate(server: Server) -> x509.Certificate:
    """The certificate that the server presents in a TLS handshake.

    Raises:
        DistrustError: the certificate is not signed by the authority, has expired, or does not
            cover the host.
        ProbeError: there was no handshake at all.
    """
    context = _context(server)
    with (
        _as_probe_error(),
        socket.create_connection((server.host, server.port), TIMEOUT) as plain,
        context.wrap_socket(plain, server_hostname=server.host) as secure,
    ):
        shown = secure.getpeercert(binary_form=True)
    if shown is None:
        raise ProbeError("the server presented no certificate")
    return x509.load_der_x509_certificate(shown)


def ask(
    server: Server,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Sends one request over TLS.

    Raises:
        ProbeError: there is no answer.
    """
    connection = HTTPSConnection(
        server.host, server.port, timeout=TIMEOUT, context=_context(server)
    )
    try:
        with _as_probe_error():
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, _date(response.getheader("Date")), response.read(65536))
    finally:
        connection.close()


def ask_control(server: Server) -> Answer:
    """Tries the control API, which a silo must not be able to reach."""
    return ask(server, "POST", CONTROL, b"", {"Content-Type": _PROTOBUF})


def ask_to_activate(server: Server, key: ec.EllipticCurvePrivateKey) -> Answer:
    """Signs in as a silo would, but so that the server refuses even a key that it knows.

    The heartbeat interval is left at 0, which no server accepts. The server looks up the key
    before it checks the interval, so its error says whether the key is registered.
    """
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    time = datetime.now(UTC).isoformat()
    signature = key.sign(time.encode(), ec.ECDSA(hashes.SHA256()))
    headers = {
        "Content-Type": _PROTOBUF,
        "flwr-public-key": b64encode(public).decode(),
        "flwr-timestamp": time,
        "flwr-signature": b64encode(signature).decode(),
    }
    return ask(server, "POST", ACTIVATE, b"\x0a" + _varint(len(public)) + public, headers)


def _context(server: Server) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=server.ca)
    except OSError as error:  # ssl raises it for a file without a certificate, too
        raise ProbeError(f"cannot load {server.ca}: {error}") from None


@contextmanager
def _as_probe_error() -> Iterator[None]:
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise DistrustError(error.verify_message, error.verify_code) from None
    except TimeoutError:
        raise ProbeError(f"no answer within {TIMEOUT:g} seconds") from None
    except OSError as error:
        raise ProbeError(error.strerror or str(error)) from None
    except HTTPException as error:
        raise ProbeError(f"the answer is not HTTP ({error!r})") from None


def _date(text: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(text) if text else None
    except ValueError:
        return None


def _varint(number: int) -> bytes:
    """A number as protobuf encodes it: seven bits a byte, the lowest first."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
