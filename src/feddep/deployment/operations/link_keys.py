"""The keys with which silos seal messages for each other, and the list that says whose is whose.

Each silo has an X25519 key, ``NAME.link.key`` (PKCS #8 PEM). ``link_keys.json`` holds the public
keys of all silos and a signature of the kit's authority, whose certificate every silo has. The
server has no part in it.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from feddep.deployment.operations.certificates import Authority, load_certificate, loaded
from feddep.deployment.operations.config import SiloConfig
from feddep.deployment.protocol.names import silo_name
from feddep.errors import InputError
from feddep.privacy.pair_keys import Keyring

LIST = "link_keys.json"

_FORMAT = "feddep-link-keys"
_LARGEST = 1 << 22
_PEM = serialization.Encoding.PEM
_RAW = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def key_file(name: str) -> str:
    """The name of the file with a silo's link key."""
    return f"{name}.link.key"


def new_link_key() -> bytes:
    """A new private key as PEM, as ``openssl genpkey -algorithm X25519`` writes it."""
    form = serialization.PrivateFormat.PKCS8
    key = X25519PrivateKey.generate()
    return key.private_bytes(_PEM, form, serialization.NoEncryption())


def load_link_key(content: bytes) -> X25519PrivateKey:
    """Loads a silo's link key; a :class:`ValueError` says why that failed."""
    key = serialization.load_pem_private_key(content, password=None)
    if not isinstance(key, X25519PrivateKey):
        raise ValueError(f"expected an X25519 key (got {type(key).__name__})")
    return key


def public_of(path: Path) -> bytes:
    """The 32 bytes of a public key, from a file with it or with the private one.

    Raises:
        InputError: the file holds neither.
    """
    return loaded(path, _public)


def _public(content: bytes) -> bytes:
    if b"PRIVATE" in content:
        return load_link_key(content).public_key().public_bytes(*_RAW)
    key = serialization.load_pem_public_key(content)
    if not isinstance(key, X25519PublicKey):
        raise ValueError(f"expected an X25519 key (got {type(key).__name__})")
    return key.public_bytes(*_RAW)


def signed_list(public: Mapping[str, bytes], authority: Authority) -> str:
    """``link_keys.json`` for these silos."""
    keys = {name: key.hex() for name, key in sorted(public.items())}
    made = datetime.now(UTC).isoformat(timespec="seconds")
    signature = authority.key.sign(_signed(keys, made), ec.ECDSA(hashes.SHA384()))
    content = {"format": _FORMAT, "made": made, "silos": keys, "signature": signature.hex()}
    return json.dumps(content, indent=2) + "\n"


def read_list(path: Path, ca: Path) -> dict[str, bytes]:
    """The silos' public keys, by name.

    Args:
        path: ``link_keys.json``.
        ca: the authority's certificate.

    Raises:
        InputError: a file cannot be read, or the authority did not sign this list.
    """
    keys, made, signature = loaded(path, _parsed)
    authority = load_certificate(ca).public_key()
    try:
        if not isinstance(authority, ec.EllipticCurvePublicKey):
            raise InvalidSignature
        authority.verify(signature, _signed(keys, made), ec.ECDSA(hashes.SHA384()))
    except (InvalidSignature, UnsupportedAlgorithm):
        raise InputError(
            f"{path} was not signed by the authority in {ca}: it was changed, or comes from "
            "another kit. Get it again from whoever has the kit, over a channel that you trust"
        ) from None
    return {name: bytes.fromhex(key) for name, key in keys.items()}


def own_keyring(config: SiloConfig) -> Keyring | None:
    """A silo's keys, checked; None if it is configured without.

    Raises:
        InputError: a file is missing or wrong, or the list has another key of this silo.
    """
    if config.link_key is None or config.link_keys is None:
        return None
    ring = Keyring(loaded(config.link_key, load_link_key), read_list(config.link_keys, config.ca))
    ring.for_run("check", 0, (config.name,))
    return ring


def _parsed(content: bytes) -> tuple[dict[str, str], str, bytes]:
    """The keys, when the list was made, and the signature; all of it still to be checked."""
    if len(content) > _LARGEST:
        raise ValueError(f"it has {len(content)} bytes")
    try:
        values: dict[str, Any] = json.loads(content)
        keys = {silo_name(name): str(key) for name, key in values["silos"].items()}
        if values["format"] != _FORMAT or any(len(bytes.fromhex(k)) != 32 for k in keys.values()):
            raise ValueError("expected public keys of 32 bytes")
        return keys, str(values["made"]), bytes.fromhex(values["signature"])
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is no list of link keys ({error!r})") from None


def _signed(keys: Mapping[str, str], made: str) -> bytes:
    """What the authority signs. The format's name keeps it apart from all else that it signs."""
    return json.dumps([_FORMAT, made, sorted(keys.items())], separators=(",", ":")).encode()
