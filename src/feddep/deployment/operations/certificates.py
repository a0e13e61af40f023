"""Certificates and keys: one authority, one server certificate, one key pair for each silo.

Certificates have the extensions that strict verifiers require (RFC 5280: key identifiers, key
usage), as Python 3.13 and later do by default.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from feddep.deployment.operations.config import is_ip
from feddep.errors import InputError
from feddep.reading import plain_bytes

AUTHORITY_DAYS = 3650
_LEEWAY = timedelta(hours=1)  # certificates start in the past, as other clocks may be slow
_LARGEST = 1 << 20
_BROKEN = (ValueError, TypeError, NotImplementedError, UnsupportedAlgorithm)
"""TypeError: it has a password; NotImplementedError: a point of another form."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Authority:
    """The certificate authority of a federation, which signs the server's certificate.

    Attributes:
        certificate: known to the server and to every silo.
        key: signs certificates; it stays with whoever made the kit.
    """

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def new_key() -> ec.EllipticCurvePrivateKey:
    """An EC P-384 key: the curve that Flower requires, also used for the certificates."""
    return ec.generate_private_key(ec.SECP384R1())


def new_authority(days: int = AUTHORITY_DAYS) -> Authority:
    """An authority that can sign servers, but not further authorities."""
    key = new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "feddep federation CA")])
    usage = _key_usage(key_cert_sign=True, crl_sign=True)
    certificate = (
        _builder(key.public_key(), subject=name, issuer=name, until=_in_days(days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA384())
    )
    return Authority(certificate, key)


def server_certificate(
    authority: Authority, key: ec.EllipticCurvePublicKey, hosts: Sequence[str], days: int
) -> x509.Certificate:
    """A certificate for all of the server's names; it never outlives the authority's."""
    certificate = authority.certificate
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "feddep server")])
    until = min(_in_days(days), certificate.not_valid_after_utc)
    return (
        _builder(key, subject=name, issuer=certificate.subject, until=until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_name(h) for h in hosts]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
        .sign(authority.key, hashes.SHA384())
    )


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """The names and addresses that a certificate covers."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    names = extension.value.get_values_for_type(x509.DNSName)
    return names + [str(ip) for ip in extension.value.get_values_for_type(x509.IPAddress)]


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 in hexadecimal pairs, as ``openssl x509 -fingerprint -sha256`` prints it."""
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def key_fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """SHA-256 of a public key, in hexadecimal, however it is stored."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).hexdigest()


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """A certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PKCS #8 PEM, which web servers read."""
    return _private_bytes(key, serialization.PrivateFormat.PKCS8)


def key_openssh(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key in OpenSSH's format, which ``flower-supernode`` reads."""
    return _private_bytes(key, serialization.PrivateFormat.OpenSSH)


def public_openssh(key: ec.EllipticCurvePublicKey, comment: str) -> bytes:
    """A public key as one line of OpenSSH, which ``flwr supernode register`` reads."""
    line = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return line + f" {comment}\n".encode()


def load_certificate(path: Path) -> x509.Certificate:
    """Reads a certificate; raises as :func:`loaded` does."""
    return loaded(path, x509.load_pem_x509_certificate)


def loaded(path: Path, load: Callable[[bytes], _T]) -> _T:
    """Reads a file with a loader such as :func:`load_key_pem`.

    Raises:
        InputError: the file cannot be read or holds something else; the message names it.
    """
    try:
        return load(plain_bytes(path, _LARGEST))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; copy it from the kit again"
        ) from None
    except _BROKEN as error:
        raise InputError(f"{path} is not what the kit wrote: {error}") from None


def load_public_openssh(line: bytes) -> ec.EllipticCurvePublicKey:
    """Loads a silo's public key; a :class:`ValueError` says why that failed."""
    return _on_p384(serialization.load_ssh_public_key(line))


def load_private_openssh(content: bytes) -> ec.EllipticCurvePrivateKey:
    """Loads a silo's private key; a :class:`ValueError` says why that failed."""
    key = serialization.load_ssh_private_key(content, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"expected an EC key (got {type(key).__name__})")
    _on_p384(key.public_key())
    return key


def load_key_pem(content: bytes) -> ec.EllipticCurvePrivateKey:
    """Loads a private key from PEM; a :class:`ValueError` says why that failed."""
    key = serialization.load_pem_private_key(content, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"expected an EC key (got {type(key).__name__})")
    return key


def _on_p384(key: object) -> ec.EllipticCurvePublicKey:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError(f"expected an EC key (got {type(key).__name__})")
    if not isinstance(key.curve, ec.SECP384R1):
        raise ValueError(f"expected the curve secp384r1 (got {key.curve.name})")
    return key


def _private_bytes(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _builder(
    key: ec.EllipticCurvePublicKey, *, subject: x509.Name, issuer: x509.Name, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - _LEEWAY)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _in_days(days: int) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def _name(host: str) -> x509.GeneralName:
    return x509.IPAddress(ip_address(host)) if is_ip(host) else x509.DNSName(host)


def _key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
