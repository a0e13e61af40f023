"""Envelopes as Flower records: the header as JSON, and all arrays packed into one.

The arrays are packed by :func:`~feddep.federation.messages.pack` rather than becoming one Flower
array each: they are read back without a copy, and anything but arrays of numbers is refused. The
header is a record of its own, so that arrays that go to all clients are one object, which Flower
stores and sends once.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from feddep.errors import DataError
from feddep.federation.messages import Arrays, pack, unpack
from feddep.runtime.envelope import Envelope

_HEADER, _ARRAYS, _PACKED = "header", "arrays", "feddep.packed"


def to_record(envelope: Envelope) -> RecordDict:
    """An envelope as the content of a Flower message."""
    record = RecordDict({_HEADER: ConfigRecord({"json": json.dumps(envelope.header)})})
    if envelope.arrays:
        data = pack({}, envelope.arrays)
        whole = Array(dtype="uint8", shape=(len(data),), stype=_PACKED, data=data)
        record[_ARRAYS] = ArrayRecord({"packed": whole})
    return record


def from_record(record: RecordDict) -> Envelope:
    """The inverse of :func:`to_record`.

    Raises:
        DataError: the record holds something else.
    """
    try:
        header = json.loads(str(record.config_records[_HEADER]["json"]))
        if not isinstance(header, Mapping):
            raise ValueError(f"its header is a {type(header).__name__}, not an object")
        arrays: Arrays = {}
        if _ARRAYS in record.array_records:
            arrays = _arrays(record.array_records[_ARRAYS]["packed"])
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"expected a feddep envelope, got something else ({error})") from None
    return Envelope(dict(header), arrays)


def reply_to(message: Message, answer: Callable[[Envelope], Envelope]) -> Message:
    """Answers a Flower message; one without an envelope in it is refused.

    Args:
        message: what Flower delivered.
        answer: answers the envelope in it.
    """
    try:
        envelope = from_record(message.content)
    except DataError as error:
        reply = Envelope({"refused": str(error)})
    else:
        reply = answer(envelope)
    return Message(to_record(reply), reply_to=message)


def _arrays(whole: Array) -> dict[str, Any]:
    if whole.stype != _PACKED:
        raise ValueError(f"its arrays are packed as {whole.stype!r}, not {_PACKED!r}")
    header, arrays = unpack(whole.data)
    if header:
        raise ValueError("its arrays have a header of their own")
    return arrays
