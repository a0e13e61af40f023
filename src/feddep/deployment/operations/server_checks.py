"""The doctor's checks at the server."""

import errno
import socket
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec

from feddep.deployment.operations import probes
from feddep.deployment.operations.certificates import (
    hosts_of,
    load_certificate,
    load_key_pem,
    load_public_openssh,
    loaded,
)
from feddep.deployment.operations.checks import ADD, RENEW, Check
from feddep.deployment.operations.config import ServerConfig, is_loopback
from feddep.deployment.operations.kit import ALWAYS
from feddep.errors import InputError


def port(config: ServerConfig) -> Check:
    """Checks that the port is free, or that our own server listens there."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((config.host, config.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return _who_has_the_port(config)
            found = f"cannot listen on {config.host}:{config.port}: {error.strerror}"
            remedy = "set an address of this machine and a port above 1023 in server.toml"
            return Check("port", False, found, remedy)
    return Check("port", True, f"{config.host}:{config.port} is free")


def _who_has_the_port(config: ServerConfig) -> Check:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.host, config.host)
    server = probes.Server(host, config.port, config.ca)
    try:
        shown = probes.served_certificate(server)
        healthy = probes.ask(server, "GET", probes.HEALTH).status == 200
    except probes.ProbeError as error:
        found = f"another program listens on port {config.port} ({error})"
        return Check("port", False, found, "stop that program, or set another port in server.toml")
    try:
        current = shown == load_certificate(config.certificate)
    except InputError:
        current = False
    if not current:
        found = f"the server on port {config.port} uses another certificate than the file's"
        return Check("port", False, found, "restart the server to load the certificate")
    if not healthy:
        found = f"our server listens on port {config.port}, but {probes.HEALTH} does not answer"
        return Check("port", False, found, "read the server's log and restart the server")
    return Check("port", True, f"our server runs on port {config.port}")


def certificate_chain(config: ServerConfig) -> Check:
    """Checks that certificate, key and authority belong together and cover this host."""
    name = "certificate chain"
    try:
        certificate, authority = load_certificate(config.certificate), load_certificate(config.ca)
        key = loaded(config.key, load_key_pem)
    except InputError as error:
        return Check(name, False, str(error), "copy the file from the kit again")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        found = f"{config.certificate} is not signed by the authority in {config.ca}"
        return Check(name, False, found, "copy both from the same kit")
    if certificate.public_key() != key.public_key():
        found = f"{config.key} is not the key of {config.certificate}"
        return Check(name, False, found, "copy both from the same kit")
    hosts = hosts_of(certificate)
    specific = [] if config.host in ("0.0.0.0", "::") else [config.host]
    absent = [host for host in (*ALWAYS, *specific) if host not in hosts]
    if absent:
        found = f"the certificate does not cover {', '.join(absent)}"
        remedy = f"{RENEW}, with a --host for each"
        return Check(name, False, found, remedy)
    return Check(name, True, f"signed by the authority; covers {', '.join(hosts)}")


def silo_keys(folder: Path) -> Check:
    """Checks that every silo's public key can be read and that no two silos share one."""
    name = "silo keys"
    files = sorted(folder.glob("*.pub"))
    if not files:
        return Check(name, False, f"no NAME.pub in {folder}", "copy the folder from the kit")
    owners: dict[ec.EllipticCurvePublicNumbers, str] = {}
    for file in files:
        try:
            numbers = loaded(file, load_public_openssh).public_numbers()
        except InputError as error:
            return Check(name, False, str(error), f"copy {file.name} from the kit again")
        if numbers in owners:
            found = f"{owners[numbers]} and {file.stem} have the same key"
            return Check(name, False, found, f"give each a key of its own: {ADD}")
        owners[numbers] = file.stem
    return Check(name, True, ", ".join(owners.values()))


def control_api(host: str) -> Check:
    """Checks that the control API is not exposed to the network."""
    if is_loopback(host):
        return Check("control API", True, f"listens on {host} only, behind the proxy")
    found = f"listens on {host}: whoever reaches the port can start runs at every silo"
    remedy = 'set host = "127.0.0.1" in server.toml and put nginx.conf in front'
    return Check("control API", False, found, remedy)
