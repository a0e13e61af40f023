"""Opens a silo from its configuration: data, consent, disclosure log, secret, stored runs."""

import secrets
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from feddep.deployment.operations.config import SiloConfig
from feddep.deployment.operations.link_keys import own_keyring
from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.disclosure_log import DisclosureLog
from feddep.deployment.protocol.memory import Files, Pieces
from feddep.deployment.protocol.silo_service import SiloService
from feddep.errors import DataError
from feddep.graph import splits
from feddep.graph.arranging import canonical
from feddep.graph.folder import read_graph
from feddep.graph.graph import Graph, Part
from feddep.seeding import Seeds

DISCLOSURES, SECRET = "disclosures.jsonl", "secret"
_EARLIER_DISCLOSURES = "ledger.jsonl"  # its name in version 0.1


@lru_cache(maxsize=1)
def open_service(config: Path) -> tuple[SiloService, Callable[[str], Pieces]]:
    """The service of the silo that a configuration file describes, and its storage for runs.

    Raises:
        InputError: the configuration, the consent or a key cannot be read, or the state folder is
            wrong.
    """
    silo = SiloConfig.read(config)
    secret = own_secret(silo.state) if silo.secret else None
    service = SiloService(
        silo.name,
        lru_cache(maxsize=1)(lambda: own_graph(silo.data, secret or 0)),
        consent=Consent.read(silo.consent),
        disclosures=own_disclosures(silo.state),
        secret=secret,
        results=silo.state / "results",
        link_keys=own_keyring(silo),
    )
    return service, lambda run: Files(silo.state / "runs" / run)


def own_graph(folder: Path, seed: int) -> Graph:
    """A silo's graph, columns in the order of their names.

    If it has no split, one is drawn: 60/20/20 of every class.
    """
    graph = canonical(read_graph(folder))
    if (graph.split == Part.NONE).all():
        graph = graph.with_split(splits.draw(graph, splits.SplitSpec(), Seeds(seed)))
    return graph


def own_secret(state: Path) -> int:
    """The silo's secret number: drawn on first use, and the same ever after."""
    files = Files(state)
    if files.load(SECRET) is None:
        files.save(SECRET, str(secrets.randbits(128)).encode())
    text = files.load(SECRET) or b""
    if not text.isdigit():
        raise DataError(
            f"{state / SECRET}: expected a whole number (got something else); delete the file to "
            "draw a new secret"
        )
    return int(text)


def own_disclosures(state: Path) -> DisclosureLog:
    """The silo's disclosure log.

    A silo that was set up earlier continues its log under the earlier file name. The file is not
    renamed: it may be open in another process, be append-only, or be watched under its name, and
    the counts of what left, the hash chain and noted heads need all lines in one file.

    Raises:
        DataError: there are two logs, so that what left could be counted in the wrong one.
    """
    file, earlier = state / DISCLOSURES, state / _EARLIER_DISCLOSURES
    if not earlier.exists():
        return DisclosureLog(file)
    if file.exists():
        raise DataError(
            f"{state} has two disclosure logs, {DISCLOSURES} and {_EARLIER_DISCLOSURES}; keep the "
            "one that this silo wrote last, and archive the other outside this folder"
        )
    return DisclosureLog(earlier)
