"""What stands in an envelope's header, whose sender is not trusted."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from feddep.errors import InputError
from feddep.federation.messages import Request, pack
from feddep.runtime.envelope import Envelope

_WORDS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_ -]{0,63}")  # some become file names


def envelope_hash(envelope: Envelope) -> str:
    """A hash of an envelope.

    A request and its silent replay differ, since only the first one's answer counts as sent.
    """
    header = {key: value for key, value in envelope.header.items() if key != "best"}
    text = json.dumps(header, sort_keys=True)
    return hashlib.sha256(text.encode() + pack({}, envelope.arrays)).hexdigest()


def text_in(header: Mapping[str, Any], key: str) -> str:
    """A few words that may become a file's name."""
    value = header.get(key)
    if not isinstance(value, str) or not _WORDS.fullmatch(value):
        raise InputError(f"an envelope needs a valid {key} (got {value!r})")
    return value


def number_in(header: Mapping[str, Any], key: str) -> int:
    """A whole number from 0."""
    value = header.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"an envelope needs a {key}, a whole number from 0 (got {value!r})")
    return value


def request_in(envelope: Envelope, known: Mapping[str, Any]) -> Request:
    """The request in an envelope.

    Args:
        envelope: what the server sent.
        known: the agreement that it belongs to, as plain values.

    Raises:
        InputError: it is none, or another client's.
    """
    header = envelope.header
    client = number_in(header, "client")
    if client != known["client"]:
        raise InputError(f"this silo is client {known['client']} of the run (got {client})")
    phase, step, round_ = (
        text_in(header, "phase"),
        text_in(header, "step"),
        number_in(header, "round"),
    )
    return Request(client, phase, step, round_, envelope.arrays)
