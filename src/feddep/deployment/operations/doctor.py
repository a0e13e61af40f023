"""``feddep doctor``: what stands in the way of a federation, and how to mend it.

A check reports and never raises. What needs the server is asked over the same TLS connection that
the silo will use, through the reverse proxy if there is one.
"""

import errno
import os
import platform
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import metadata
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec

from feddep.deployment.operations import probes
from feddep.deployment.operations.certificates import (
    hosts_of,
    load_certificate,
    load_key_pem,
    load_private_openssh,
    load_public_openssh,
    loaded,
    new_key,
)
from feddep.deployment.operations.config import ServerConfig, SiloConfig, is_loopback, read_config
from feddep.deployment.operations.kit import ALWAYS
from feddep.errors import InputError
from feddep.graph.folder import read_graph
from feddep.graph.graph import Part

ROOM = 10**9  # bytes
SOON = timedelta(days=30)
SLOW = timedelta(seconds=30)
FAST = timedelta(seconds=5)  # Flower refuses what was signed later than that in the future

_RENEW = "renew it: `feddep deploy renew FOLDER`"
_ADD = "`feddep deploy add FOLDER NAME`"
_EXPIRED, _NOT_YET = 10, 9  # OpenSSL's numbers for why a certificate is not trusted
_OTHER_HOST = (62, 64)
_KEY_KNOWN, _KEY_UNKNOWN = 2003, 2004  # Flower's: bad heartbeat interval, activation failed


@dataclass(frozen=True)
class Check:
    """One finding.

    Attributes:
        name: what was checked.
        ok: whether it is as it should be; None where that could not be found out.
        found: what was found.
        remedy: what to do about it. A check that is in order may have one too: a warning.
    """

    name: str
    ok: bool | None
    found: str
    remedy: str = ""


_Step = tuple[str, Callable[[], Check]]


def diagnose(config_path: Path) -> list[Check]:
    """Checks all that ``server.toml`` or ``silo.toml`` speaks of."""
    checks = versions()
    try:
        config = read_config(config_path)
    except InputError as error:
        remedy = "correct the file, or write a new kit with `feddep deploy init`"
        return [*checks, Check("configuration", False, str(error), remedy)]
    kind, steps = (
        ("server", _of_server(config))
        if isinstance(config, ServerConfig)
        else ("silo", _of_silo(config))
    )
    checks.append(Check("configuration", True, f"{config_path} of a {kind}"))
    return [*checks, *(_carried_out(name, check) for name, check in steps)]


def _of_server(config: ServerConfig) -> Iterator[_Step]:
    anew = "write a new kit with `feddep deploy init` and give every party its folder"
    yield "port", lambda: server_port(config)
    yield "certificate chain", lambda: server_certificate(config)
    yield "certificate expiry", lambda: expiry("certificate expiry", config.certificate, _RENEW)
    yield "authority expiry", lambda: expiry("authority expiry", config.ca, anew)
    yield "silo keys", lambda: silo_keys(config.silos)
    yield "control API", lambda: listening(config.host)
    yield "secret files", lambda: secrecy([config.key, config.state])
    yield "disk", lambda: disk(config.state)


def _of_silo(config: SiloConfig) -> Iterator[_Step]:
    server = probes.Server(config.host, config.port, config.ca)
    anew = "ask the server's operator for a new kit's folder"
    reached = server_reachable(server)
    yield "port", lambda: reached
    yield "key", lambda: private_key(config.key)
    online: Sequence[_Step] = (
        ("certificate chain", lambda: live_certificate(server)),
        ("clock", lambda: clock(server)),
        ("registration", lambda: registration(server, config)),
        ("control API", lambda: control_unreachable(server)),
    )
    for name, check in online:
        yield name, check if reached.ok else partial(Check, name, None, "the server is not reached")
    yield "authority expiry", lambda: expiry("authority expiry", config.ca, anew)
    yield "consent", lambda: consent(config.consent)
    yield "data", lambda: data(config.data)
    yield "secret files", lambda: secrecy([config.key, config.state])
    yield "disk", lambda: disk(config.state)


