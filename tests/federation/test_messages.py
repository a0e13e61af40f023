"""Messages: groups of arrays, and one piece of bytes without pickle."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from feddep.errors import DataError
from feddep.federation.messages import (
    group,
    group_of,
    grouped,
    in_batches,
    pack,
    payload_bytes,
    unpack,
)

names = st.text(alphabet="abz/0.-", min_size=1, max_size=6)
arrays = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
headers = st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=5)))


ARRAYS = {"classifier/bias": np.ones(2), "classifier/own/0": np.ones(3), "loss": np.ones(1)}


class TestGroups:
    def test_a_group_is_its_parts_without_its_name(self):
        assert set(group(ARRAYS, "classifier")) == {"bias", "own/0"}

    def test_a_group_is_not_confused_with_a_longer_name(self):
        found = group({"1/a": np.ones(1), "10/b": np.ones(1), "1": np.ones(1)}, "1")
        assert set(found) == {"a"}

    def test_a_group_that_is_not_there_is_empty(self):
        assert group(ARRAYS, "prototypes") == {}

    @given(names, st.dictionaries(names, arrays))
    def test_grouping_is_undone_by_taking_the_group(self, name, parts):
        found = group(grouped(name, parts), name)
        assert found.keys() == parts.keys()
        assert all(found[key] is parts[key] for key in parts)

    def test_the_group_is_what_stands_before_the_first_stroke(self):
        found = [group_of(key) for key in ("classifier/own/0", "loss")]
        assert found == ["classifier", "loss"]


def test_payload_counts_the_bytes_of_the_arrays():
    assert payload_bytes({"a": np.zeros((3, 2), np.float32), "b": np.zeros(5, np.int64)}) == 64
    assert payload_bytes({}) == 0


class TestPack:
    @given(headers, st.dictionaries(names, arrays, max_size=4))
    def test_there_and_back(self, header, content):
        found_header, found = unpack(pack(header, content))
        assert found_header == header
        assert found.keys() == content.keys()
        for name, array in content.items():
            assert found[name].dtype == array.dtype
            assert found[name].shape == array.shape
            assert found[name].tobytes() == array.tobytes()

    def test_a_number_stays_a_number(self):
        _, found = unpack(pack({}, {"loss": np.array(0.5)}))
        assert found["loss"].shape == ()
        assert float(found["loss"]) == 0.5

    def test_views_are_stored_by_value(self):
        base = np.arange(12).reshape(3, 4)
        _, found = unpack(pack({}, {"turned": base.T, "thinned": base[:, ::2]}))
        assert np.array_equal(found["turned"], base.T)
        assert np.array_equal(found["thinned"], base[:, ::2])

    def test_numbers_that_are_not_finite_survive(self):
        header, found = unpack(pack({"loss": float("nan")}, {"x": np.array([np.inf, np.nan])}))
        assert np.isnan(header["loss"])
        assert np.array_equal(found["x"], [np.inf, np.nan], equal_nan=True)


def crafted(content, body=b""):
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text + body


def with_array(dtype, shape, body=bytes(8)):
    # Spaces, so that the array starts where it should.
    text = json.dumps({"header": {}, "arrays": [["x", dtype, shape]]}).encode()
    return crafted(text + b" " * (-len(text) % 8), body)


class TestUnpackRefuses:
    def test_what_is_crafted_below_would_pass_if_it_were_right(self):
        _, found = unpack(with_array("<f4", [2]))
        assert found["x"].tolist() == [0, 0]

    @given(st.binary(max_size=60))
    def test_garbage(self, data):
        with pytest.raises(DataError, match="expected a packed message"):
            unpack(data)

    @given(st.integers(0, 10**6))
    def test_a_message_that_was_cut_off(self, cut):
        whole = pack({"call": "handle"}, {"x": np.arange(5)})
        with pytest.raises(DataError):
            unpack(whole[: cut % len(whole)])

    def test_a_message_with_something_behind_it(self):
        with pytest.raises(DataError):
            unpack(pack({}, {"x": np.arange(5)}) + bytes(8))

    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(crafted([]), id="content is a list"),
            pytest.param(crafted({"header": {}}), id="no list of arrays"),
            pytest.param(crafted({"header": 3, "arrays": []}), id="header is a number"),
            pytest.param(crafted(b"[" * 50_000), id="content is nested without end"),
            pytest.param(crafted(b"\xff\xfe"), id="content is not text"),
            pytest.param(with_array("|O", [1]), id="objects"),
            pytest.param(with_array(["<f4"], [1]), id="type is a list"),
            pytest.param(with_array("<f4", [9]), id="array too short"),
            pytest.param(with_array("<f4", [-1]), id="array of any length"),
            pytest.param(with_array("<f4", [10**30]), id="array of astronomical length"),
            pytest.param(with_array("<f4", [1.0]), id="array of fractional length"),
            pytest.param(with_array("<f4", 2), id="shape is a number"),
            pytest.param(b"\xff" * 8, id="content longer than the message"),
            pytest.param(b"cos\nsystem\n(S'true'\ntR.", id="pickle"),
        ],
    )
    def test_what_only_looks_like_a_message(self, data):
        with pytest.raises(DataError, match="expected a packed message"):
            unpack(data)


@pytest.mark.parametrize("dtype", ["U3", "O", "c8", ">i4"])
def test_an_array_that_could_not_be_read_back_is_refused_by_name(dtype):
    with pytest.raises(DataError, match="cannot hold 'codes'"):
        pack({}, {"codes": np.zeros(2, dtype)})


def test_what_clients_sent_is_passed_on_in_portions():
    """One client's large message does not add to those of the others."""
    sent = {i: {"a": np.zeros(n, np.int8)} for i, n in enumerate([3, 4, 9, 1, 1])}
    found = list(in_batches(sent, room=8))
    assert [list(some) for some in found] == [[0, 1], [2], [3, 4]]
    assert {k: v for some in found for k, v in some.items()} == sent
    assert list(in_batches({}, room=8)) == [{}]


def test_an_array_under_several_names_is_stored_once_and_read_back_as_one():
    one, other = np.arange(1000.0), np.arange(3)
    arrays = {"a": one, "b": other, "c": one, "d": one}
    data = pack({"round": 1}, arrays, once=True)
    assert len(data) < 8000 + 300
    header, found = unpack(data, once=True)
    assert header == {"round": 1}
    assert list(found) == list(arrays)
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)
    assert found["a"] is found["c"] is found["d"]


def test_a_message_from_others_says_of_every_array_what_it_is():
    """Otherwise a small message could hold any number of arrays."""
    data = pack({}, {"a": np.zeros(5), **dict.fromkeys("bc", np.ones(2))}, once=True)
    with pytest.raises(DataError):
        unpack(data)
    assert unpack(pack({}, dict.fromkeys("bc", np.ones(2))))[1].keys() == {"b", "c"}


@pytest.mark.parametrize("place", [1, 10**9, -9, "0", None, [0]])
def test_an_array_that_was_not_stored_before(place):
    text = json.dumps({"header": {}, "arrays": [["a", "<f8", [0]], ["b", place]]}).encode()
    text += b" " * (-len(text) % 8)
    with pytest.raises(DataError):
        unpack(len(text).to_bytes(8, "little") + text, once=True)
