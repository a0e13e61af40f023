"""Questions to a server over TLS, as a silo would ask them; none of them changes anything there.

Flower speaks protobuf over HTTP/1.1. The one message that is needed here is put together by hand,
because Flower itself is imported in its own runtime only.
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

PATIENCE = 5.0  # seconds
HEALTH = "/health"
CONTROL = "/v1/control/get-login-details"  # asks how to log in: open to everybody, and harmless
ACTIVATE = "/v1/fleet/activate-node"

_PROTOBUF = "application/protobuf"


class ProbeError(Exception):
    """The server cannot be reached or does not answer; the text says why."""


class DistrustError(ProbeError):
    """The server's certificate is not to be trusted.

    Attributes:
        code: OpenSSL's number for the reason.
    """

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class Server:
    """Where to ask, and whose word counts for who answers."""

    host: str
    port: int
    ca: Path


@dataclass(frozen=True)
class Answer:
    """What came back; ``date`` is the server's clock, to the second."""

    status: int
    date: datetime | None
    body: bytes

    @property
    def code(self) -> int | None:
        """The number of a Flower error, if it is one."""
        try:
            content = json.loads(self.body)
        except ValueError:
            return None
        code = content.get("code") if isinstance(content, dict) else None
        return code if isinstance(code, int) else None


def connect(server: Server) -> None:
    """Opens a connection and closes it; a :class:`ProbeError` if there is nobody."""
    with _as_probe_error():
        socket.create_connection((server.host, server.port), PATIENCE).close()


def served_certificate(server: Server) -> x509.Certificate:
    """Shakes hands as a silo does and returns what the server showed.

    Raises:
        DistrustError: the certificate is not signed by the authority, has expired, or is for
            another host.
        ProbeError: there was no handshake at all.
    """
    context = _context(server)
    with (
        _as_probe_error(),
        socket.create_connection((server.host, server.port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=server.host) as secure,
    ):
        shown = secure.getpeercert(binary_form=True)
    if shown is None:
        raise ProbeError("the server showed no certificate")
    return x509.load_der_x509_certificate(shown)


def ask(
    server: Server,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """One request over TLS; a :class:`ProbeError` if there is no answer."""
    connection = HTTPSConnection(
        server.host, server.port, timeout=PATIENCE, context=_context(server)
    )
    try:
        with _as_probe_error():
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, _date(response.getheader("Date")), response.read(65536))
    finally:
        connection.close()


def ask_control(server: Server) -> Answer:
    """Knocks at the control API, which a silo must not reach."""
    return ask(server, "POST", CONTROL, b"", {"Content-Type": _PROTOBUF})


def ask_to_activate(server: Server, key: ec.EllipticCurvePrivateKey) -> Answer:
    """Signs in as a silo, but in a way that the server refuses even if it knows the key.

    The heartbeat interval is left at 0, which no server accepts. It looks up the key before it
    looks at the interval, so its error tells whether the key is registered, and nothing changes.
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
    except OSError as error:  # also what ssl says of a file without a certificate
        raise ProbeError(f"cannot load {server.ca}: {error}") from None


@contextmanager
def _as_probe_error() -> Iterator[None]:
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise DistrustError(error.verify_message, error.verify_code) from None
    except TimeoutError:
        raise ProbeError(f"no answer within {PATIENCE:g} seconds") from None
    except OSError as error:
        raise ProbeError(error.strerror or str(error)) from None
    except HTTPException as error:
        raise ProbeError(f"not an answer in HTTP ({error!r})") from None


def _date(text: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(text) if text else None
    except ValueError:
        return None


def _varint(number: int) -> bytes:
    """A length as protobuf writes it: seven bits a byte, the lowest first."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
