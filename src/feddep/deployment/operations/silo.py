"""A silo from its configuration file: data, consent, ledger, secret and memory on its own disk."""

import secrets
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from feddep.deployment.operations.config import SiloConfig
from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.disclosure_log import DisclosureLog
from feddep.deployment.protocol.memory import Files, Pieces
from feddep.deployment.protocol.silo_service import SiloService
from feddep.errors import DataError
from feddep.graph import splits
from feddep.graph.folder import read_graph
from feddep.graph.graph import Graph, Part
from feddep.seeding import Seeds

LEDGER, SECRET = "ledger.jsonl", "secret"


@lru_cache(maxsize=1)
def open_service(config: Path) -> tuple[SiloService, Callable[[str], Pieces]]:
    """The silo that a file describes, and where it remembers its runs.

    Raises:
        InputError: the file, the data or the consent cannot be read.
    """
    silo = SiloConfig.read(config)
    secret = own_secret(silo.state) if silo.secret else None
    service = SiloService(
        silo.name,
        lru_cache(maxsize=1)(lambda: own_graph(silo.data, secret or 0)),
        consent=Consent.read(silo.consent),
        disclosures=DisclosureLog(silo.state / LEDGER),
        secret=secret,
        results=silo.state / "results",
    )
    return service, lambda run: Files(silo.state / "runs" / run)


def own_graph(folder: Path, seed: int) -> Graph:
    """A silo's data. Without a split of its own, every class is divided 60/20/20."""
    graph = read_graph(folder)
    if (graph.split == Part.NONE).all():
        graph = graph.with_split(splits.draw(graph, splits.SplitSpec(), Seeds(seed)))
    return graph


def own_secret(state: Path) -> int:
    """The silo's secret number; drawn when it is first asked for, and the same ever after."""
    files = Files(state)
    if files.load(SECRET) is None:
        files.save(SECRET, str(secrets.randbits(128)).encode())
    text = files.load(SECRET) or b""
    if not text.isdigit():
        raise DataError(f"{state / SECRET} holds no secret number; delete it to draw a new one")
    return int(text)
