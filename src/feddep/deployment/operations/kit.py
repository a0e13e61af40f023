"""The deployment kit: a ready-made folder for the server and one for each silo.

A kit holds::

    kit.toml             the address that the silos connect to
    link_keys.json       every silo's public key for messages to other silos, signed
    ca/                  the authority; its key stays here and signs renewed certificates
    server/              for the server's machine
        server.toml, server.pem, server.key, ca.crt, silos/NAME.pub, state/
        nginx.conf, feddep-server.service
    silos/NAME/          for the silo's machine, and nobody else's
        silo.toml, consent.toml, NAME.key, ca.crt, state/, feddep-silo.service
        NAME.link.key, link_keys.json     for messages to other silos
        node.toml, feddep-node.service    for Flower's programs, as another user

Folders and private keys are readable by their owner only. A kit is written to a temporary folder
and then renamed, so there is never half a kit. Nothing in it is ever overwritten, except the
server's certificate by :func:`renew` and the list of link keys.
"""

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from feddep.deployment.operations import templates
from feddep.deployment.operations.certificates import (
    AUTHORITY_DAYS,
    Authority,
    certificate_pem,
    fingerprint,
    hosts_of,
    key_openssh,
    key_pem,
    load_certificate,
    load_key_pem,
    loaded,
    new_authority,
    new_key,
    public_openssh,
    server_certificate,
)
from feddep.deployment.operations.config import (
    host_and_port,
    host_name,
    is_loopback,
    split_address,
)
from feddep.deployment.operations.link_keys import renew_list
from feddep.deployment.protocol.names import silo_name
from feddep.errors import InputError
from feddep.reading import plain_text, toml_of
from feddep.scenario.toml import toml_value

HOME = PurePosixPath("/opt/feddep")
ALWAYS = ("localhost", "127.0.0.1")  # the reverse proxy and Flower's own children use these

_SECRET = 0o600
_PUBLIC = 0o644
_PRIVATE_FOLDER = 0o700


@dataclass(frozen=True)
class Kit:
    """A kit on disk.

    Attributes:
        folder: the kit's folder.
        server: the folder for the server's machine.
        silos: the folder for each silo's machine, by name.
        address: ``host:port`` that the silos connect to.
        hosts: the names and addresses that the server's certificate covers.
        until: when the server's certificate expires.
        fingerprint: fingerprint of the authority's certificate, which each silo compares with that
            of its ``ca.crt``.
    """

    folder: Path
    server: Path
    silos: dict[str, Path]
    address: str
    hosts: tuple[str, ...]
    until: datetime
    fingerprint: str


@dataclass(frozen=True)
class Renewal:
    """What :func:`renew` did: the certificate's file, its hosts, the old and new expiry dates."""

    certificate: Path
    hosts: tuple[str, ...]
    before: datetime
    until: datetime


def init(
    folder: Path,
    *,
    hosts: Sequence[str],
    silos: Sequence[str],
    port: int = 8000,
    days: int = 365,
    proxy: bool = True,
    home: PurePosixPath = HOME,
) -> Kit:
    """Writes a new kit.

    Args:
        folder: where to write the kit; it must not exist, or be empty.
        hosts: names and addresses of the server; the silos connect to the first.
        silos: names of the silos.
        port: the port that the silos connect to.
        days: how long the server's certificate is valid.
        proxy: let the server listen on loopback, on the next port (it cannot share the proxy's),
            and write an ``nginx.conf`` that lets the silos in. Without it the server listens on
            ``port`` itself and exposes its control API to whoever reaches it, and silos run
            Flower's programs as the user that holds the data: for trials.
        home: feddep's folder on the machines, for the proxy and the systemd units.

    Raises:
        InputError: the folder is not empty, or a name, host or number is invalid.
    """
    named = _distinct_hosts(hosts)
    names = _distinct_silos(silos)
    if not 1 <= port < 65535:
        raise InputError(f"port: expected a whole number from 1 to 65534 (got {port})")
    _check_days(days)
    _check_home(home)
    address = host_and_port(named[0], port)
    authority = new_authority(AUTHORITY_DAYS)
    with _draft(folder) as draft:
        _write(draft / "kit.toml", _kit_file(address, home, proxy))
        _folder(draft / "ca")
        _write(draft / "ca" / "ca.crt", certificate_pem(authority.certificate))
        _write(draft / "ca" / "ca.key", key_pem(authority.key), _SECRET)
        _fill_server(draft / "server", authority, named, port, days, proxy, home)
        _folder(draft / "silos")
        for name in names:
            _folder(draft / "silos" / name)
            public = _fill_silo(
                draft / "silos" / name, name, draft / "ca" / "ca.crt", address, home, apart=proxy
            )
            _write(draft / "server" / "silos" / f"{name}.pub", public)
        renew_list(draft, authority)
    return read_kit(folder)


