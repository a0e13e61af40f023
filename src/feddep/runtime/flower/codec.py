"""Our messages as Flower's records: a header in JSON, and all arrays as one piece.

The piece is :func:`~feddep.federation.messages.pack`'s, not one array of Flower's for each of
ours: it is read back without a copy and refuses whatever is no array of numbers. The header stands
apart, so that what all clients get alike is one object, which Flower stores and sends once.
"""

import json
from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from feddep.errors import DataError
from feddep.federation.messages import Arrays, pack, unpack
from feddep.runtime.envelope import Envelope

_HEADER, _ARRAYS, _PACKED = "header", "arrays", "feddep.packed"


def to_record(envelope: Envelope) -> RecordDict:
    """A envelope as the content of a Flower message."""
    record = RecordDict({_HEADER: ConfigRecord({"json": json.dumps(envelope.header)})})
    if envelope.arrays:
        data = pack({}, envelope.arrays)
        whole = Array(dtype="uint8", shape=(len(data),), stype=_PACKED, data=data)
        record[_ARRAYS] = ArrayRecord({"packed": whole})
    return record


def from_record(record: RecordDict) -> Envelope:
    """The inverse of :func:`to_record`.

    Raises:
        DataError: it is something else.
    """
    try:
        header = json.loads(str(record.config_records[_HEADER]["json"]))
        if not isinstance(header, Mapping):
            raise ValueError(f"the header is a {type(header).__name__}")
        arrays: Arrays = {}
        if _ARRAYS in record.array_records:
            arrays = _arrays(record.array_records[_ARRAYS]["packed"])
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"expected a message of feddep's, got something else ({error})") from None
    return Envelope(dict(header), arrays)


def _arrays(whole: Array) -> dict[str, Any]:
    if whole.stype != _PACKED:
        raise ValueError(f"the arrays are packed as {whole.stype!r}")
    header, arrays = unpack(whole.data)
    if header:
        raise ValueError("the arrays bring a header of their own")
    return arrays
