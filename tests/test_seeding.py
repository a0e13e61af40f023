"""Named random streams."""

import hmac

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddep.seeding import Seeds

names = st.lists(st.one_of(st.text(max_size=4), st.integers(0, 20)), max_size=4).map(tuple)


def test_a_stream_is_the_same_whenever_it_is_made():
    seeds = Seeds(7)
    seeds.stream("other").random(3)
    first = seeds.stream("client", 3, "sampling").random(4)
    assert np.array_equal(first, Seeds(7).stream("client", 3, "sampling").random(4))


def test_a_stream_never_changes_between_releases():
    # Stored results depend on these numbers.
    assert Seeds(0).integer("client", 3) == 261024245425417312718346246109115459863
    assert Seeds(0).stream("client", 3).integers(0, 1000, 4).tolist() == [521, 605, 298, 0]


def test_a_key_never_changes_between_releases():
    # A silo that flipped a graph before must flip it alike: a second answer would reveal more.
    text = b"('key', 'client', 3, 'dp-sgd')"
    expected = hmac.new(b"5", text, "sha256").digest()
    assert Seeds(5).child("client").key(np.int64(3), "dp-sgd") == expected


def test_every_stream_is_fresh_from_its_beginning():
    seeds = Seeds(1)
    assert seeds.stream("a").random() == seeds.stream("a").random()


@given(names, names)
def test_a_child_is_only_a_longer_name(path, rest):
    assert Seeds(5).child(*path).integer(*rest) == Seeds(5).integer(*path, *rest)


@given(names, names)
def test_different_names_give_different_streams(one, other):
    assert (Seeds(5).integer(*one) == Seeds(5).integer(*other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"), [(("ab", "c"), ("a", "bc")), (("1",), (1,)), (("a",), ("a", ""))]
)
def test_names_do_not_run_together(one, other):
    assert Seeds(0).integer(*one) != Seeds(0).integer(*other)


def test_the_root_changes_every_stream():
    assert Seeds(0).integer("a") != Seeds(1).integer("a")


def test_a_number_from_numpy_names_the_same_stream():
    expected = Seeds(2).integer("client", 3)
    assert Seeds(np.int64(2)).integer("client", np.int32(3)) == expected


def test_streams_are_not_correlated():
    draws = np.stack([Seeds(0).stream("client", i).standard_normal(2000) for i in range(20)])
    correlation = np.corrcoef(draws) - np.eye(20)
    assert np.abs(correlation).max() < 5 / np.sqrt(2000)