def read_kit(folder: Path) -> Kit:
    """Reads a kit's folder.

    Raises:
        InputError: the folder is not a kit.
    """
    address, _, _ = _read_kit_file(folder)
    certificate = load_certificate(folder / "server" / "server.pem")
    silos = folder / "silos"
    return Kit(
        folder=folder,
        server=folder / "server",
        silos={path.name: path for path in sorted(silos.iterdir())} if silos.is_dir() else {},
        address=address,
        hosts=tuple(hosts_of(certificate)),
        until=certificate.not_valid_after_utc,
        fingerprint=fingerprint(load_certificate(folder / "server" / "ca.crt")),
    )


def add_silo(folder: Path, name: str) -> Kit:
    """Adds a silo to a kit. The server's machine needs the new ``server/silos/NAME.pub``.

    Raises:
        InputError: the folder is not a kit, or the name is invalid or taken.
    """
    address, home, apart = _read_kit_file(folder)
    _needs_server(folder)
    keys, silos = folder / "server" / "silos", folder / "silos"
    taken = {path.stem for path in keys.glob("*.pub")} | {path.name for path in silos.glob("*")}
    _distinct_silos([*sorted(taken), name])
    # Without the authority, its key for messages to other silos has to be signed later.
    authority = _authority(folder / "ca") if (folder / "ca" / "ca.key").exists() else None
    with suppress(FileExistsError):
        _folder(silos)
    with _draft(silos / name) as draft:
        public = _fill_silo(draft, name, folder / "server" / "ca.crt", address, home, apart=apart)
    try:
        _write(keys / f"{name}.pub", public)
    except OSError as error:
        shutil.rmtree(silos / name)
        raise _cannot_write(keys, error) from None
    if authority is not None:
        renew_list(folder, authority)
    return read_kit(folder)


def sign_link_keys(folder: Path, given: Mapping[str, Path] | None = None) -> Path:
    """Signs the list of all silos' link keys anew; see :func:`~.link_keys.renew_list`.

    Raises:
        InputError: the folder is not a kit, its authority is missing or has expired, or a key is
            none.
    """
    _read_kit_file(folder)
    return renew_list(folder, _authority(folder / "ca"), given)


def renew(folder: Path, *, days: int = 365, hosts: Sequence[str] = ()) -> Renewal:
    """Replaces the server's certificate, atomically. The key stays, so a single file changes.

    Then copy the file to the server's machine, reload the proxy and restart the server.

    Args:
        folder: the kit.
        days: how long the new certificate is valid; it never outlives the authority's.
        hosts: the server's names and addresses from now on; by default the same as before.

    Raises:
        InputError: the folder is not a kit, or its authority is missing or has expired.
    """
    address, _, _ = _read_kit_file(folder)
    _needs_server(folder)
    _check_days(days)
    authority = _authority(folder / "ca")
    path = folder / "server" / "server.pem"
    before = load_certificate(path)
    named = _distinct_hosts(hosts or hosts_of(before))
    if split_address(address)[0] not in named:
        raise InputError(
            f"the silos connect to {address}; add its host to --host (got {', '.join(named)})"
        )
    key = loaded(folder / "server" / "server.key", load_key_pem).public_key()
    certificate = server_certificate(authority, key, named, days)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        _write(fresh, certificate_pem(certificate))
        fresh.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:
        fresh.unlink(missing_ok=True)
    until = certificate.not_valid_after_utc
    return Renewal(path, tuple(named), before.not_valid_after_utc, until)


def _fill_server(
    folder: Path,
    authority: Authority,
    hosts: Sequence[str],
    port: int,
    days: int,
    proxy: bool,
    home: PurePosixPath,
) -> None:
    key = new_key()
    certificate = server_certificate(authority, key.public_key(), hosts, days)
    for own in (folder, folder / "silos", folder / "state"):
        _folder(own)
    _write(folder / "ca.crt", certificate_pem(authority.certificate))
    _write(folder / "server.pem", certificate_pem(certificate))
    _write(folder / "server.key", key_pem(key), _SECRET)
    _write(folder / "server.toml", _server_config(hosts, port, proxy))
    if proxy:
        _write(folder / "nginx.conf", _nginx(hosts, port, home))
    unit = templates.SERVER_UNIT.substitute(folder=home / "server", home=home)
    _write(folder / "feddep-server.service", unit)


def _fill_silo(
    folder: Path, name: str, ca: Path, address: str, home: PurePosixPath, *, apart: bool
) -> bytes:
    """Fills a silo's folder and returns its public key, which the server needs."""
    key = new_key()
    there = home / "silos" / name
    _folder(folder / "state")
    _write(folder / "ca.crt", ca.read_bytes())
    _write(folder / f"{name}.key", key_openssh(key), _SECRET)
    config = templates.SILO_CONFIG.substitute(name=name, server=address)
    _write(folder / "silo.toml", config + (templates.APART if apart else ""))
    _write(folder / "consent.toml", templates.CONSENT)
    if apart:
        node = templates.NODE_CONFIG.substitute(name=name, server=address)
        _write(folder / "node.toml", node)
        for unit, text in (("silo", templates.SILO_UNIT), ("node", templates.NODE_UNIT)):
            filled = text.substitute(name=name, folder=there, home=home)
            _write(folder / f"feddep-{unit}.service", filled)
    return public_openssh(key.public_key(), name)