def _carried_out(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except OSError as error:  # in most cases a folder that this user may not enter
        return Check(name, None, str(error), "run the doctor as the user that runs feddep")


# Both


def versions() -> list[Check]:
    """Python and the packages whose versions matter, against what feddep asks for."""
    asked = _requirements()
    python = _version("python", platform.python_version(), asked.get("python", ""))
    return [python, *(_package(name, asked.get(name, "")) for name in ("feddep", "flwr", "torch"))]


def _requirements() -> dict[str, str]:
    """The version ranges that feddep's own metadata states; none if it is not installed."""
    try:
        about = metadata.metadata("feddep")
    except metadata.PackageNotFoundError:
        return {}
    asked = {"python": about["Requires-Python"]}
    for line in about.get_all("Requires-Dist") or ():
        match = re.match(r"([\w-]+)\s*([^;\s]*)", line)
        if match:
            asked.setdefault(match[1].lower(), match[2])
    return asked


def _package(name: str, asked: str) -> Check:
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(f"{name} version", False, "not installed", "pip install 'feddep[flower]'")
    return _version(name, found, asked)


def _version(name: str, found: str, asked: str) -> Check:
    """Holds a version to a range such as ``>=1.40,<2``."""
    fits = all(_fits(found, term) for term in asked.split(",") if term)
    if fits:
        return Check(f"{name} version", True, found)
    remedy = f"install {name}{asked}; `pip install 'feddep[flower]'` takes what fits"
    return Check(f"{name} version", False, f"{found}, but {asked} is supported", remedy)


def _fits(version: str, term: str) -> bool:
    """One term of a range; those that feddep's metadata does not use are not looked at."""
    ours, bound = _numbers(version), _numbers(term)
    if term.startswith("=="):
        return ours == bound
    if term.startswith(">="):
        return ours >= bound
    return ours < bound if term.startswith("<") else True


def _numbers(version: str) -> list[int]:
    """``2.13.0+cpu`` as ``[2, 13]``: local parts and trailing zeros say nothing of the order."""
    numbers = [int(part) for part in re.findall(r"\d+", version.partition("+")[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers


def expiry(name: str, path: Path, remedy: str) -> Check:
    """How long a certificate is still good."""
    try:
        certificate = load_certificate(path)
    except InputError as error:
        return Check(name, False, str(error), "take the file from the kit again")
    now, until = datetime.now(UTC), certificate.not_valid_after_utc
    if now < certificate.not_valid_before_utc:
        found = f"valid only from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        return Check(name, False, found, "set this machine's clock (NTP)")
    if now >= until:
        return Check(name, False, f"expired on {until:%Y-%m-%d}", remedy)
    left = f"{(until - now).days} days left, until {until:%Y-%m-%d}"
    return Check(name, True, left, remedy if until - now < SOON else "")


def secrecy(paths: Sequence[Path]) -> Check:
    """Whether keys and state are closed to everybody but their owner."""
    if os.name != "posix":
        return Check("secret files", None, "file modes are not known on this system")
    present = [path for path in paths if path.exists()]
    open_to_others = [path for path in present if path.stat().st_mode & 0o077]
    if not open_to_others:
        return Check("secret files", True, "readable by their owner alone")
    found = ", ".join(f"{path} has mode {path.stat().st_mode & 0o777:o}" for path in open_to_others)
    remedy = f"chmod go= {' '.join(map(str, open_to_others))}; if others had access, renew the key"
    return Check("secret files", False, found, remedy)


def disk(state: Path) -> Check:
    """Whether the state folder can be written and has room."""
    place = next((path for path in (state, *state.parents) if path.exists()), state)
    if not os.access(place, os.W_OK):
        return Check("disk", False, f"{place} is not writable", f"give the user access to {state}")
    free = shutil.disk_usage(place).free
    found = f"{free / 1e9:.1f} GB free in {place}"
    if free < ROOM:
        return Check("disk", False, found, f"free {ROOM / 1e9:g} GB, or set another state folder")
    return Check("disk", True, found)


# The server


def server_port(config: ServerConfig) -> Check:
    """Whether the port is free, or taken by the very server that is meant to have it."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((config.host, config.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return _who_has_the_port(config)
            found = f"cannot listen on {config.host}:{config.port}: {error.strerror}"
            remedy = "set a host of this machine and a port above 1023 in server.toml"
            return Check("port", False, found, remedy)
    return Check("port", True, f"{config.host}:{config.port} is free")


def _who_has_the_port(config: ServerConfig) -> Check:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.host, config.host)
    server = probes.Server(host, config.port, config.ca)
    try:
        shown = probes.served_certificate(server)
        healthy = probes.ask(server, "GET", probes.HEALTH).status == 200
    except probes.ProbeError as error:
        found = f"port {config.port} is taken by another program ({error})"
        return Check("port", False, found, "end that program, or set another port in server.toml")
    try:
        current = shown == load_certificate(config.certificate)
    except InputError:
        current = False
    if not current:
        found = f"a server runs on port {config.port} with another certificate than the file's"
        return Check("port", False, found, "restart the server to load the certificate")
    if not healthy:
        found = f"our certificate answers on port {config.port}, but {probes.HEALTH} does not"
        return Check("port", False, found, "look at the server's log and restart it")
    return Check("port", True, f"our server runs on port {config.port}")


def server_certificate(config: ServerConfig) -> Check:
    """Whether certificate, key and authority belong together and serve this host."""
    name = "certificate chain"
    try:
        certificate, authority = load_certificate(config.certificate), load_certificate(config.ca)
        key = loaded(config.key, load_key_pem)
    except InputError as error:
        return Check(name, False, str(error), "take the file from the kit again")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        found = f"{config.certificate} is not signed by the authority in {config.ca}"
        return Check(name, False, found, "take both from the same kit")
    if certificate.public_key() != key.public_key():
        found = f"{config.key} is not the key of {config.certificate}"
        return Check(name, False, found, "take both from the same kit")
    hosts = hosts_of(certificate)
    specific = [] if config.host in ("0.0.0.0", "::") else [config.host]
    absent = [host for host in (*ALWAYS, *specific) if host not in hosts]
    if absent:
        found = f"the certificate is not for {', '.join(absent)}"
        remedy = f"{_RENEW}, with a --host for each"
        return Check(name, False, found, remedy)
    return Check(name, True, f"signed by the authority, for {', '.join(hosts)}")


def silo_keys(folder: Path) -> Check:
    """Whether every silo's public key can be read and none is there twice."""
    name = "silo keys"
    files = sorted(folder.glob("*.pub"))
    if not files:
        return Check(name, False, f"no NAME.pub in {folder}", "take the folder from the kit")
    owners: dict[ec.EllipticCurvePublicNumbers, str] = {}
    for file in files:
        try:
            numbers = loaded(file, load_public_openssh).public_numbers()
        except InputError as error:
            return Check(name, False, str(error), f"take {file.name} from the kit again")
        if numbers in owners:
            found = f"{owners[numbers]} and {file.stem} have the same key"
            return Check(name, False, found, f"give each a key of its own: {_ADD}")
        owners[numbers] = file.stem
    return Check(name, True, ", ".join(owners.values()))


def listening(host: str) -> Check:
    """Whether the control API is kept from the network."""
    if is_loopback(host):
        return Check("control API", True, f"listens on {host} only; silos come in by the proxy")
    found = f"listens on {host}: whoever reaches the port can start runs at every silo"
    remedy = 'set host = "127.0.0.1" in server.toml and put nginx.conf in front'
    return Check("control API", False, found, remedy)


# A silo


def server_reachable(server: probes.Server) -> Check:
    """Whether there is a way to the server at all."""
    address = f"{server.host}:{server.port}"
    try:
        probes.connect(server)
    except probes.ProbeError as error:
        remedy = "check the address in silo.toml, that the server runs, and the firewalls between"
        return Check("port", False, f"{address}: {error}", remedy)
    return Check("port", True, f"{address} is reached")


def live_certificate(server: probes.Server) -> Check:
    """Whether the server shows a certificate that this silo's authority vouches for."""
    name = "certificate chain"
    try:
        certificate = probes.served_certificate(server)
    except probes.DistrustError as error:
        return Check(name, False, str(error), _against_distrust(error.code, server))
    except probes.ProbeError as error:
        remedy = "check that this port speaks TLS and that ca.crt is the kit's"
        return Check(name, False, str(error), remedy)
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    found = f"trusted, for {', '.join(hosts_of(certificate))}, {left.days} days left"
    remedy = f"the server's operator should {_RENEW}" if left < SOON else ""
    return Check(name, True, found, remedy)


def _against_distrust(code: int, server: probes.Server) -> str:
    if code == _EXPIRED:
        return f"check this machine's clock; if it is right, the operator should {_RENEW}"
    if code == _NOT_YET:
        return "set this machine's clock (NTP)"
    if code in _OTHER_HOST:
        return f"the operator should {_RENEW} with --host {server.host}; or name another host"
    return f"{server.ca} is of another kit, or somebody stands in between: compare fingerprints"


def clock(server: probes.Server) -> Check:
    """Whether both clocks agree: what a silo signs is refused if they do not."""
    try:
        date = probes.ask(server, "GET", probes.HEALTH).date
    except probes.ProbeError as error:
        return Check("clock", None, str(error))
    if date is None:
        return Check("clock", None, "the server's answer has no date")
    ahead = datetime.now(UTC) - date - timedelta(seconds=0.5)  # it tells whole seconds
    seconds = ahead.total_seconds()
    found = f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} the server's"
    if -SLOW <= ahead <= FAST:
        return Check("clock", True, found)
    remedy = "set both machines' clocks by NTP (timedatectl set-ntp true)"
    return Check("clock", False, found, remedy)


def control_unreachable(server: probes.Server) -> Check:
    """Whether the server's control API is closed to this silo, and so to every other."""
    try:
        status = probes.ask_control(server).status
    except probes.ProbeError as error:
        return Check("control API", None, str(error))
    if status in (403, 404):
        return Check("control API", True, f"refused ({status})")
    if status < 400:
        found = "it answers this silo, so whoever reaches the server can start runs at every silo"
        remedy = "the operator puts the kit's nginx.conf in front, and the server on 127.0.0.1"
        return Check("control API", False, found, remedy)
    return Check("control API", None, f"the server answered with status {status}")


def private_key(path: Path) -> Check:
    """Whether the silo's key is one that Flower takes."""
    try:
        key = loaded(path, load_private_openssh)
    except InputError as error:
        remedy = f"take the key from the kit, or have the operator make a new one: {_ADD}"
        return Check("key", False, str(error), remedy)
    return Check("key", True, f"EC {key.curve.name}, OpenSSH format")


def registration(server: probes.Server, config: SiloConfig) -> Check:
    """Whether the server knows the silo's key.

    A key made up on the spot is asked about too: only if the server tells the two apart does its
    answer mean anything.
    """
    name = "registration"
    try:
        key = loaded(config.key, load_private_openssh)
        stranger = probes.ask_to_activate(server, new_key())
        own = probes.ask_to_activate(server, key)
    except InputError:
        return Check(name, None, "there is no key to ask about")
    except probes.ProbeError as error:
        return Check(name, None, str(error))
    if own.code == _KEY_KNOWN and stranger.code == _KEY_UNKNOWN:
        return Check(name, True, "the server knows this key")
    if own.code == _KEY_UNKNOWN:
        remedy = f"the operator puts {config.name}.pub into server/silos and restarts the server"
        return Check(name, False, "the server does not know this key", remedy)
    if own.status == 401:
        return Check(name, False, "the server refuses the signature", "set both clocks by NTP")
    return Check(name, None, f"the server's answer tells nothing (status {own.status})")


def consent(path: Path) -> Check:
    """Whether the consent file is one."""
    try:
        # Not above: it brings torch along, and what is missing is to be reported, not raised.
        from feddep.deployment.protocol.consent import Consent

        allowed = Consent.read(path)
    except ImportError as error:
        return Check("consent", None, str(error), "mend the installation first")
    except InputError as error:
        remedy = "correct it, or take consent.toml from the kit and say in it what may leave"
        return Check("consent", False, str(error), remedy)
    found = f"methods {', '.join(sorted(allowed.methods))}; at most {allowed.rounds} rounds"
    return Check("consent", True, found)


def data(folder: Path) -> Check:
    """Whether the silo's graph is whole and something can be learnt from it."""
    try:
        graph = read_graph(folder)
    except InputError as error:
        return Check(
            "data",
            False,
            str(error),
            "put a graph folder there; docs/own_data.md tells how to write one",
        )
    training = int((graph.split == Part.TRAIN).sum())
    found = (
        f"{graph.nodes} nodes, {graph.edges} edges, {graph.feature_count} features, "
        f"{graph.classes} classes, {training} training nodes"
    )
    if graph.classes < 2:
        return Check("data", False, found, "give the nodes labels of at least two classes")
    if training or (graph.split == Part.NONE).all():  # without any split, the silo draws one
        return Check("data", True, found)
    idle = "without training nodes the silo takes part with weight 0; give nodes the split 'train'"
    return Check("data", True, found, idle)
