"""Envelopes as Flower's records: there and back, and whatever else a record holds is refused."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from feddep.errors import DataError
from feddep.federation.messages import pack
from feddep.runtime.envelope import Envelope
from feddep.runtime.flower.codec import from_record, to_record

DTYPES = (bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.float32, np.float64)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
headers = st.dictionaries(st.text(), plain, max_size=4)
arrays = hnp.arrays(
    st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
)


def same(one: Envelope, other: Envelope) -> bool:
    return (
        one.header == other.header
        and one.arrays.keys() == other.arrays.keys()
        and all(
            (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
            for a, b in ((one.arrays[name], other.arrays[name]) for name in one.arrays)
        )
    )


def record_of(text: object, data: bytes | None = None, stype: str = "feddep.packed") -> RecordDict:
    record = RecordDict({"header": ConfigRecord({"json": text})})
    if data is not None:
        whole = Array(dtype="uint8", shape=(len(data),), stype=stype, data=data)
        record["arrays"] = ArrayRecord({"packed": whole})
    return record


@settings(max_examples=60)
@given(headers, st.dictionaries(st.text(max_size=5), arrays, max_size=3))
def test_there_and_back(header, content):
    envelope = Envelope(header, content)
    assert same(from_record(to_record(envelope)), envelope)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_that_may_travel_and_arrays_without_numbers(dtype):
    content = {"some": np.ones((2, 3), dtype), "none": np.zeros((0, 4), dtype)}
    content["one"] = np.array(1, dtype)
    assert same(from_record(to_record(Envelope({}, content))), Envelope({}, content))


def test_without_arrays_only_a_header_travels():
    assert list(to_record(Envelope({"kind": "hello"}))) == ["header"]


def test_envelopes_with_the_same_arrays_share_one_object():
    weights = {"classifier/bias": np.arange(4.0)}
    one, other = (to_record(Envelope({"client": number}, weights)) for number in (0, 1))
    assert one["arrays"].object_id == other["arrays"].object_id
    assert one["header"].object_id != other["header"].object_id


def test_what_may_not_travel_is_not_packed():
    with pytest.raises(DataError, match="complex"):
        to_record(Envelope({}, {"phase": np.ones(2, complex)}))


GARBAGE = {
    "nothing": RecordDict(),
    "another record": RecordDict({"header": MetricRecord({"json": 1})}),
    "no JSON in the header": RecordDict({"header": ConfigRecord({"text": "{}"})}),
    "arrays in the header's place": RecordDict({"header": ArrayRecord([np.ones(2)])}),
    "no JSON": record_of("{"),
    "a list": record_of("[]"),
    "a number": record_of(3),
    "bytes": record_of(b"{}"),
    "lists": record_of(["{", "}"]),
    "too deep": record_of("[" * 100_000),
    "a number that is too long": record_of("1" * 5_000),
    "other arrays": record_of("{}", pack({}, {"a": np.ones(2)}), stype="numpy.ndarray"),
    "no arrays": record_of("{}", b""),
    "half of the arrays": record_of("{}", pack({}, {"a": np.ones(2)})[:-3]),
    "a second header": record_of("{}", pack({"kind": "hello"}, {})),
}


@pytest.mark.parametrize("record", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_refused(record):
    with pytest.raises(DataError):
        from_record(record)


def test_arrays_under_another_name_are_refused():
    record = record_of("{}")
    record["arrays"] = ArrayRecord([np.ones(2)])
    with pytest.raises(DataError):
        from_record(record)
