"""The keys with which silos seal messages for each other, and the list that says whose is whose.

Each silo has an X25519 key, ``NAME.link.key`` (PKCS #8 PEM). ``link_keys.json`` holds the public
keys of all silos and a signature of the kit's authority, whose certificate every silo has. The
server has no part in it.
"""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from feddep.deployment.operations.certificates import Authority, load_certificate, loaded
from feddep.deployment.operations.checks import Check
from feddep.deployment.operations.config import SiloConfig
from feddep.deployment.protocol.names import silo_name
from feddep.errors import InputError
from feddep.privacy.pair_keys import Keyring
from feddep.runs.files import write_atomically

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
    certificate = load_certificate(ca)
    try:
        authority = certificate.public_key()
        if not isinstance(authority, ec.EllipticCurvePublicKey):
            raise InvalidSignature
        authority.verify(signature, _signed(keys, made), ec.ECDSA(hashes.SHA384()))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        raise InputError(
            f"{path} was not signed by the authority in {ca}: it was changed, or comes from "
            "another kit. Get it again from whoever has the kit, over a channel that you trust"
        ) from None
    return {name: bytes.fromhex(key) for name, key in keys.items()}


def renew_list(kit: Path, authority: Authority, given: Mapping[str, Path] | None = None) -> Path:
    """Signs the link keys of all silos of a kit; those in it that have none get one.

    The list is written into the kit and into every silo's folder that is still there. Silos
    elsewhere need the file too.

    Args:
        kit: its folder.
        authority: signs the list.
        given: files with the public keys of silos that made theirs themselves, by name.

    Returns:
        The list.

    Raises:
        InputError: a name is not that of a silo of the kit, or a file holds no X25519 key.
    """
    silos, whole = kit / "silos", kit / LIST
    here = sorted(path for path in silos.glob("*") if path.is_dir())
    known = read_list(whole, kit / "ca" / "ca.crt") if whole.exists() else {}
    names = {path.name for path in here} | {p.stem for p in (kit / "server/silos").glob("*.pub")}
    strangers = sorted((given or {}).keys() - names - known.keys())
    if strangers:
        raise InputError(
            f"{', '.join(strangers)} is no silo of this kit; known: {', '.join(sorted(names))}"
        )
    public = {**known, **{name: public_of(path) for name, path in (given or {}).items()}}
    for folder in here:
        own = folder / key_file(folder.name)
        if folder.name not in public:
            _write_secret(own, new_link_key())
            public[folder.name] = public_of(own)
    text = signed_list(public, authority)
    for place in (whole, *(folder / LIST for folder in here)):
        write_atomically(place, text)
        place.chmod(0o644)
    return whole


def _write_secret(path: Path, content: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


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


def check(config: SiloConfig) -> Check:
    """The doctor's check of a silo's link keys."""
    name = "link keys"
    if config.link_key is None or config.link_keys is None:
        return Check(name, None, "none; methods over links between silos need them")
    try:
        ring = own_keyring(config)
    except InputError as error:
        remedy = "get both files again from whoever has the kit (`feddep deploy link-keys`)"
        return Check(name, False, str(error), remedy)
    others = sorted((ring.public.keys() if ring else set()) - {config.name})
    return Check(name, True, f"signed by the authority; others: {', '.join(others) or 'none'}")