def _server_config(hosts: Sequence[str], port: int, proxy: bool) -> str:
    among_itself = all(is_loopback(host) for host in hosts)
    return templates.SERVER_CONFIG.substitute(
        host="127.0.0.1" if proxy or among_itself else "0.0.0.0",
        port=port + 1 if proxy else port,
        exposure=(templates.BEHIND_PROXY if proxy else templates.WITHOUT_PROXY).substitute(
            public=port
        ),
    )


def _nginx(hosts: Sequence[str], port: int, home: PurePosixPath) -> str:
    six = any(":" in host for host in hosts)
    return templates.NGINX.substitute(
        home=home,
        public=port,
        inner=port + 1,
        six="" if six else "# for IPv6: ",
    )


def _kit_file(address: str, home: PurePosixPath, apart: bool) -> str:
    return (
        "# Written by `feddep deploy init`: the address that the silos connect to, feddep's\n"
        "# folder, and whether silos run Flower's programs as a user of their own.\n"
        f"address = {toml_value(address)}\n"
        f"home = {toml_value(str(home))}\n"
        f"node_user = {toml_value(apart)}\n"
    )


def _read_kit_file(folder: Path) -> tuple[str, PurePosixPath, bool]:
    path = folder / "kit.toml"
    try:
        values = toml_of(plain_text(path))
        address, home = str(values["address"]), PurePosixPath(str(values["home"]))
        apart = values.get("node_user") is not False  # kits before 0.3 do not say
        split_address(address)
    except OSError:
        raise InputError(
            f"{folder} is not a kit (it has no kit.toml); `feddep deploy init` writes one"
        ) from None
    except KeyError as error:
        raise InputError(f"{path}: the key {error} is missing; add it") from None
    except ValueError as error:
        raise InputError(f"{path}: expected TOML with an address of the form {error}") from None
    return address, home, apart


def _needs_server(folder: Path) -> None:
    if not (folder / "server" / "ca.crt").exists():
        raise InputError(
            f"{folder} no longer has the folder server/, which this needs; copy it back from the "
            "server's machine"
        )


def _authority(folder: Path) -> Authority:
    authority = Authority(
        load_certificate(folder / "ca.crt"), loaded(folder / "ca.key", load_key_pem)
    )
    until = authority.certificate.not_valid_after_utc
    if until <= datetime.now(UTC):
        raise InputError(
            f"the authority in {folder} expired on {until:%Y-%m-%d}; write a new kit with "
            "`feddep deploy init` and give the server and every silo its new folder"
        )
    return authority


def _distinct_hosts(hosts: Sequence[str]) -> list[str]:
    """The hosts and those that are always included, in order, each once."""
    if not hosts:
        raise InputError("host: expected at least one name or address of the server (got none)")
    for host in hosts:
        _held_to(host_name, host, "host")
    return list(dict.fromkeys([*hosts, *ALWAYS]))


def _distinct_silos(names: Sequence[str]) -> list[str]:
    if not names:
        raise InputError("silo: expected at least one name (got none)")
    seen: set[str] = set()
    for name in names:
        _held_to(silo_name, name, "silo")
        if name.lower() in seen:  # files are named after silos, and some disks ignore case
            raise InputError(f"there is already a silo named {name!r}; choose another name")
        seen.add(name.lower())
    return list(names)


def _held_to(rule: Callable[[str], str], value: str, kind: str) -> None:
    try:
        rule(value)
    except ValueError as error:
        raise InputError(f"{kind}: expected {error} (got {value!r})") from None


def _check_days(days: int) -> None:
    if not 1 <= days <= AUTHORITY_DAYS:
        raise InputError(f"days: expected a whole number from 1 to {AUTHORITY_DAYS} (got {days})")


def _check_home(home: PurePosixPath) -> None:
    """Refuses characters that mean something to nginx or systemd."""
    if not home.is_absolute() or not re.fullmatch(r"[\w./-]+", str(home)):
        raise InputError(
            f"home: expected an absolute path of letters, digits and _ . - / (got {home})"
        )


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``target`` on success and is deleted on failure."""
    target = target.resolve()
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(f"{target} already exists and is not overwritten; choose another folder")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        draft.parent.mkdir(parents=True, exist_ok=True)
        _folder(draft)
        yield draft
        draft.rename(target)
    except OSError as error:
        raise _cannot_write(target, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {path}: {error.strerror}; nothing was changed")


def _folder(path: Path) -> None:
    path.mkdir(_PRIVATE_FOLDER)


def _write(path: Path, content: bytes | str, mode: int = _PUBLIC) -> None:
    """Writes a new file. A secret one is never readable by others, not even for a moment."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _SECRET)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
