"""What a peer may ask of a silo, or tell a server, so as to exhaust it: each in its own process.

A burden is prepared, then carried. It returns once whatever was asked has been refused, or done
within its bounds; the test compares memory and time with those of the idle process.
"""

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from hostile.inputs import peak

Burden = Callable[[], None]
MILLIONS = 10 * 10**6


def repeated_nodes(folder: Path) -> Burden:
    """One node is asked for ten million times over."""
    from federation.declared import EXPECTED, SHOW

    nodes = np.zeros(MILLIONS, np.int64)

    def ask() -> None:
        roomy = replace(EXPECTED, largest_bytes=1 << 27)
        _refused(inspect_request, replace(SHOW, arrays={"nodes": nodes}), roomy)

    from feddep.federation.inspection import inspect_request

    return ask


def a_billion_validation_nodes(folder: Path) -> Burden:
    """A silo claims to have judged the classifier on more nodes than it has."""
    from feddep.federation.inspection import inspect_reply
    from federation.declared import EXPECTED, HONEST

    reply, asked = HONEST[0]
    claimed = {**reply.metrics, "val_total": 10**9, "val_correct": 10**9}
    return lambda: _refused(inspect_reply, replace(reply, metrics=claimed), asked, EXPECTED)


def endless_work(folder: Path) -> Burden:
    """Runs of a billion epochs, layers or neighbours."""
    silo, agreement = _silo(folder)
    keys = ("local_epochs", "fanout", "epochs", "layers")

    def ask() -> None:
        from deployment.envelopes import agree

        honest = agree(agreement)
        for key in keys:
            spec = re.sub(rf"(?m)^{key} = .*$", f"{key} = {10**9}", honest.header["spec"])
            answer = silo(replace(honest, header={**honest.header, "spec": spec}))
            why = answer.header.get("refused", "")
            if not re.search("1000000000|would take up to", why):
                raise AssertionError(f"{key}: {answer.header}")

    return ask


def replays(folder: Path) -> Burden:
    """The same request a thousand times, and a thousand runs that are refused."""
    from deployment.envelopes import agree, request

    silo, agreement = _silo(folder)
    silo(agree(agreement))

    def ask() -> None:
        for number in range(1000):
            silo(request(agreement))
            silo(agree(agreement, spec=f'method = "none-{number}"'))
        lines = silo.service.disclosures.path.read_text().count("\n")
        if lines > 1300:
            raise AssertionError(f"the log has {lines} lines")
        if "refused" in silo(agree(agreement)).header:
            raise AssertionError("an honest agreement is refused")

    return ask


def others_large_messages(folder: Path) -> Burden:
    """What eight silos generated, 100 MB each, is passed on in requests that are small enough."""
    from feddep.federation.messages import in_batches, payload_bytes
    from feddep.runtime.envelope import LARGEST_BYTES

    one = np.zeros(25 * 10**6, np.float32)
    sent = {client: {"rows": one[client:]} for client in range(8)}

    def ask() -> None:
        for some in in_batches(sent):
            if sum(map(payload_bytes, some.values())) > LARGEST_BYTES:
                raise AssertionError("more than a silo takes")

    return ask


def _silo(folder: Path):
    from deployment.envelopes import CONSENT, SiloWithMemory, agreement_on
    from feddep.deployment.protocol.disclosure_log import DisclosureLog
    from feddep.deployment.protocol.silo_service import SiloService
    from hostile.files import small_shards

    graph = small_shards()[0]
    service = SiloService(
        "bank-a", lambda: graph, consent=CONSENT.model_copy(update={"smallest_cluster": 1}),
        disclosures=DisclosureLog(folder / "disclosures.jsonl"), secret=7,
    )  # fmt: skip
    return SiloWithMemory(service), agreement_on(graph)


def _refused(inspect: Callable[..., None], *asked: object) -> None:
    from feddep.federation.inspection import InspectionError

    try:
        inspect(*asked)
    except InspectionError:
        return
    raise AssertionError("it passed")


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as home:
        carry = globals()[sys.argv[1]](Path(home))
        idle, began = peak(), time.process_time()
        carry()
        seconds = time.process_time() - began
    sys.stdout.write(json.dumps({"bytes": peak() - idle, "seconds": seconds}) + "\n")
