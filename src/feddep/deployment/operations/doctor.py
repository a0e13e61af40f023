"""``feddep doctor``: checks everything a server or a silo needs, and says how to fix what fails.

A check reports what it found and never raises.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from feddep.deployment.operations import (
    boundary_checks,
    checks,
    file_checks,
    link_keys,
    probes,
    server_checks,
    silo_checks,
)
from feddep.deployment.operations.checks import Check
from feddep.deployment.operations.config import NodeConfig, ServerConfig, SiloConfig, read_config
from feddep.errors import InputError

_Step = tuple[str, Callable[[], Check]]


def diagnose(config_path: Path) -> list[Check]:
    """Checks everything that a ``server.toml``, ``silo.toml`` or ``node.toml`` names."""
    found = checks.versions()
    try:
        config = read_config(config_path)
    except InputError as error:
        remedy = "correct the file, or write a new kit with `feddep deploy init`"
        return [*found, Check("configuration", False, str(error), remedy)]
    if isinstance(config, ServerConfig):
        kind, steps = "server", _of_server(config)
    elif isinstance(config, SiloConfig):
        kind, steps = "silo", _of_silo(config)
    else:
        kind, steps = "node", _of_node(config)
    found.append(Check("configuration", True, f"{config_path} of a {kind}"))
    return [*found, *(_carried_out(name, check) for name, check in steps)]


def _of_server(config: ServerConfig) -> Iterator[_Step]:
    anew = "write a new kit with `feddep deploy init` and give the server and every silo its folder"
    yield "port", lambda: server_checks.port(config)
    yield "certificate chain", lambda: server_checks.certificate_chain(config)
    yield from _expiry("certificate expiry", config.certificate, checks.RENEW)
    yield from _expiry("authority expiry", config.ca, anew)
    yield "silo keys", lambda: server_checks.silo_keys(config.silos)
    yield "control API", lambda: server_checks.control_api(config.host)
    yield "secret files", lambda: checks.secrecy([config.key, config.state])
    yield "disk", lambda: checks.disk(config.state)


def _of_silo(config: SiloConfig) -> Iterator[_Step]:
    yield from _of_connection(config)
    yield "consent", lambda: silo_checks.consent(config.consent)
    yield "data", lambda: silo_checks.data(config.data)
    yield "link keys", lambda: link_keys.check(config)
    secret = [path for path in (config.key, config.link_key, config.state) if path]
    yield "secret files", lambda: checks.secrecy(secret)
    yield "safe files", lambda: file_checks.safe_files(config)
    yield "separation", lambda: boundary_checks.separation(config)
    yield "sandbox", boundary_checks.sandbox
    yield "disk", lambda: checks.disk(config.state)


def _of_node(config: NodeConfig) -> Iterator[_Step]:
    yield from _of_connection(config)
    yield "secret files", lambda: checks.secrecy([config.key, config.state])
    yield "silo", lambda: boundary_checks.silo_answers(config)
    yield "sandbox", boundary_checks.sandbox
    yield "disk", lambda: checks.disk(config.state)


def _of_connection(config: SiloConfig | NodeConfig) -> Iterator[_Step]:
    server = probes.Server(config.host, config.port, config.ca)
    reached = silo_checks.port(server)
    yield "port", lambda: reached
    yield "key", lambda: silo_checks.private_key(config.key)
    online: Sequence[_Step] = (
        ("certificate chain", lambda: silo_checks.certificate_chain(server)),
        ("clock", lambda: silo_checks.clock(server)),
        ("registration", lambda: silo_checks.registration(server, config)),
        ("control API", lambda: silo_checks.control_api(server)),
    )
    for name, check in online:
        absent = partial(Check, name, None, "the server cannot be reached")
        yield name, check if reached.ok else absent
    anew = "ask the server's operator for this silo's folder of a new kit"
    yield from _expiry("authority expiry", config.ca, anew)


def _expiry(name: str, certificate: Path, remedy: str) -> Iterator[_Step]:
    yield name, lambda: checks.expiry(name, certificate, remedy)


def _carried_out(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except OSError as error:  # usually a folder that this user may not enter
        return Check(name, None, str(error), "run the doctor as the user that runs feddep")
