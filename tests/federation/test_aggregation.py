"""The weighted mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agreement import assert_agree
from feddep.errors import InputError
from feddep.federation.aggregation import weighted_mean


def arrays(*rows, dtype=np.float32):
    return [{"w": np.array(row, dtype)} for row in rows]


def test_worked_numbers():
    mean = weighted_mean(arrays([1, 10], [4, 40]), [2, 1])
    assert mean["w"].tolist() == [2, 20]


def test_every_array_is_averaged_under_its_name():
    one = {"a": np.zeros(2), "b": np.zeros((1, 3))}
    other = {"b": np.full((1, 3), 4.0), "a": np.full(2, 2.0)}
    mean = weighted_mean([one, other], [1, 1])
    assert {name: array.tolist() for name, array in mean.items()} == {
        "a": [1, 1],
        "b": [[2, 2, 2]],
    }


def test_a_client_of_weight_zero_does_not_count():
    assert weighted_mean(arrays([1], [1000]), [3, 0])["w"].tolist() == [1]


def test_nobody_to_average_is_refused():
    with pytest.raises(InputError, match="no client has a training node"):
        weighted_mean(arrays([1], [2]), [0, 0])


def test_the_result_keeps_the_type_but_sums_are_in_double_precision():
    # In single precision 2^24 + 1 + 1 - 2^24 loses both ones.
    mean = weighted_mean(arrays([2.0**24], [1], [1], [-(2.0**24)]), [1, 1, 1, 1])
    assert mean["w"].dtype == np.float32
    assert mean["w"].tolist() == [0.5]


def test_what_all_clients_agree_on_stays_as_it_is():
    weights = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    mean = weighted_mean([{"w": weights}] * 3, [26, 8, 13])
    assert np.array_equal(mean["w"], weights)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"w": np.ones((1, 2))}, id="could be stretched"),
        pytest.param({"v": np.ones((2, 2))}, id="other name"),
        pytest.param({"w": np.ones((2, 2)), "v": np.ones(1)}, id="one more"),
    ],
)
def test_other_names_or_shapes_are_refused(other):
    one = {"w": np.ones((2, 2))}
    with pytest.raises(InputError, match="update 3 of 3 does not match the first one: "):
        weighted_mean([one, one, other], [1, 1, 1])


def test_what_came_in_is_not_changed():
    clients = arrays([1.0], [3.0])
    weighted_mean(clients, [1, 1])
    assert [client["w"].tolist() for client in clients] == [[1], [3]]


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=6), st.data())
def test_the_mean_lies_between_the_clients(values, data):
    weight = st.floats(1, 100)
    weights = data.draw(st.lists(weight, min_size=len(values), max_size=len(values)))
    mean = weighted_mean(arrays(*([v] for v in values)), weights)["w"][0]
    # Summed in double precision, and rounded once.
    largest = max(map(abs, values))
    assert_agree(mean, np.average(values, weights=weights), terms=1, scale=largest)
    assert_agree(mean, np.clip(mean, min(values), max(values)), terms=1, scale=largest)
