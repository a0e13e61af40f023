"""The doctor's checks at a silo.

What concerns the server is asked over the same TLS connection that the silo will use, through the
reverse proxy if there is one.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from feddep.deployment.operations import probes
from feddep.deployment.operations.certificates import (
    hosts_of,
    load_private_openssh,
    loaded,
    new_key,
)
from feddep.deployment.operations.checks import ADD, RENEW, SOON, Check
from feddep.deployment.operations.config import NodeConfig, SiloConfig
from feddep.errors import InputError
from feddep.graph.folder import read_graph
from feddep.graph.graph import Part

SLOW = timedelta(seconds=30)
FAST = timedelta(seconds=5)  # Flower refuses a signature dated later than that in the future

_EXPIRED, _NOT_YET = 10, 9  # OpenSSL's numbers for why a certificate is not trusted
_OTHER_HOST = (62, 64)
_KEY_KNOWN, _KEY_UNKNOWN = 2003, 2004  # Flower's: bad heartbeat interval, activation failed


def port(server: probes.Server) -> Check:
    """Checks that the server can be reached at all."""
    address = f"{server.host}:{server.port}"
    try:
        probes.connect(server)
    except probes.ProbeError as error:
        remedy = (
            "check the address in silo.toml, that the server is running, and the firewalls between"
        )
        return Check("port", False, f"{address}: {error}", remedy)
    return Check("port", True, f"{address} can be reached")


def certificate_chain(server: probes.Server) -> Check:
    """Checks that the server presents a certificate that this silo's authority signed."""
    name = "certificate chain"
    try:
        certificate = probes.served_certificate(server)
    except probes.DistrustError as error:
        return Check(name, False, str(error), _against_distrust(error.code, server))
    except probes.ProbeError as error:
        remedy = "check that this port speaks TLS and that ca.crt comes from the server's kit"
        return Check(name, False, str(error), remedy)
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    found = f"trusted; covers {', '.join(hosts_of(certificate))}; {left.days} days left"
    remedy = f"the server's operator should {RENEW}" if left < SOON else ""
    return Check(name, True, found, remedy)


def _against_distrust(code: int, server: probes.Server) -> str:
    if code == _EXPIRED:
        return f"check this machine's clock; if it is right, the server's operator should {RENEW}"
    if code == _NOT_YET:
        return "set this machine's clock (NTP)"
    if code in _OTHER_HOST:
        return (
            f"the server's operator should {RENEW} with --host {server.host}; or set another host "
            "in silo.toml"
        )
    return (
        f"{server.ca} is from another kit, or somebody intercepts the connection: compare its "
        "fingerprint with the operator's"
    )


def clock(server: probes.Server) -> Check:
    """Checks that both clocks agree: otherwise the server refuses the silo's signatures."""
    try:
        date = probes.ask(server, "GET", probes.HEALTH).date
    except probes.ProbeError as error:
        return Check("clock", None, str(error))
    if date is None:
        return Check("clock", None, "the server's answer has no date")
    ahead = datetime.now(UTC) - date - timedelta(seconds=0.5)  # the date has whole seconds only
    seconds = ahead.total_seconds()
    found = f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} the server's"
    if -SLOW <= ahead <= FAST:
        return Check("clock", True, found)
    remedy = "synchronise both machines' clocks by NTP (timedatectl set-ntp true)"
    return Check("clock", False, found, remedy)


def control_api(server: probes.Server) -> Check:
    """Checks that this silo, and so any other, cannot reach the server's control API."""
    try:
        status = probes.ask_control(server).status
    except probes.ProbeError as error:
        return Check("control API", None, str(error))
    if status in (403, 404):
        return Check("control API", True, f"refused ({status})")
    if status < 400:
        found = "it answers this silo, so whoever reaches the server can start runs at every silo"
        remedy = (
            "the server's operator should put the kit's nginx.conf in front and let the server "
            "listen on 127.0.0.1 only"
        )
        return Check("control API", False, found, remedy)
    return Check("control API", None, f"the server answered with status {status}")


def private_key(path: Path) -> Check:
    """Checks that the silo's key is of the kind that Flower accepts."""
    try:
        key = loaded(path, load_private_openssh)
    except InputError as error:
        remedy = f"copy the key from the kit, or ask the server's operator for a new one: {ADD}"
        return Check("key", False, str(error), remedy)
    return Check("key", True, f"EC {key.curve.name}, OpenSSH format")


def registration(server: probes.Server, config: SiloConfig | NodeConfig) -> Check:
    """Checks that the server knows the silo's key.

    The server is also asked about a random key: its answer means something only if it tells the
    two apart.
    """
    name = "registration"
    try:
        key = loaded(config.key, load_private_openssh)
        stranger = probes.ask_to_activate(server, new_key())
        own = probes.ask_to_activate(server, key)
    except InputError:
        return Check(name, None, "the silo's key cannot be read")
    except probes.ProbeError as error:
        return Check(name, None, str(error))
    if own.code == _KEY_KNOWN and stranger.code == _KEY_UNKNOWN:
        return Check(name, True, "the server knows this key")
    if own.code == _KEY_UNKNOWN:
        remedy = (
            f"the server's operator should put {config.name}.pub into server/silos and restart the "
            "server"
        )
        return Check(name, False, "the server does not know this key", remedy)
    if own.status == 401:
        remedy = "synchronise both machines' clocks by NTP"
        return Check(name, False, "the server refuses the signature", remedy)
    return Check(name, None, f"the server's answer is inconclusive (status {own.status})")


def consent(path: Path) -> Check:
    """Checks that the consent file is valid."""
    try:
        # Not above: it loads torch, and a missing package must be reported, not raised.
        from feddep.deployment.protocol.consent import Consent

        allowed = Consent.read(path)
    except ImportError as error:
        return Check("consent", None, str(error), "repair the installation first")
    except InputError as error:
        remedy = "correct it, or copy consent.toml from the kit and list in it what may leave"
        return Check("consent", False, str(error), remedy)
    found = f"methods {', '.join(sorted(allowed.methods))}; at most {allowed.rounds} rounds"
    return Check("consent", True, found)


def data(folder: Path) -> Check:
    """Checks that the silo's graph is intact and can be trained on."""
    try:
        graph = read_graph(folder)
    except InputError as error:
        remedy = "put a graph folder there; docs/own_data.md shows how to write one"
        return Check("data", False, str(error), remedy)
    training = int((graph.split == Part.TRAIN).sum())
    found = (
        f"{graph.nodes} nodes, {graph.edges} edges, {graph.feature_count} features, "
        f"{graph.classes} classes, {training} training nodes"
    )
    if graph.classes < 2:
        return Check("data", False, found, "give the nodes labels of at least two classes")
    if training or (graph.split == Part.NONE).all():  # without a split, the silo draws one
        return Check("data", True, found)
    idle = "without training nodes the silo takes part with weight 0; give nodes the split 'train'"
    return Check("data", True, found, idle)
