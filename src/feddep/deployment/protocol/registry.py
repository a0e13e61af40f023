"""Whose key is behind each address: the server's own list, against which silos' words are held.

A silo's name, in its introduction, is its own word. The key with which it signed in is not, and the
server's operator has said whose each key is (``silos/NAME.pub``).
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from feddep.errors import InputError
from feddep.reading import json_of, plain_text
from feddep.runs.files import write_atomically
from feddep.runtime.envelope import Channel, Envelope, Undelivered

log = logging.getLogger("feddep")


@dataclass(frozen=True)
class Registered:
    """A silo that the operator lets in.

    Attributes:
        name: what its key's file is called.
        key: fingerprint of the key.
    """

    name: str
    key: str


Registry = Mapping[int, Registered]
"""Who is registered, by address."""


def write_registry(file: Path, registry: Registry) -> None:
    """Stores a registry for the server's part of a run."""
    rows = {str(address): asdict(own) for address, own in registry.items()}
    write_atomically(file, json.dumps(rows, indent=1) + "\n")


def read_registry(file: Path) -> dict[int, Registered]:
    """Reads what :func:`write_registry` wrote.

    Raises:
        InputError: the file is missing or holds something else.
    """
    try:
        rows = json_of(plain_text(file))
        return {int(address): Registered(**own) for address, own in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"cannot read {file}, which says whose key is whose ({error}); restart the server"
        ) from None


class RegisteredOnly:
    """A channel on which nobody but registered silos can be met or written to.

    Args:
        channel: carries the envelopes.
        registry: who may be met.
    """

    def __init__(self, channel: Channel, registry: Registry) -> None:
        self._channel, self._registry = channel, registry

    def addresses(self) -> Sequence[int]:
        """The addresses of the registered silos that are connected now."""
        return [address for address in self._channel.addresses() if address in self._registry]

    def deliver(
        self, envelopes: Mapping[int, Envelope], seconds: float
    ) -> dict[int, Envelope | Undelivered]:
        """Delivers the envelopes to registered silos, and the others to nobody."""
        own = {a: envelope for a, envelope in envelopes.items() if a in self._registry}
        return self._channel.deliver(own, seconds)


def true_names(
    met: Mapping[int, Mapping[str, Any]], registry: Registry
) -> dict[int, Mapping[str, Any]]:
    """The introductions of silos that call themselves what their keys' files are called.

    The others are named in the log, and are as good as absent.
    """
    honest = {a: own for a, own in met.items() if own.get("name") == registry[a].name}
    for address in met.keys() - honest.keys():
        claimed = str(met[address].get("name"))[:40]
        log.warning(
            "the silo with the key %s.pub calls itself %r, and is left out; its operator should "
            "correct the name in silo.toml",
            registry[address].name,
            claimed,
        )
    return honest
